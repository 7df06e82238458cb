"""Image-text models against their own plain forward pass: sampler, learner, and what is refused."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rollwise.config import LearnerConfig, ObjectiveConfig
from rollwise.errors import UserError
from rollwise.learner.critic import Critic
from rollwise.learner.learner import Learner
from rollwise.learner.logprobs import completion_logprobs, pack, sequences, unpadded
from rollwise.policy import Policy, load_policy
from rollwise.records import Batch, Credit, Image, Prompt, Request, Role, Rollout, Row, Sampling, Verdict, VerdictKind
from rollwise.sampling.torch_sampler import TorchSampler
from rollwise.starters import starter_path
from rollwise.vision.reader import Vision
from tests.models import tiny_vision_model
from tests.vision import asked, mixed, picture

HOW = Sampling(max_completion_length=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_vision_model(tmp_path_factory.mktemp("vision"), scale=3.0)


@pytest.fixture(scope="module")
def policy(folder: Path) -> Policy:
    return load_policy(str(folder))


def generate(policy: Policy, prompts: list[Prompt], how: Sampling = HOW, count: int = 4) -> list[list[Rollout]]:
    sampler = TorchSampler(policy, max_prompt_length=200, max_rows=64)
    return sampler.generate([Request(prompt=p, count=count) for p in prompts], how, run_seed=0, step=1)


@pytest.fixture(scope="module")
def rollouts(policy: Policy) -> list[Rollout]:
    return [r for group in generate(policy, mixed()) for r in group]


def plain(policy: Policy, prompt: Prompt, rollout: Rollout, temperature: float) -> np.ndarray:
    """Log-probs of a completion by the model's own forward pass on what its own processor says of the prompt, tokens
    that stand for pictures left out."""
    assert policy.vision is not None
    fields = policy.vision.whole(prompt)
    ids = torch.cat([fields.pop("input_ids"), torch.from_numpy(rollout.completion_ids).long()[None]], dim=1)
    kinds = torch.nn.functional.pad(fields.pop("mm_token_type_ids"), (0, rollout.length))
    fields.pop("attention_mask")
    with torch.no_grad():
        logits = policy.model(input_ids=ids, mm_token_type_ids=kinds, **fields).logits[0].float() / temperature
    kept = [i for i in range(logits.shape[1]) if i not in policy.vision.closed]
    logp = torch.full_like(logits, -torch.inf)
    logp[:, kept] = logits[:, kept].log_softmax(-1)
    start = len(rollout.prompt_ids)
    return logp[start - 1 : -1].gather(1, ids[0, start:, None])[:, 0].numpy()


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_stored_logprobs_are_those_of_a_plain_forward_pass(policy: Policy, temperature: float) -> None:
    how = Sampling(temperature=temperature, max_completion_length=12)
    for prompt, group in zip(mixed(), generate(policy, mixed(), how), strict=True):
        for rollout in group:
            expected = plain(policy, prompt, rollout, temperature)
            np.testing.assert_allclose(rollout.logprobs, expected, atol=1e-5, rtol=0)


def test_what_else_is_in_the_batch_changes_nothing(policy: Policy, rollouts: list[Rollout]) -> None:
    alone = [r for p in mixed() for r in generate(policy, [p])[0]]
    assert [r.completion_ids.tolist() for r in alone] == [r.completion_ids.tolist() for r in rollouts]


def test_each_picture_is_seen_once_for_its_group(policy: Policy) -> None:
    seen: list[int] = []
    hook = policy.model.model.visual.register_forward_pre_hook(
        lambda m, args, k: seen.append(len(args[0])), with_kwargs=True
    )
    generate(policy, mixed(), count=8)
    hook.remove()
    assert policy.vision is not None
    assert seen == [sum(len(policy.vision.inputs(p.images)["pixel_values"]) for p in mixed() if p.images)]


@pytest.mark.parametrize("shares", [True, False])
def test_trainer_and_sampler_agree(policy: Policy, rollouts: list[Rollout], shares: bool) -> None:
    one = dataclasses.replace(policy, shares_prompt=shares)
    assert policy.shares_prompt, "this model can share a prompt among completions, pictures and all"
    assert len(sequences(rollouts, one)) == (4 if shares else 16)
    packed = pack(rollouts, one)
    with torch.no_grad():
        logp, entropy = completion_logprobs(one, packed, logit_budget=10**9, entropy=True)
    for rollout, found in zip(rollouts, unpadded(logp, packed), strict=True):
        np.testing.assert_allclose(found, rollout.logprobs, atol=1e-5, rtol=0)
    assert entropy is not None and bool(torch.isfinite(entropy).all())
    assert float(entropy.max()) < np.log(policy.vocab_size)


def test_pictures_swapped_between_prompts_would_be_seen(policy: Policy, rollouts: list[Rollout]) -> None:
    one, other = rollouts[4:8], rollouts[12:]
    assert one[0].prompt_ids.tolist() == other[0].prompt_ids.tolist(), "only the pictures differ"
    swapped = [dataclasses.replace(a, images=b.images) for a, b in zip(one, other, strict=True)]
    packed = pack(swapped, policy)
    with torch.no_grad():
        logp, _ = completion_logprobs(policy, packed, logit_budget=10**9)
    worst = max(float(np.abs(f - r.logprobs).max()) for f, r in zip(unpadded(logp, packed), one, strict=True))
    assert worst > 1e-2


def test_tokens_that_stand_for_pictures_are_never_sampled(folder: Path) -> None:
    policy = load_policy(str(folder))
    assert policy.vision is not None
    closed = set(policy.vision.closed)
    assert len(closed) == 4
    with torch.no_grad():  # as likely as anything else together
        policy.model.lm_head.weight[list(closed)] *= 10

    def drawn() -> set[int]:
        how = Sampling(temperature=3.0, max_completion_length=16)
        return {int(i) for g in generate(policy, mixed(), how, count=16) for r in g for i in r.completion_ids}

    assert not drawn() & closed
    policy.closed = None
    assert drawn() & closed, "they would be, were they not left out"


def test_a_prompt_counts_its_pictures_and_is_never_cut(policy: Policy) -> None:
    prompt = asked("p", "x", picture(0, 84, 84), picture(1, 56, 112))
    ids = policy.encode(prompt, 200)
    assert policy.vision is not None and policy.vision.image_tokens(ids) == 9 + 8
    assert len(policy.encode(prompt, len(ids))) == len(ids)
    with pytest.raises(
        UserError, match=rf"prompt p has {len(ids)} tokens \(17 of them of its images; .*allows 1 to"
    ) as e:
        policy.encode(prompt, len(ids) - 1)
    assert "\n" not in str(e.value)


def test_pictures_are_scaled_by_the_setting(folder: Path) -> None:
    small = load_policy(str(folder), max_pixels=60 * 60)
    assert small.vision is not None
    assert small.vision.image_tokens(small.encode(asked("p", "x", picture(0, 600, 600)), 200)) == 4


WRONG = {
    "no place": (Prompt(uid="p", messages=[{"role": "user", "content": "x"}], images=(picture(0),)), "1 images and 0"),
    "no image": (Prompt(uid="p", messages=[{"role": "user", "content": [{"type": "image"}]}]), "0 images and 1 places"),
    "no messages": (Prompt(uid="p", text="x", images=(picture(0),)), "no messages"),
    "a mark in a message": (asked("p", "see <|image_pad|>"), r"its text holds <\|image_pad\|>"),
    "a mark in a text": (Prompt(uid="p", text="<|vision_start|>"), r"its text holds <\|vision_start\|>"),
    "damaged": (asked("p", "x", Image(b"no picture")), "prompt p: image 1 cannot be read"),
    "thin": (asked("p", "x", picture(0, 4000, 2)), "prompt p: .*aspect ratio"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_prompt_that_cannot_be_read_is_one_line(policy: Policy, what: str) -> None:
    prompt, words = WRONG[what]
    with pytest.raises(UserError, match=words) as error:
        policy.encode(prompt, 1000)
    assert "\n" not in str(error.value)


def test_texts_without_pictures_are_read_by_both_kinds_of_model(policy: Policy) -> None:
    assert len(policy.encode(Prompt(uid="p", text="abc"), 100)) == 3
    chat = Prompt(uid="p", messages=[{"role": "user", "content": "abc"}])
    assert policy.encode(chat, 100).tolist() == policy.encode(asked("p", "abc"), 100).tolist()
    text = load_policy(str(starter_path("sort_digits")))
    parts = dataclasses.replace(chat, messages=[{"role": "user", "content": [{"type": "text", "text": "12="}]}])
    whole = dataclasses.replace(chat, messages=[{"role": "user", "content": "12="}])
    assert text.encode(parts, 100).tolist() == text.encode(whole, 100).tolist()
    with pytest.raises(UserError, match="prompt p has images, and this model reads text only"):
        text.encode(asked("p", "12=", picture(0)), 100)
    with pytest.raises(UserError, match=r"learner\.freeze_vision is true, and this model reads text only"):
        text.freeze_vision()


def test_a_folder_without_a_processor_is_one_line(tmp_path: Path) -> None:
    folder = tiny_vision_model(tmp_path / "m")
    (folder / "processor_config.json").unlink()
    with pytest.raises(UserError, match=r"cannot be loaded \(Can't load image processor"):
        load_policy(str(folder))


@pytest.mark.parametrize("what", ["positions", "order"])
def test_a_model_fed_wrongly_is_refused_when_it_is_loaded(
    folder: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "positions":
        monkeypatch.setattr(Vision, "positions", lambda self, ids, images: np.tile(np.arange(len(ids)), (3, 1)))
    else:
        batch = Vision.batch
        monkeypatch.setattr(Vision, "batch", lambda self, prompts: batch(self, list(prompts)[::-1]))
    with pytest.raises(UserError, match="images of a qwen2_5_vl model are not supported here"):
        load_policy(str(folder))


def rows(rollouts: list[Rollout]) -> Batch:
    """Every rollout with an advantage of its own."""
    verdict = Verdict(kind=VerdictKind.correct, score=1.0)
    out = []
    for i, rollout in enumerate(rollouts):
        credit = Credit(
            advantage=1.0 - 0.3 * (i % 5), returns=np.ones(rollout.length), values=np.zeros(rollout.length, np.float32)
        )
        out.append(
            Row(
                rollout=dataclasses.replace(rollout, verdict=verdict, reward=1.0),
                credit=credit,
                role=Role.fresh,
                unit=i // 4,
            )
        )
    return Batch(rows=tuple(out), step=1)


def gradients(policy: Policy, batch: Batch, tokens: int, **objective: Any) -> dict[str, torch.Tensor]:
    reference = policy if objective.get("kl_coef") else None
    learner = Learner(
        policy,
        LearnerConfig(lr=1e-9, max_grad_norm=None, micro_batch_tokens=tokens),
        ObjectiveConfig(**objective),
        seed=0,
        max_completion_length=12,
        reference=reference,
    )
    before = copy.deepcopy(policy.model.state_dict())
    learner.update(batch)
    policy.model.load_state_dict(before)
    return {n: p.grad.clone() for n, p in policy.model.named_parameters() if p.grad is not None}


@pytest.fixture
def fresh(folder: Path) -> Iterator[Policy]:
    yield load_policy(str(folder))


@pytest.mark.parametrize("shares", [True, False])
def test_gradient_does_not_depend_on_the_micro_batches(fresh: Policy, rollouts: list[Rollout], shares: bool) -> None:
    """All rows in one pass, a few, one sequence a pass; the vision tower's part among them."""
    fresh.shares_prompt = shares
    found = [gradients(fresh, rows(rollouts), tokens) for tokens in (10**5, 200, 1)]
    tower = max(float(g.abs().max()) for n, g in found[0].items() if ".visual." in n)
    assert tower > 1e-6
    for other in found[1:]:
        worst = max(float((other[n] - g).abs().max()) for n, g in found[0].items())
        assert worst < 1e-6 * max(float(g.abs().max()) for g in found[0].values())


def test_a_frozen_vision_tower_stays_as_it_is(fresh: Policy, rollouts: list[Rollout]) -> None:
    fresh.freeze_vision()
    before = {n: p.detach().clone() for n, p in fresh.model.named_parameters()}
    config = LearnerConfig(lr=1e-2, weight_decay=0.1)
    Learner(fresh, config, ObjectiveConfig(), seed=0, max_completion_length=12).update(rows(rollouts))
    moved = {n for n, p in fresh.model.named_parameters() if not torch.equal(p, before[n])}
    assert moved and not any(".visual." in n for n in moved)
    assert all(n in moved for n in before if "language_model.layers" in n and n.endswith("q_proj.weight"))


@pytest.mark.parametrize("own", [True, False])
def test_a_critic_sees_the_pictures(fresh: Policy, rollouts: list[Rollout], own: bool) -> None:
    critic = Critic(fresh, LearnerConfig(), own=own, lr=1e-2, clip_value=None)
    batch = rows(rollouts)
    metrics, fault = critic.update(batch.rows, [list(range(len(batch.rows)))])
    assert metrics["value/loss"] > 0 and not fault
    one, other = (
        critic.values([rollouts[4]])[0],
        critic.values([dataclasses.replace(rollouts[4], images=rollouts[12].images)])[0],
    )
    assert float(np.abs(one - other).max()) > 1e-4
