"""Tiny image-text models of other families with their processors, in memory."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from rollwise.vision.reader import pictures_only
from tests.models import CHAT_PARTS, byte_tokenizer

TEXT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SIGHT = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 56,
    "patch_size": 14,
}
MROPE = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
QWEN_MARKS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
QWEN_MARK = "<|vision_start|><|image_pad|><|vision_end|>"


def tokenizer(*marks: str) -> tuple[Any, list[int]]:
    made = byte_tokenizer(chat=False)
    made.add_special_tokens({"additional_special_tokens": list(marks)})
    return made, made.convert_tokens_to_ids(list(marks))


def template(mark: str) -> str:
    return CHAT_PARTS.replace(QWEN_MARK, mark)


def qwen2() -> tuple[Any, Any]:
    tokens, (start, end, image, video) = tokenizer(*QWEN_MARKS)
    config = transformers.Qwen2VLConfig(
        text_config={**TEXT, "vocab_size": len(tokens), "rope_parameters": MROPE},
        vision_config={"depth": 2, "embed_dim": 32, "hidden_size": 32, "mlp_ratio": 2, "num_heads": 2},
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
    )
    pictures = transformers.Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=28 * 28 * 64)
    return transformers.Qwen2VLForConditionalGeneration(config), pictures_only(transformers.Qwen2VLProcessor)(
        image_processor=pictures, tokenizer=tokens, chat_template=template(QWEN_MARK)
    )


def qwen3() -> tuple[Any, Any]:
    tokens, (start, end, image, video) = tokenizer(*QWEN_MARKS)
    config = transformers.Qwen3VLConfig(
        text_config={**TEXT, "vocab_size": len(tokens), "head_dim": 8, "rope_parameters": MROPE},
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_heads": 2,
            "out_hidden_size": 32,
            "deepstack_visual_indexes": [0],
            "patch_size": 14,
            "num_position_embeddings": 64,
        },
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
    )
    pictures = transformers.Qwen2VLImageProcessorPil(patch_size=14, min_pixels=28 * 28, max_pixels=28 * 28 * 64)
    family = pictures_only(transformers.Qwen3VLProcessor)
    return transformers.Qwen3VLForConditionalGeneration(config), family(
        image_processor=pictures, tokenizer=tokens, chat_template=template(QWEN_MARK)
    )


def llava() -> tuple[Any, Any]:
    tokens, (image,) = tokenizer("<image>")
    config = transformers.LlavaConfig(
        text_config={**TEXT, "model_type": "llama", "vocab_size": len(tokens)},
        vision_config={**SIGHT, "model_type": "clip_vision_model", "projection_dim": 32},
        image_token_id=image,
        image_seq_length=16,
    )
    pictures = transformers.CLIPImageProcessorPil(size={"shortest_edge": 56}, crop_size=56)
    return transformers.LlavaForConditionalGeneration(config), pictures_only(transformers.LlavaProcessor)(
        image_processor=pictures,
        tokenizer=tokens,
        chat_template=template("<image>"),
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )


def llava_onevision() -> tuple[Any, Any]:
    tokens, (image, video) = tokenizer("<image>", "<video>")
    grid = [[28, 28], [28, 56], [56, 28], [56, 56]]
    config = transformers.LlavaOnevisionConfig(
        text_config={**TEXT, "model_type": "qwen2", "vocab_size": len(tokens)},
        vision_config={**SIGHT, "model_type": "siglip_vision_model", "image_size": 28},
        image_token_id=image,
        video_token_id=video,
        image_grid_pinpoints=grid,
        vision_feature_layer=-1,
    )
    pictures = transformers.LlavaOnevisionImageProcessorPil(size={"height": 28, "width": 28}, image_grid_pinpoints=grid)
    family = pictures_only(transformers.LlavaOnevisionProcessor)
    return transformers.LlavaOnevisionForConditionalGeneration(config), family(
        image_processor=pictures,
        tokenizer=tokens,
        chat_template=template("<image>"),
        num_image_tokens=4,
        vision_feature_select_strategy="full",
        vision_aspect_ratio="anyres_max_9",
    )


def idefics3() -> tuple[Any, Any]:
    tokens, (image, *_) = tokenizer("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>")
    config = transformers.Idefics3Config(
        text_config={**TEXT, "model_type": "llama", "vocab_size": len(tokens)},
        vision_config=SIGHT,
        image_token_id=image,
        scale_factor=2,
        pad_token_id=0,
    )
    edge = {"longest_edge": 56}
    pictures = transformers.Idefics3ImageProcessorPil(do_image_splitting=False, size=edge, max_image_size=edge)
    family = pictures_only(transformers.Idefics3Processor)
    return transformers.Idefics3ForConditionalGeneration(config), family(
        image_processor=pictures, tokenizer=tokens, chat_template=template("<image>"), image_seq_len=4
    )


def gemma3() -> tuple[Any, Any]:
    tokens, (start, end, image) = tokenizer("<start_of_image>", "<end_of_image>", "<image_soft_token>")
    for name, token, i in (
        ("image", "<image_soft_token>", image),
        ("boi", "<start_of_image>", start),
        ("eoi", "<end_of_image>", end),
    ):
        setattr(tokens, f"{name}_token", token)
        setattr(tokens, f"{name}_token_id", i)
    config = transformers.Gemma3Config(
        text_config={**TEXT, "vocab_size": len(tokens), "head_dim": 8},
        vision_config=SIGHT,
        mm_tokens_per_image=4,
        boi_token_index=start,
        eoi_token_index=end,
        image_token_index=image,
    )
    pictures = transformers.Gemma3ImageProcessorPil(size={"height": 56, "width": 56})
    return transformers.Gemma3ForConditionalGeneration(config), pictures_only(transformers.Gemma3Processor)(
        image_processor=pictures, tokenizer=tokens, chat_template=template("<start_of_image>"), image_seq_length=4
    )


FAMILIES = {f.__name__: f for f in (qwen2, qwen3, llava, llava_onevision, idefics3, gemma3)}


def build(name: str) -> tuple[Any, Any]:
    """Model, with random weights large enough to make mistakes visible, and processor."""
    torch.manual_seed(0)
    model, processor = FAMILIES[name]()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2.0)
    return model.eval(), processor
