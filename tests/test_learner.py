"""The learner: same gradient for every split, skipped rows, chunks, schedules, and what is not finite."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from rollwise.advantage import GroupAdvantage
from rollwise.config import LearnerConfig, ObjectiveConfig
from rollwise.learner.batching import micro_batches, mini_batches
from rollwise.learner.learner import Learner
from rollwise.learner.logprobs import completion_logprobs, pack
from rollwise.learner.schedule import learning_rate
from rollwise.policy import Policy, load_policy
from rollwise.records import Batch, Credit, Group, Placed, Role, Rollout, Row, Sampling, Verdict, VerdictKind
from rollwise.sampling.torch_sampler import TorchSampler
from rollwise.starters import starter_path
from rollwise.tasks import make_task
from rollwise.verify.scoring import form_groups

REDUCTIONS = ["token", "sequence", "prompt", "constant"]


@pytest.fixture(scope="module")
def groups() -> list[Group]:
    """Eight verified groups of the bundled starter: some dead, lengths mixed."""
    from rollwise.records import Request

    task = make_task("sort_digits", {"max_digits": 12}, starter=True)
    sampler = TorchSampler(policy(), max_prompt_length=24, max_rows=64)
    requests = [Request(prompt=task.train[i], count=4) for i in range(8)]
    rollouts = sampler.generate(requests, Sampling(max_completion_length=16), run_seed=0, step=1)
    out = form_groups(requests, rollouts, task.judge)
    assert {g.informative for g in out} == {True, False}
    return out


def credits_of(group: Group) -> tuple[Credit, ...]:
    estimator = GroupAdvantage(scale="std", ddof=1, eps=1e-6)
    return estimator([Placed(group=group, role=Role.fresh)], None)[0]  # type: ignore[arg-type]


def policy() -> Policy:
    return load_policy(str(starter_path("sort_digits")))


def batch_of(groups: list[Group], *, stale: float = 0.0) -> Batch:
    """Rows of the groups; odd units are replayed, born under log-probs that differ by `stale`."""
    rows = []
    for unit, group in enumerate(groups):
        for rollout, credit in zip(group.rollouts, credits_of(group), strict=True):
            role, age = Role.fresh, 0
            if stale and unit % 2:
                role, age = Role.replay, 1
                noise = np.random.Generator(np.random.Philox(key=rollout.member)).normal(0, stale, rollout.length)
                rollout = dataclasses.replace(
                    rollout, birth_step=0, birth_logprobs=(rollout.logprobs - noise).astype(np.float32)
                )
            rows.append(Row(rollout=rollout, credit=credit, role=role, unit=unit, age=age))
    return Batch(rows=tuple(rows), step=1)


class Recording(Learner):
    """Keeps the gradient of each update before it is applied."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gradients: list[torch.Tensor] = []
        step, parameters = self.optimizer.adamw.step, self.optimizer.parameters

        def recorded(*a: Any, **k: Any) -> Any:
            self.gradients.append(torch.cat([p.grad.flatten() for p in parameters if p.grad is not None]).clone())
            return step(*a, **k)

        self.optimizer.adamw.step = recorded  # type: ignore[method-assign]


def learner(objective: dict[str, Any] | None = None, cls: type[Learner] = Recording, **settings: Any) -> Any:
    config = LearnerConfig(**{"lr": 1e-3, "max_grad_norm": None, **settings})
    goal = ObjectiveConfig(**(objective or {}))
    return cls(policy(), config, goal, seed=0, max_completion_length=16, reference=policy() if goal.kl_coef else None)


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max() / b.abs().max())


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("kind", ["clipped", "decoupled", "behaviour", "sequence", "cispo"])
@pytest.mark.parametrize("shares", [True, False])
def test_gradient_does_not_depend_on_the_micro_batches(
    groups: list[Group], reduction: str, kind: str, shares: bool
) -> None:
    """Split between groups where members share their prompt's sequence, and down to single rows where they do not."""
    batch = batch_of(groups, stale=0.3)
    gradients = []
    for tokens in (100_000, 300, 60, 1):  # all in one pass, ..., one sequence a pass
        one = learner({"reduction": reduction, "kind": kind}, micro_batch_tokens=tokens)
        one.policy.shares_prompt = shares
        one.update(batch)
        gradients.append(one.gradients[0])
    assert float(gradients[0].abs().max()) > 1e-3
    for other in gradients[1:]:
        assert relative(other, gradients[0]) < 1e-6


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_skipped_rows_change_nothing(groups: list[Group], reduction: str) -> None:
    """Rows of advantage 0 computed anyway give the same gradient: they add nothing, and count in the reduction."""

    class Unskipped(Recording):
        def _matters(self, row: Row) -> bool:
            return bool(row.rollout.scored)

    batch = batch_of(groups)
    gradients = []
    for cls in (Recording, Unskipped):
        one = learner({"reduction": reduction}, cls=cls)
        one.update(batch)
        gradients.append(one.gradients[0])
    assert relative(gradients[1], gradients[0]) < 1e-5
    only_live = dataclasses.replace(batch, rows=tuple(r for r in batch.rows if r.credit.teaches))
    shrunk = learner({"reduction": reduction})
    shrunk.update(only_live)
    assert relative(shrunk.gradients[0], gradients[0]) > 0.01, "dropping them instead would change the scale"


def test_gradient_is_that_of_the_formula_in_double_precision(groups: list[Group]) -> None:
    """An independent loop over rows and tokens, in float64, from the definition of the decoupled objective."""
    batch = batch_of(groups, stale=0.3)
    one = learner({"kind": "decoupled"})
    one.update(batch)
    model = policy().model.double()
    total = sum(r.rollout.length for r in batch.rows)
    loss = torch.zeros((), dtype=torch.float64)
    for row in batch.rows:
        ids = torch.from_numpy(np.concatenate([row.rollout.prompt_ids, row.rollout.completion_ids])).long()[None]
        logp = model(input_ids=ids).logits[0].log_softmax(-1)
        start = len(row.rollout.prompt_ids)
        logp = logp[start - 1 : -1].gather(1, ids[0, start:, None])[:, 0]
        birth = row.rollout.birth_logprobs
        weight = 1.0 if birth is None else (logp.detach() - torch.from_numpy(birth).double()).exp()
        loss = loss - (weight * (logp - logp.detach()).exp() * row.credit.advantage).sum() / total
    loss.backward()  # type: ignore[no-untyped-call]
    expected = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    assert relative(one.gradients[0].double(), expected) < 1e-4


def test_mini_batches_take_one_update_each(groups: list[Group]) -> None:
    one = learner(updates_per_batch=3, epochs=2)
    learned = one.update(batch_of(groups))
    assert one.updates == 6 == len(one.gradients)
    assert learned.metrics["updates"] == 6


def test_a_batch_that_cannot_teach_takes_no_update(groups: list[Group]) -> None:
    one = learner(updates_per_batch=2)
    before = copy.deepcopy(one.policy.model.state_dict())
    learned = one.update(batch_of([g for g in groups if not g.informative]))
    assert learned.metrics["updates"] == 0 and one.updates == 0
    assert all(torch.equal(v, before[k]) for k, v in one.policy.model.state_dict().items())


def test_a_mini_batch_that_cannot_teach_still_takes_its_update(groups: list[Group]) -> None:
    live = [g for g in groups if g.informative][:1]
    dead = [g for g in groups if not g.informative][:1]
    one = learner(updates_per_batch=2)
    one.update(batch_of(live + dead))
    assert one.updates == 2
    assert sorted(float(g.abs().max()) > 0 for g in one.gradients) == [False, True]


@pytest.mark.parametrize("term", [{"kl_coef": 0.1}, {"entropy_coef": 0.1}])
def test_kl_and_entropy_need_every_row(groups: list[Group], term: dict[str, float]) -> None:
    dead = batch_of([g for g in groups if not g.informative])
    one = learner(term, updates_per_batch=2, lr=1e-2)
    one.update(dead)
    assert one.updates == 2
    if "entropy_coef" in term:
        assert float(one.gradients[0].abs().max()) > 1e-4
    else:
        assert float(one.gradients[0].abs().max()) < 1e-6, "the policy still equals the reference"


def test_kl_pulls_back_to_the_reference(groups: list[Group]) -> None:
    batch = batch_of(groups)
    one = learner({"kl_coef": 0.5}, updates_per_batch=2, epochs=2)
    learned = one.update(batch)
    assert learned.metrics["kl"] > 0
    assert all(r is not None for r in learned.reference)


@pytest.mark.parametrize("entropy", [False, True])
def test_chunked_logits_change_nothing(groups: list[Group], entropy: bool) -> None:
    p = policy()
    packed = pack([r for g in groups for r in g.rollouts], p)
    results = []
    for budget in (10**9, 24 * 7, 1):
        p.model.zero_grad()
        logp, ent = completion_logprobs(p, packed, logit_budget=budget, entropy=entropy)
        (logp.sum() + (ent.sum() if ent is not None else 0)).backward()  # type: ignore[no-untyped-call]
        results.append((logp.detach(), p.model.lm_head.weight.grad.clone()))
    for logp, grad in results[1:]:
        torch.testing.assert_close(logp, results[0][0], atol=1e-5, rtol=0)
        assert relative(grad, results[0][1]) < 1e-5


def test_logits_are_never_whole(groups: list[Group]) -> None:
    """No tensor of all tokens x vocabulary is made: the largest output of the embedding is one chunk."""
    p = policy()
    seen: list[int] = []
    p.model.lm_head.register_forward_hook(lambda m, i, o: seen.append(o.numel()))
    packed = pack([r for g in groups for r in g.rollouts], p)
    completion_logprobs(p, packed, logit_budget=24 * 10)
    assert max(seen) == 240 and sum(seen) == 24 * int(packed.mask.sum())


def test_a_model_whose_head_is_not_separable_takes_the_plain_path(groups: list[Group]) -> None:
    p = policy()
    packed = pack([r for g in groups for r in g.rollouts], p)
    split, _ = completion_logprobs(p, packed, logit_budget=10**9)
    p.split_head = False
    whole, _ = completion_logprobs(p, packed, logit_budget=10**9)
    torch.testing.assert_close(whole, split, atol=1e-5, rtol=0)


def test_trainer_and_sampler_agree(groups: list[Group]) -> None:
    one = learner()
    rollouts = [r for g in groups for r in g.rollouts]
    for rollout, logp in zip(rollouts, one.logprobs(rollouts), strict=True):
        np.testing.assert_allclose(logp, rollout.logprobs, atol=1e-5, rtol=0)


def test_rows_without_a_verdict_are_left_out_and_not_counted(groups: list[Group]) -> None:
    failed = Verdict(kind=VerdictKind.infra_error, score=0.0)

    def broken(r: Rollout) -> Rollout:
        return dataclasses.replace(r, verdict=failed, reward=float("nan"))

    good = next(g for g in groups if g.informative)
    with_failed = dataclasses.replace(good, rollouts=(*good.rollouts, broken(good.rollouts[0])))
    gradients = []
    for group in (good, with_failed):
        one = learner()
        one.update(batch_of([group]))
        gradients.append(one.gradients[0])
    assert torch.equal(gradients[0], gradients[1])


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_what_is_not_finite_is_skipped_counted_and_stops_the_run(groups: list[Group], poison: float) -> None:
    batch = batch_of(groups, stale=0.3)
    rows = [
        dataclasses.replace(
            r,
            rollout=dataclasses.replace(r.rollout, birth_logprobs=np.full(r.rollout.length, -poison, dtype=np.float32)),
        )
        if r.role is Role.replay
        else r
        for r in batch.rows
    ]
    bad = dataclasses.replace(batch, rows=tuple(dataclasses.replace(r, credit=Credit(advantage=1.0)) for r in rows))
    if poison == float("inf"):  # an infinite weight is clamped; an infinite advantage is not
        bad = dataclasses.replace(
            bad, rows=tuple(dataclasses.replace(r, credit=Credit(advantage=poison)) for r in bad.rows)
        )
    one = learner({"kind": "decoupled"}, max_grad_norm=1.0)
    before = copy.deepcopy(one.policy.model.state_dict())
    stops = [one.update(bad).stop for _ in range(3)]
    assert (one.updates, one.skipped) == (0, 3)
    assert stops[:2] == ["", ""] and "3 updates in a row" in stops[2]
    assert all(torch.equal(v, before[k]) for k, v in one.policy.model.state_dict().items())
    one.optimizer.skipped_in_a_row = 0
    one.update(batch_of(groups))
    assert one.updates == 1 and one.optimizer.skipped_in_a_row == 0
    assert all(torch.isfinite(v).all() for v in one.policy.model.state_dict().values())


def test_gradient_clipping_bounds_the_norm(groups: list[Group]) -> None:
    one = learner(max_grad_norm=0.01)
    learned = one.update(batch_of(groups))
    assert float(one.gradients[0].norm()) == pytest.approx(0.01, rel=1e-3)
    assert learned.metrics["grad_norm"] > 0.01, "the norm reported is the one before clipping"


def test_saved_state_continues_bit_for_bit(groups: list[Group]) -> None:
    batch = batch_of(groups)
    one = learner(updates_per_batch=2)
    one.update(batch)
    state = one.state_dict()
    other = learner(updates_per_batch=2)
    other.policy.model.load_state_dict(one.policy.model.state_dict())
    other.load_state_dict(state)
    for each in (one, other):
        each.update(dataclasses.replace(batch, step=2))
    assert all(
        torch.equal(a, b) for a, b in zip(one.policy.model.parameters(), other.policy.model.parameters(), strict=True)
    )
    with pytest.raises(ValueError, match="expected keys"):
        other.load_state_dict({k: v for k, v in state.items() if k != "moments"})


def test_schedules_by_hand() -> None:
    def rates(schedule: Any, total: int | None) -> list[float]:
        return [learning_rate(u, lr=1.0, warmup_updates=2, schedule=schedule, schedule_updates=total) for u in range(8)]

    assert rates("constant", None) == [0.5, 1, 1, 1, 1, 1, 1, 1]
    assert rates("linear", 6) == [0.5, 1, 1, 0.75, 0.5, 0.25, 0, 0]
    assert rates("cosine", 6) == pytest.approx([0.5, 1, 1, 0.853553, 0.5, 0.146447, 0, 0], abs=1e-6)


@pytest.mark.parametrize("max_tokens", [1, 40, 97, 10_000])
def test_micro_batches_hold_every_row_once_and_keep_their_bound(max_tokens: int) -> None:
    lengths = [7, 30, 1, 12, 12, 44, 3, 3, 29, 18] * 7
    plan = micro_batches(lengths, max_tokens)
    assert sorted(i for m in plan for i in m) == list(range(70))
    for m in plan:
        padded = len(m) * max(lengths[i] for i in m)
        assert padded <= max_tokens or len(m) == 1


def test_mini_batches_keep_groups_whole_and_sizes_even() -> None:
    batch = [
        Row(rollout=None, credit=Credit(advantage=0.0), role=Role.fresh, unit=u)  # type: ignore[arg-type]
        for u in range(7)
        for _ in range(3)
    ]
    plan = mini_batches(batch, 3, seed=0, step=1, epoch=0)
    assert sorted(i for part in plan for i in part) == list(range(21))
    assert sorted(len(part) for part in plan) == [6, 6, 9]
    for part in plan:
        assert all({3 * (i // 3) + j for j in range(3)} <= set(part) for i in part)
    assert plan != mini_batches(batch, 3, seed=0, step=2, epoch=0)
    assert len(mini_batches(batch, 50, seed=0, step=1, epoch=0)) == 7


@pytest.mark.parametrize("kind", ["Qwen2", "Qwen3", "Llama", "Mistral", "Gemma3"])
def test_members_of_a_group_share_their_prompt_where_the_model_can(kind: str) -> None:
    """Log-probs and gradients of shared sequences equal those of one sequence a rollout; a model with a window, which
    cannot be told its texts apart by a mask alone, takes the plain path."""
    from tests.test_sampler import build, requests, sampler

    p = build(kind)
    assert p.shares_prompt == (kind not in ("Mistral", "Gemma3"))
    made = sampler(p).generate(requests([5] * 7), Sampling(max_completion_length=9), run_seed=0, step=0)
    rollouts = [r for g in made for r in g]
    results = []
    for shares in (p.shares_prompt, False):
        p.shares_prompt = shares
        packed = pack(rollouts, p)
        p.model.zero_grad()
        logp, _ = completion_logprobs(p, packed, logit_budget=10**9)
        weight = torch.arange(logp.numel(), dtype=torch.float32).reshape(logp.shape) % 7 - 3
        (logp * weight).sum().backward()  # type: ignore[no-untyped-call]
        grad = torch.cat([q.grad.flatten() for q in p.model.parameters() if q.grad is not None])
        results.append((logp.detach(), grad, packed.ids.numel()))
    torch.testing.assert_close(results[0][0], results[1][0], atol=1e-5, rtol=0)
    assert relative(results[0][1], results[1][1]) < 1e-4
    assert (results[0][2] < 0.8 * results[1][2]) == (kind not in ("Mistral", "Gemma3"))


def test_a_mask_that_lets_members_see_each_other_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    import rollwise.learner.logprobs as module
    from tests.test_sampler import build, requests, sampler

    p = build("Qwen3")
    made = sampler(p).generate(requests([5] * 7), Sampling(max_completion_length=9), run_seed=0, step=0)
    rollouts = [r for g in made for r in g]

    def only_causal(segment: torch.Tensor) -> torch.Tensor:
        rows, length = segment.shape
        return torch.ones(rows, 1, length, length, dtype=torch.bool).tril()

    monkeypatch.setattr(module, "_attend", only_causal)
    with torch.no_grad():
        logp, _ = completion_logprobs(p, pack(rollouts, p), logit_budget=10**9)
    stored = np.concatenate([r.logprobs for r in rollouts])
    assert float(np.abs(logp[pack(rollouts, p).mask].numpy() - stored).max()) > 1e-2


def test_long_groups_are_not_laid_into_one_sequence() -> None:
    from rollwise.learner.logprobs import SHARED_LENGTH, sequence_length, sequences
    from tests.test_sampler import build, requests, sampler

    p = build("Qwen3", max_position_embeddings=512)
    p.eos_ids = (999,)
    made = sampler(p).generate(requests([6]), Sampling(max_completion_length=100), run_seed=0, step=0)
    plan = sequences(made[0], p)
    assert [len(s) for s in plan] == [2, 2, 2]
    assert all(sequence_length([made[0][i] for i in s]) <= SHARED_LENGTH for s in plan)
