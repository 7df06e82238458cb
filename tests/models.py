"""Tiny random models with a byte tokenizer, made on the spot, saved as ordinary Hugging Face folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

CHAT = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}<|assistant|>"


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


def tiny_model(folder: Path, kind: str, *, chat: bool = True) -> Path:
    """`kind` is a family of transformers: Qwen2, Qwen3, Llama."""
    import transformers

    torch.manual_seed(0)
    extra = {"head_dim": 8} if kind == "Qwen3" else {}
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=259,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        **extra,
    )
    getattr(transformers, f"{kind}ForCausalLM")(config).save_pretrained(folder)
    byte_tokenizer(chat=chat).save_pretrained(folder)
    return folder
