"""Tiny random models with a byte tokenizer, made on the spot, saved as ordinary Hugging Face folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

CHAT = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}<|assistant|>"


CHAT_PARTS = (
    "{% for m in messages %}<|{{ m.role }}|>{% for part in m.content %}{% if part.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}{{ eos_token }}"
    "{% endfor %}<|assistant|>"
)
MARKS = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]


def byte_tokenizer(*, chat: bool) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {"<pad>": 0, "<bos>": 1, "<eos>": 2, **{c: i + 3 for i, c in enumerate(alphabet)}}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>")
    if chat:
        fast.chat_template = CHAT
    return fast


def tiny_model(folder: Path, kind: str, *, chat: bool = True, **settings: Any) -> Path:
    """`kind` is a family of transformers: Qwen2, Qwen3, Llama; `settings` of its configuration go over those here."""
    import transformers

    torch.manual_seed(0)
    given = {
        "vocab_size": 259,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        **({"head_dim": 8} if kind == "Qwen3" else {}),
        **settings,
    }
    config = getattr(transformers, f"{kind}Config")(**given)
    getattr(transformers, f"{kind}ForCausalLM")(config).save_pretrained(folder)
    byte_tokenizer(chat=chat).save_pretrained(folder)
    return folder


def tiny_vision_model(folder: Path, *, scale: float = 1.0) -> Path:
    """A Qwen2.5-VL of two layers and a vision tower of two, with its processor; a picture of 56 x 56 pixels has 4
    tokens. `scale` multiplies the random weights: larger ones make mistakes visible."""
    import transformers

    from rollwise.vision.reader import pictures_only

    tokenizer = byte_tokenizer(chat=False)
    tokenizer.add_special_tokens({"additional_special_tokens": MARKS})
    tokenizer.chat_template = CHAT_PARTS
    start, end, image, video = tokenizer.convert_tokens_to_ids(MARKS)
    torch.manual_seed(0)
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0},
    }
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_heads": 2,
        "window_size": 56,
        "out_hidden_size": 32,
        "fullatt_block_indexes": [1],
    }
    config = transformers.Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = transformers.Qwen2_5_VLForConditionalGeneration(config)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(scale)
    model.save_pretrained(folder)
    pictures = transformers.Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=28 * 28 * 64)
    family = pictures_only(transformers.Qwen2_5_VLProcessor)
    family(image_processor=pictures, tokenizer=tokenizer, chat_template=CHAT_PARTS).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
