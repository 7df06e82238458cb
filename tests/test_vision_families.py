"""Other families of image-text models: those that can be fed row by row, and one that says it cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from rollwise.errors import UserError
from rollwise.learner.logprobs import completion_logprobs, pack, unpadded
from rollwise.policy import Policy, load_policy, wrap
from rollwise.records import Prompt, Request, Sampling
from rollwise.sampling.torch_sampler import TorchSampler
from rollwise.vision.reader import Vision, pictures_only
from tests.vision import mixed
from tests.vision_families import build


def policy(name: str) -> Policy:
    model, processor = build(name)
    vision = Vision(processor, model, min_pixels=784, max_pixels=401_408, cache_bytes=2**24)
    return wrap(model, processor.tokenizer, vision)


@pytest.mark.parametrize("name", ["qwen2", "qwen3", "llava", "llava_onevision", "idefics3"])
def test_stored_logprobs_are_those_of_the_models_own_forward_pass(name: str) -> None:
    one = policy(name)
    assert one.vision is not None
    sampler = TorchSampler(one, max_prompt_length=200, max_rows=64)
    how = Sampling(max_completion_length=6)
    groups = sampler.generate([Request(prompt=p, count=2) for p in mixed()], how, run_seed=0, step=1)
    rollouts = [r for g in groups for r in g]
    with torch.no_grad():
        trained, _ = completion_logprobs(one, pack(rollouts, one), logit_budget=10**9)
    for prompt, group in zip(mixed(), groups, strict=True):
        for rollout in group:
            fields = one.vision.whole(prompt)
            ids = torch.cat([fields["input_ids"], torch.from_numpy(rollout.completion_ids).long()[None]], dim=1)
            fields = {n: t for n, t in fields.items() if n not in ("input_ids", "attention_mask")}
            if "mm_token_type_ids" in fields:
                fields["mm_token_type_ids"] = torch.nn.functional.pad(fields["mm_token_type_ids"], (0, rollout.length))
            with torch.no_grad():
                logits = one.open(one.model(input_ids=ids, **fields).logits[0].float())
            start = len(rollout.prompt_ids)
            logp = logits.log_softmax(-1)[start - 1 : -1].gather(1, ids[0, start:, None])[:, 0]
            np.testing.assert_allclose(rollout.logprobs, logp.numpy(), atol=1e-5, rtol=0)
    for rollout, found in zip(rollouts, unpadded(trained, pack(rollouts, one)), strict=True):
        np.testing.assert_allclose(found, rollout.logprobs, atol=1e-5, rtol=0)


def test_attention_in_both_directions_among_the_tokens_of_a_picture_is_refused() -> None:
    with pytest.raises(UserError, match="images of a gemma3 model are not supported here"):
        policy("gemma3")


def test_a_refused_family_is_still_a_text_model_where_it_is_one(tmp_path: Path) -> None:
    model, processor = build("gemma3")
    model.generation_config.eos_token_id = 2
    model.save_pretrained(tmp_path)
    processor.tokenizer.save_pretrained(tmp_path)
    one = load_policy(str(tmp_path))
    assert one.vision is None and len(one.encode(Prompt(uid="p", text="abc"), 9)) == 3
    with pytest.raises(UserError, match=r"prompt one has images, and .*cannot be loaded"):
        one.encode(mixed()[1], 200)


def test_a_processor_that_must_have_video_is_refused() -> None:
    with pytest.raises(UserError, match="SmolVLMProcessor cannot do without its video_processor"):
        pictures_only(transformers.SmolVLMProcessor)
