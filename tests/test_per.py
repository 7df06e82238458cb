"""Rollout-level replay through the real loop: every row of every group, shares, books, resuming."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rollwise.advantage import group_advantage
from rollwise.records import Group, Role
from rollwise.replay.rollouts import RolloutReplay
from tests.test_resume import again

Train = Callable[..., Any]
# Lengths at which about half of the starter's groups are mixed.
WARM = {
    "replay.warmup_steps": 2,
    "budget.steps": 6,
    "prompts_per_step": 8,
    "task_args.min_digits": 6,
    "task_args.max_digits": 9,
    "learner.lr": 3e-4,
}
METHODS = ["per", "per-uniform", "per-sigma", "per-groups", "per-pool", "per-tau1", "per-decoupled"]


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> dict[Any, np.ndarray]:
    """Log-probs at birth of the rollouts that a pool left out."""
    seen: dict[Any, np.ndarray] = {}
    original = RolloutReplay._from_pool

    def spy(self: RolloutReplay, *args: Any) -> Any:
        placed = original(self, *args)
        seen.update(self._undrawn)
        return placed

    monkeypatch.setattr(RolloutReplay, "_from_pool", spy)
    return seen


@pytest.mark.parametrize("method", METHODS)
def test_every_replayed_row_is_the_row_that_was_born(
    train: Train, batches: list[Any], undrawn: dict[Any, np.ndarray], method: str
) -> None:
    """Credit, tokens and birth log-probs of every row, of all groups and members."""
    run = train(method, {**WARM, "log.rollouts": True, "objective.clip_high": 5.0})
    groups = [Group.from_json({k: v for k, v in g.items() if k != "step"}) for g in run.groups()]
    of = {r.key: (g, i) for g in groups for i, r in enumerate(g.rollouts)}
    birth: dict[Any, np.ndarray] = {}
    seen: set[Any] = set()
    for batch, learned in batches:
        birth.update(undrawn)
        for row, prox in zip(batch.rows, learned.prox, strict=True):
            group_, member = of[row.rollout.key]
            wanted = group_advantage([r.reward for r in group_.rollouts], ddof=0)[member]
            assert row.credit.advantage == wanted
            np.testing.assert_array_equal(row.rollout.completion_ids, group_.rollouts[member].completion_ids)
            np.testing.assert_array_equal(row.rollout.prompt_ids, group_.rollouts[member].prompt_ids)
            assert prox is not None and row.credit.teaches
            if row.role is Role.fresh:
                assert row.rollout.birth_step == batch.step
                birth[row.rollout.key] = prox
                continue
            seen.add(row.rollout.key)
            assert 1 <= row.age == batch.step - row.rollout.birth_step <= 10
            np.testing.assert_array_equal(row.rollout.birth_logprobs, birth[row.rollout.key])
            assert not np.array_equal(prox, birth[row.rollout.key]), "the policy has moved since"
        assert len({r.rollout.key for r in batch.rows}) == len(batch.rows)
    assert len({uid for uid, _, _ in seen}) > 4 and {m for _, m, _ in seen} == {0, 1, 2, 3}
    assert {bool(n) for n in run.metric("replay/rollouts")[:2]} == {False}
    assert min(run.metric("replay/rollouts")[2:]) > 0


def test_while_nothing_is_drawn_per_is_grpo_without_dead_groups(train: Train) -> None:
    """Bit for bit: the ratio of fresh rows to their birth policy is the ratio to the proximal one."""
    a = train("per", {"replay.warmup_steps": 9}, name="a")
    b = train("grpo-filter", {"advantage.ddof": 0}, name="b")
    assert a.weights() == b.weights()
    assert train("per", WARM | {"budget.steps": 4}, name="c").weights() != b.weights()


def test_updates_and_shares(train: Train) -> None:
    run = train("per", WARM)
    fresh = [s["metrics"]["batch/groups"] - s["metrics"]["replay/groups"] for s in run.steps]
    for step, own in zip(run.steps, fresh, strict=True):
        drawn = step["metrics"]["replay/rollouts"]
        assert step["metrics"]["updates"] == min(2, own), "as many as without replay"
        assert drawn == (round(0.5 * 4 * own) if step["step"] > 2 else 0)
        assert step["metrics"]["replay/share"] == pytest.approx(drawn / (drawn + 4 * own))
        assert 0 <= step["metrics"].get("replay/zero_grad_frac", 0) <= 1
    assert run.metric("replay/size")[-1] == 4 * sum(fresh)


def test_the_pool_books_what_it_leaves_out_as_surplus(train: Train) -> None:
    run = train("per-pool", {**WARM, "log.rollouts": True})
    alive = [
        [len({r["reward"] for r in g["rollouts"]}) > 1 for g in run.groups() if g["step"] == s["step"]]
        for s in run.steps
    ]
    before = Counter[str]()
    for step, flags in zip(run.steps, alive, strict=True):
        outcomes = {k: v["rollouts"] for k, v in step["ledger"]["outcomes"].items()}
        rows = step["metrics"]["batch/groups"]
        old = step["metrics"]["replay/rollouts"]
        own = 4 * sum(flags)
        assert rows == own + (round(own / 2) if step["step"] > 2 else 0)
        assert outcomes["trained"] - before["trained"] == rows - old
        assert outcomes["surplus"] - before["surplus"] == own - (rows - old)
        before = Counter(outcomes)
    assert before["surplus"] > 0
    assert run.ledger["replayed"]["rollouts"] == sum(run.metric("replay/rollouts"))


def test_a_buffer_that_is_not_restored_would_be_seen(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train("per", WARM, name="whole")
    train("per", {**WARM, "budget.steps": 4}, name="cut")
    monkeypatch.setattr(RolloutReplay, "load_state_dict", lambda self, state: None)
    cut = again(whole.folder.parent / "cut", budget__steps=6)
    assert cut.weights() != whole.weights()


def test_one_step_of_age(train: Train, batches: list[Any]) -> None:
    train("per-tau1", WARM)
    assert {row.age for batch, _ in batches for row in batch.rows if row.role is Role.replay} == {1}


def test_all_replayed_tokens_without_gradient(train: Train) -> None:
    """A clip that leaves no room removes what moved away in the advantage's favour; nearly all or none is left."""
    free = train("per", {**WARM, "objective.clip_low": 1.0, "objective.clip_high": 1e6, "objective.dual_clip": None})
    tight = train("per", {**WARM, "objective.clip_low": 0.0, "objective.clip_high": 0.0}, name="tight")
    assert {v for v in free.metric("replay/zero_grad_frac") if v is not None} == {0.0}
    assert max(v for v in tight.metric("replay/zero_grad_frac") if v is not None) > 0.2
