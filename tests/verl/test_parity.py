"""The same groups through the local learner and through a verl worker: log-probs, loss, gradient norm and weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from rollwise.config import LearnerConfig, ObjectiveConfig, RunConfig
from rollwise.errors import UserError
from rollwise.learner.learner import Learner
from rollwise.policy import Policy, load_policy
from rollwise.records import IDS, LOGP, Batch, Credit, Request, Role, Rollout, Row, Sampling, Verdict, VerdictKind
from rollwise.sampling.torch_sampler import TorchSampler
from rollwise.starters import starter_path
from rollwise.tasks import make_task
from tests.verl.workers import Group, alone, worker

PATH = str(starter_path("sort_digits"))
LEARNER = LearnerConfig(lr=1e-3, updates_per_batch=2, max_grad_norm=1.0)
STEP = 5

OBJECTIVES = {
    "clipped": ObjectiveConfig(),
    "decoupled": ObjectiveConfig(kind="decoupled"),
    "decoupled, capped, of rows": ObjectiveConfig(kind="decoupled", weight_level="sequence", weight_cap=1.5),
    "behaviour": ObjectiveConfig(kind="behaviour", dual_clip=None),
    "sequence": ObjectiveConfig(kind="sequence", reduction="sequence", clip_low=3e-4, clip_high=4e-4),
    "cispo": ObjectiveConfig(kind="cispo", behaviour_weight=True),
    "by prompt": ObjectiveConfig(reduction="prompt"),
    "constant, entropy": ObjectiveConfig(reduction="constant", entropy_coef=0.01),
}


@pytest.fixture(scope="module", autouse=True)
def process_group() -> Iterator[None]:
    alone()
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def rows() -> tuple[Row, ...]:
    """Groups of different size and length; some born five steps ago under other weights, one row without tokens' worth
    of advantage, advantages per token in one."""
    policy = load_policy(PATH)
    task = make_task("sort_digits", {}, starter=True)
    sampler = TorchSampler(policy, max_prompt_length=64, max_rows=512)
    requests = [Request(prompt=task.train[i], count=c) for i, c in enumerate([4, 6, 3, 5, 4, 2])]
    sampling = Sampling(temperature=0.9, max_completion_length=22)
    drawn = sampler.generate(requests, sampling, run_seed=3, step=STEP)
    rng = np.random.default_rng(0)
    out = []
    for unit, members in enumerate(drawn):
        for m, rollout in enumerate(members):
            old = unit % 3 == 1
            if old:
                noise = rng.normal(0, 0.3, rollout.length).astype(LOGP)
                rollout = dataclasses.replace(rollout, birth_step=0, birth_logprobs=rollout.logprobs + noise)
            advantage: Any = float(rng.normal()) if m else 0.0
            if unit == 3 and m == 1:
                advantage = rng.normal(size=rollout.length)
            role = Role.replay if old else Role.fresh
            out.append(
                Row(rollout=_judged(rollout), credit=Credit(advantage=advantage), role=role, unit=unit, age=5 * old)
            )
    return tuple(out)


def _judged(rollout: Rollout) -> Rollout:
    return dataclasses.replace(rollout, verdict=Verdict(kind=VerdictKind.wrong, score=0.0), reward=0.0)


def _local(policy: Policy, objective: ObjectiveConfig, reference: Policy | None = None) -> Learner:
    return Learner(policy, LEARNER, objective, seed=0, max_completion_length=22, reference=reference)


def _verl(
    objective: ObjectiveConfig, tokens: int = 4096, reference: bool = False, sampler_cap: float | None = None
) -> tuple[Any, Group]:
    from rollwise.backends.verl.learner import VerlLearner, Workers

    group = Group(worker(PATH, lr=LEARNER.lr, tokens=tokens))
    frozen = Workers(Group(worker(PATH, lr=1.0, tokens=tokens)), "actor", 0.9) if reference else None
    learner = VerlLearner(
        Workers(group, "actor", 0.9),
        LEARNER,
        objective,
        seed=0,
        max_completion_length=22,
        reference=frozen,
        reference_call="compute_log_prob",
        sampler_cap=sampler_cap,
    )
    return learner, group


def _compare(
    rows: tuple[Row, ...], objective: ObjectiveConfig, tokens: int = 4096
) -> tuple[dict[str, float], dict[str, float]]:
    policy = load_policy(PATH)
    kl = objective.kl_coef > 0
    here = _local(policy, objective, load_policy(PATH) if kl else None)
    there, group = _verl(objective, tokens, kl)
    batch = Batch(rows=rows, step=STEP)
    a, b = here.update(batch), there.update(batch)
    for x, y in zip(a.prox, b.prox, strict=True):
        assert (x is None) == (y is None)
        if x is not None and y is not None:
            np.testing.assert_allclose(x, y, atol=1e-4)
    weights = dict(policy.model.named_parameters())
    moved = 0.0
    start = {n: p.detach() for n, p in load_policy(PATH).model.named_parameters()}
    for name, value in group.weights().items():
        if name in weights:
            # Adam's first steps have the size of the learning rate, 1e-3, whatever the gradient's: where that is next
            # to nothing its last bits decide.
            apart = (value - weights[name].detach()).abs()
            assert float(apart.max()) < 1e-4 and float((apart < 1e-5).float().mean()) > 0.99, name
            moved = max(moved, float((value - start[name]).abs().max()))
    assert moved > 5e-4, "the updates moved the weights"
    return a.metrics, b.metrics


@pytest.mark.parametrize("name", OBJECTIVES)
def test_loss_gradient_and_weights_are_the_local_engines(rows: tuple[Row, ...], name: str) -> None:
    here, there = _compare(rows, OBJECTIVES[name])
    assert here.keys() == there.keys()
    for key in here:
        assert there[key] == pytest.approx(here[key], abs=1e-4, rel=1e-4), key
    assert here["grad_norm"] > 1e-3 and here["updates"] == 2
    if "weight/mean_abs_log" in here:
        assert here["weight/mean_abs_log"] > 0.05, "replayed rows carry the log-probs of their birth"


def test_the_weight_for_the_servers_arithmetic_is_the_local_engines(rows: tuple[Row, ...]) -> None:
    rng = np.random.default_rng(1)

    def off(row: Row) -> Row:
        drawn = row.rollout.logprobs + rng.normal(0, 0.5, row.rollout.length).astype(LOGP)
        return dataclasses.replace(row, rollout=dataclasses.replace(row.rollout, logprobs=drawn))

    apart = tuple(off(r) for r in rows)
    objective = ObjectiveConfig(kind="decoupled")
    here = Learner(load_policy(PATH), LEARNER, objective, seed=0, max_completion_length=22, sampler_cap=1.2)
    there, _ = _verl(objective, sampler_cap=1.2)
    a, b = (one.update(Batch(rows=apart, step=STEP)).metrics for one in (here, there))
    assert a.keys() == b.keys() and a["sampling/weight_truncated"] > 0.1
    for key in a:
        assert b[key] == pytest.approx(a[key], abs=1e-4, rel=1e-4), key


def test_a_kl_term_needs_the_reference_workers_and_is_the_same(rows: tuple[Row, ...]) -> None:
    here, there = _compare(rows, ObjectiveConfig(kl_coef=0.1))
    assert there["kl"] == pytest.approx(here["kl"], rel=1e-4)
    assert there["loss"] == pytest.approx(here["loss"], rel=1e-4)


def test_completions_of_no_tokens_count_as_on_the_local_engine(rows: tuple[Row, ...]) -> None:
    """They are not sent to workers, and stay in the reduction where that is over rows."""
    nothing: Any = {
        "completion_ids": np.empty(0, dtype=IDS),
        "logprobs": np.empty(0, dtype=LOGP),
        "birth_logprobs": None,
    }
    mixed = tuple(
        dataclasses.replace(r, rollout=dataclasses.replace(r.rollout, birth_step=STEP, **nothing), age=0)
        if i % 3 == 0
        else r
        for i, r in enumerate(rows)
    )
    for reduction in ("token", "sequence"):
        here, there = _compare(mixed, ObjectiveConfig(kind="decoupled", reduction=reduction))
        for key in here:
            assert there[key] == pytest.approx(here[key], abs=1e-4, rel=1e-4), key
    nobody = tuple(dataclasses.replace(r, rollout=dataclasses.replace(r.rollout, **nothing), age=0) for r in rows)
    learner, _ = _verl(ObjectiveConfig())
    assert learner.update(Batch(rows=nobody, step=STEP)).idle and learner.updates == 0


def test_the_loss_does_not_depend_on_how_rows_are_split_into_passes(rows: tuple[Row, ...]) -> None:
    objective = ObjectiveConfig(kind="decoupled", reduction="sequence")
    one, _ = _verl(objective)
    many, _ = _verl(objective, tokens=80)
    batch = Batch(rows=rows, step=STEP)
    a, b = one.update(batch).metrics, many.update(batch).metrics
    for key in a:
        assert b[key] == pytest.approx(a[key], abs=1e-4), key


def test_a_lost_birth_logprob_is_seen(rows: tuple[Row, ...]) -> None:
    """What parity would not see: that the behaviour log-probs arrive at all."""
    objective = ObjectiveConfig(kind="decoupled")
    right, _ = _verl(objective)
    wrong, _ = _verl(objective)
    forgotten = tuple(
        dataclasses.replace(r, rollout=dataclasses.replace(r.rollout, birth_logprobs=None, birth_step=STEP))
        for r in rows
    )
    a = right.update(Batch(rows=rows, step=STEP)).metrics
    b = wrong.update(Batch(rows=forgotten, step=STEP)).metrics
    assert abs(a["loss"] - b["loss"]) > 1e-3


def test_a_mini_batch_without_a_row_that_matters_takes_a_zero_update(rows: tuple[Row, ...]) -> None:
    """As the local engine does: counted, and nothing moves but by momentum."""
    still = tuple(dataclasses.replace(r, credit=Credit(advantage=0.0)) if r.unit else r for r in rows)
    here = _local(load_policy(PATH), ObjectiveConfig()).update(Batch(rows=still, step=STEP))
    learner, _ = _verl(ObjectiveConfig())
    there = learner.update(Batch(rows=still, step=STEP))
    assert learner.updates == 2
    assert there.metrics["loss"] == pytest.approx(here.metrics["loss"], abs=1e-4)
    assert there.metrics["grad_norm"] == pytest.approx(here.metrics["grad_norm"], abs=1e-4)


def test_numbers_that_are_not_finite_are_skipped_and_end_the_run(rows: tuple[Row, ...]) -> None:
    spoilt = tuple(dataclasses.replace(r, credit=Credit(advantage=float("nan"))) for r in rows)
    learner, group = _verl(ObjectiveConfig())
    before = group.weights()
    first = learner.update(Batch(rows=spoilt, step=STEP))
    assert learner.updates == 0 and learner.skipped == 2 and not first.stop
    second = learner.update(Batch(rows=spoilt, step=STEP + 1))
    assert second.stop and learner.skipped == 3
    for name, value in group.weights().items():
        torch.testing.assert_close(value, before[name], atol=0, rtol=0)


def test_a_loss_that_is_not_finite_takes_no_update(rows: tuple[Row, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """verl looks at the norm of the gradient alone."""
    from rollwise.backends.verl import loss as fields
    from rollwise.learner.loss import token_loss as honest

    def spoilt(*args: Any, **kwargs: Any) -> Any:
        loss, *rest = honest(*args, **kwargs)
        return loss + float("inf"), *rest  # its gradient is what it was

    learner, group = _verl(ObjectiveConfig())
    before = group.weights()
    monkeypatch.setattr(fields, "token_loss", spoilt)
    learner.update(Batch(rows=rows, step=STEP))
    assert (learner.updates, learner.skipped) == (0, 2)
    for name, value in group.weights().items():
        torch.testing.assert_close(value, before[name], atol=0, rtol=0)
    monkeypatch.setattr(fields, "token_loss", honest)
    after = learner.update(Batch(rows=rows, step=STEP))
    assert (learner.updates, learner.skipped) == (2, 2) and not after.stop and after.metrics["updates"] == 2


class Says:
    """Workers that answer an update with these numbers."""

    def __init__(self, **numbers: float) -> None:
        zero = dict.fromkeys(("clipped", "clipped/fresh", "clipped/replay", "clipped/idle", "kl/sum", "kl/tokens"), 0.0)
        self.numbers, self.count, self.group = {**zero, "lr": 1e-3, **numbers}, 1, self

    def set_loss_fn(self, loss: Any) -> None: ...

    def train(self, *_: Any, **__: Any) -> dict[str, float]:
        return self.numbers

    def infer(self, call: Any, rollouts: Any, output: str) -> list[np.ndarray]:
        return [r.logprobs for r in rollouts]

    update_actor = train_mini_batch = compute_log_prob = None


def _answered(config: LearnerConfig = LEARNER, **numbers: float) -> Any:
    from rollwise.backends.verl.learner import VerlLearner

    actor: Any = Says(**numbers)
    return VerlLearner(actor, config, ObjectiveConfig(), seed=0, max_completion_length=22)


def test_an_update_that_verl_took_is_counted(rows: tuple[Row, ...]) -> None:
    took = _answered(loss=float("inf"), grad_norm=1.0)
    took.update(Batch(rows=rows, step=STEP))
    assert (took.updates, took.skipped) == (2, 0)
    left = _answered(loss=1.0, grad_norm=float("inf"))
    left.update(Batch(rows=rows, step=STEP))
    assert (left.updates, left.skipped) == (0, 2)


def test_the_learning_rate_goes_on_with_the_run(rows: tuple[Row, ...]) -> None:
    config = dataclasses.replace(LEARNER, warmup_updates=10)
    learner = _answered(config, loss=1.0, grad_norm=1.0, lr=3e-4)
    assert learner.rate() == 0.0, "verl's warm-up begins there"
    assert _answered().rate() == LEARNER.lr
    learner.update(Batch(rows=rows, step=STEP))
    resumed = _answered(config, loss=1.0, grad_norm=1.0, lr=4e-4)
    resumed.load_state_dict(learner.state_dict())
    assert resumed.rate() == learner.rate() == 3e-4 and resumed.updates == 2
    still = tuple(dataclasses.replace(r, credit=Credit(advantage=0.0)) for r in rows)
    idle = resumed.update(Batch(rows=still, step=STEP + 1))
    assert idle.idle and idle.metrics["lr"] == 3e-4


def test_a_critic_whose_updates_are_left_out_ends_the_run(rows: tuple[Row, ...]) -> None:
    from rollwise.backends.verl.learner import VerlCritic

    valued = [
        dataclasses.replace(
            r, credit=Credit(advantage=0.0, values=r.rollout.logprobs, returns=np.arange(r.rollout.length, dtype=LOGP))
        )
        for r in rows
    ]
    spoilt, sound = Says(loss=float("nan"), grad_norm=float("nan")), Says(loss=2.0, grad_norm=1.0)
    everything = list(range(len(valued)))
    workers: Any = spoilt
    critic = VerlCritic(workers, None)
    metrics, fault = critic.update(valued, [everything, everything])
    assert not fault and "value/loss" not in metrics and critic.skipped_in_a_row == 2
    assert critic.update(valued, [everything])[1] == (
        "the critic's loss or gradient was not finite in 3 updates in a row"
    )
    workers = sound
    critic.workers = workers
    metrics, fault = critic.update(valued, [everything])
    assert not fault and metrics["value/loss"] == 2.0 and critic.skipped_in_a_row == 0


def test_a_model_without_log_probs_is_refused() -> None:
    from rollwise.backends.verl.trainer import check_weights

    run = RunConfig(method="popo", model="org/model")
    prompt = make_task("sort_digits", {}, starter=True).train[0]
    learner, group = _verl(ObjectiveConfig())
    check_weights(learner, load_policy(PATH), prompt, run)
    with torch.no_grad():
        next(group.one.engine.module.parameters()).fill_(float("nan"))
    with pytest.raises(UserError, match="model: org/model gives log-probs that are not finite; give a sound check"):
        check_weights(learner, load_policy(PATH), prompt, run)
