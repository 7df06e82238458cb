"""Pilot-Commit through the real loop: whole groups, weights, ledger, small data, dead data, resuming."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rollwise.allocation.pilot import Pilot
from rollwise.errors import UserError
from rollwise.records import StopReason, Verdict, VerdictKind
from rollwise.replay.recent import RecentGroups
from rollwise.tasks.sort_digits import SortDigits
from tests.conftest import Finished
from tests.test_resume import again, without_settings

Train = Callable[..., Any]
# Mixed prompts enough for some to wait, and few rollouts.
LIVELY: dict[str, Any] = {
    "task_args.max_digits": 12,
    "learner.lr": 1e-3,
    "prompts_per_step": 4,
    "allocation.pilot.prompts": 8,
}


def always(kind: VerdictKind) -> Any:
    def verify(text: str, answer: object, stop: StopReason) -> Verdict:
        return Verdict(kind=kind, score=float(kind is VerdictKind.correct))

    return staticmethod(verify)


def generated(run: Finished) -> list[int]:
    """Rollouts of each step."""
    totals = [0, *(s["ledger"]["generated"]["rollouts"] for s in run.steps)]
    return [b - a for a, b in itertools.pairwise(totals)]


def test_pilots_and_commits_are_trained_on_as_one_group(train: Train, batches: list[Any]) -> None:
    run = train("pilot-commit", {**LIVELY, "budget.steps": 6, "group_size": 8, "allocation.pilot.rollouts": 3})
    ages = []
    for batch, learned in batches:
        units: dict[int, list[Any]] = {}
        for row, prox in zip(batch.rows, learned.prox, strict=True):
            units.setdefault(row.unit, []).append((row, prox))
        assert len(units) == 4
        for members in units.values():
            rows = [row for row, _ in members]
            assert len({row.rollout.group_uid for row in rows}) == 1
            assert [row.rollout.member for row in rows] == list(range(8))
            pilots, commits = rows[:3], rows[3:]
            assert 1 <= sum(row.rollout.correct for row in pilots) <= 2, "in the band"
            assert {row.rollout.birth_step for row in commits} == {batch.step}
            assert len({row.rollout.birth_step for row in pilots}) == 1
            reward = np.array([row.rollout.reward for row in rows])
            assert reward.std() > 0, "every whole group is mixed"
            np.testing.assert_allclose(
                [row.credit.advantage for row in rows], (reward - reward.mean()) / (reward.std(ddof=1) + 1e-6)
            )
            ages.append(pilots[0].age)
            for row, prox in members:
                assert row.rollout.birth_logprobs is None and prox is not None
                gap = np.abs(prox - row.rollout.logprobs).max()
                assert (gap < 1e-4) if row.age == 0 else (gap > 1e-4), "stale pilots have moved away, fresh rows not"
    assert 0 < sum(a > 0 for a in ages) < len(ages) and max(ages) <= 4
    assert max(v or 0.0 for v in run.metric("weight/mean_abs_log")) > 1e-3
    assert max(run.metric("pilot/age_max")) == max(ages)
    assert sum(run.metric("pilot/prompts")) * 3 + 6 * 4 * 5 == run.ledger["generated"]["rollouts"]


def test_the_weight_of_fresh_rows_is_one(train: Train) -> None:
    """Where no pilot may wait, the correction changes nothing, bit for bit; where they do, it does."""
    fresh = {**LIVELY, "allocation.pilot.max_age": 0}
    runs = {
        (method, name): train(method, {**settings, "budget.steps": 2}, name=f"{method}-{name}").weights()
        for name, settings in (("fresh", fresh), ("stale", LIVELY))
        for method in ("pilot-commit", "pilot-commit-paper", "pilot-commit-behaviour")
    }
    same = {w for (_, name), w in runs.items() if name == "fresh"}
    other = {w for (_, name), w in runs.items() if name == "stale"}
    assert len(same) == 1 and len(other) == 3


def test_the_paper_applies_no_weight_and_the_default_clamps_it(train: Train) -> None:
    paper = train("pilot-commit-paper", {**LIVELY, "budget.steps": 4}, name="paper")
    assert {v for v in paper.metric("weight/applied_mean") if v is not None} == {1.0}
    assert max(v or 0.0 for v in paper.metric("weight/mean_abs_log")) > 1e-3
    ours = train("pilot-commit", {**LIVELY, "budget.steps": 4, "objective.weight_cap": 1.0}, name="ours")
    applied, mean = ours.metric("weight/applied_mean"), ours.metric("weight/mean")
    assert any(a is not None and a < m for a, m in zip(applied, mean, strict=True))


def test_optimizer_updates(train: Train) -> None:
    """Two mini-batches of the whole group; sized by the 2 commits of a group of 4, they are four."""
    settings = {**LIVELY, "budget.steps": 2}
    two = train("pilot-commit", settings, name="two")
    four = train("pilot-commit", {**settings, "allocation.pilot.updates": "commit"}, name="four")
    assert two.metric("updates") == [2.0] * 2
    assert four.metric("updates") == [4.0] * 2


def test_a_rollout_budget_is_never_exceeded(train: Train) -> None:
    for rollouts in (4, 50, 131):
        run = train("pilot-commit", {**LIVELY, "budget.steps": None, "budget.rollouts": rollouts}, name=str(rollouts))
        assert run.stop["reason"] == "budget.rollouts"
        assert run.ledger["generated"]["rollouts"] <= rollouts
        assert run.ledger["outcomes"]["trained"]["rollouts"] > 0 or rollouts == 4


@pytest.mark.parametrize("kind,outcome", [("wrong", "dropped_hard"), ("correct", "dropped_easy")])
@pytest.mark.parametrize("train_size", [10, 1000])
@pytest.mark.parametrize("on_limit", ["partial", "stop"])
def test_dead_data_ends_within_its_bounds(
    train: Train, monkeypatch: pytest.MonkeyPatch, kind: str, outcome: str, train_size: int, on_limit: str
) -> None:
    monkeypatch.setattr(SortDigits, "verify", always(VerdictKind(kind)))
    settings = {
        "task_args.train_size": train_size,
        "allocation.max_rounds": 3,
        "allocation.on_limit": on_limit,
        "budget.steps": 2,
    }
    run = train("pilot-commit-keep", settings)
    assert run.metric("rounds") == [3.0] * len(run.steps)
    assert len(run.steps) == (1 if on_limit == "stop" else 2)
    assert run.stop["reason"] == ("allocation.limit" if on_limit == "stop" else "budget.steps")
    assert "reached max_rounds (3) with 0 of 6 informative groups" in run.steps[0]["notes"][0]
    assert run.ledger["updates"] == 0
    assert run.ledger["outcomes"][outcome] == run.ledger["generated"]
    assert generated(run) == [3 * 2 * min(18, train_size)] * len(run.steps)


@pytest.mark.parametrize("train_size", [5, 8, 21])
def test_small_data_over_several_epochs(train: Train, train_size: int) -> None:
    """Fewer prompts than a round of 8, as many, and more: trained on, all counted, same run after a cut."""
    settings = {**LIVELY, "task_args.train_size": train_size, "log.rollouts": True, "allocation.max_rounds": 6}
    run = train("pilot-commit-keep", {**settings, "budget.steps": 5}, name="whole")
    assert run.ledger["updates"] > 0 and max(run.metric("epoch")) > 2
    for step in run.steps:
        assert (
            sum(o["rollouts"] for o in step["ledger"]["outcomes"].values()) == step["ledger"]["generated"]["rollouts"]
        )
    pilots = [g for g in run.groups() if g["purpose"] == "pilot"]
    assert len({g["uid"] for g in pilots}) == len(pilots), "piloted once an epoch"
    commits = [g for g in run.groups() if g["purpose"] == "commit"]
    assert len({g["uid"] for g in commits}) == len(commits), "committed once"
    lost = run.ledger["outcomes"]["lost_at_epoch_end"]["rollouts"]
    assert lost % 2 == 0 and run.ledger["outcomes"]["trained"]["rollouts"] == 4 * len(commits)
    train("pilot-commit-keep", {**settings, "budget.steps": 3}, name="cut")
    cut = again(run.folder.parent / "cut", budget__steps=5)
    assert without_settings(cut.events) == without_settings(run.events)
    assert cut.weights() == run.weights()


def test_resuming_while_prompts_wait(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**LIVELY, "group_size": 8, "allocation.pilot.rollouts": 3}
    whole = train("pilot-commit", {**settings, "budget.steps": 5}, name="whole")
    cut = train("pilot-commit", {**settings, "budget.steps": 2}, name="cut")
    assert cut.metric("pilot/waiting")[-1] > 0
    assert cut.ledger["outcomes"]["held"]["rollouts"] == 3 * cut.metric("pilot/waiting")[-1]
    resumed = again(cut.folder, budget__steps=5)
    assert without_settings(resumed.events) == without_settings(whole.events)
    assert resumed.weights() == whole.weights()
    train("pilot-commit", {**settings, "budget.steps": 2}, name="forgetful")
    monkeypatch.setattr(Pilot, "load_state_dict", lambda self, state: None)
    with pytest.raises(UserError, match="state of ledger: what it books as held is not what the allocation holds"):
        again(whole.folder.parent / "forgetful", budget__steps=5)


def test_a_failing_verifier_is_no_verdict(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    original = SortDigits.verify

    def flaky(self: Any, text: str, answer: object, stop: StopReason) -> Verdict:
        nonlocal calls
        calls += 1
        if calls % 5 == 0:
            raise RuntimeError("the judge fell asleep")
        return original(self, text, answer, stop)

    monkeypatch.setattr(SortDigits, "verify", flaky)
    settings = {**LIVELY, "group_size": 8, "allocation.pilot.rollouts": 4, "log.rollouts": True}
    run = train("pilot-commit", settings)
    lost = sum(r["verdict"]["kind"] == "infra_error" for g in run.groups() for r in g["rollouts"])
    assert lost > 20 and run.ledger["outcomes"]["infra_error"]["rollouts"] == lost


def test_replay_fills_what_a_bounded_step_leaves_empty(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the stored members know the trainer's log-probs only where it met them at birth."""
    stored: list[Any] = []
    original = RecentGroups.store

    def spy(self: RecentGroups, fresh: Any, step: int) -> None:
        stored.extend((r, step) for seat in fresh for r in seat.group.rollouts)
        original(self, fresh, step)

    monkeypatch.setattr(RecentGroups, "store", spy)
    run = train("pilot-commit-popo", {"budget.steps": 6})
    assert max(run.metric("rounds")) == 2
    assert max(run.metric("replay/groups")) > 0
    assert run.metric("batch/groups")[-1] == 6
    assert {r.birth_logprobs is not None for r, step in stored if r.birth_step == step} == {True}
    assert {r.birth_logprobs is not None for r, step in stored if r.birth_step < step} == {False}


def test_groups_carried_by_dynamic_sampling_keep_their_birth(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[Any] = []
    original = RecentGroups.store

    def spy(self: RecentGroups, fresh: Any, step: int) -> None:
        stored.extend((r, step) for seat in fresh for r in seat.group.rollouts)
        original(self, fresh, step)

    monkeypatch.setattr(RecentGroups, "store", spy)
    train("dapo", {"allocation.surplus": "carry", "replay.kind": "recent", "objective.kind": "decoupled"})
    assert any(r.birth_step < step for r, step in stored)
    assert not [r for r, step in stored if r.birth_step < step and r.birth_logprobs is not None]


@pytest.mark.parametrize("method,pilots", [("pilot-commit-light", 2), ("pilot-commit", 4), ("pilot-commit-half", 8)])
def test_splits_of_the_group(train: Train, method: str, pilots: int) -> None:
    settings = {**LIVELY, "group_size": 16, "budget.steps": 1, "prompts_per_step": 2, "log.rollouts": True}
    groups = train(method, settings).groups()
    assert {len(g["rollouts"]) for g in groups if g["purpose"] == "pilot"} == {pilots}
    assert {len(g["rollouts"]) for g in groups if g["purpose"] == "commit"} == {16 - pilots}


def test_solved_prompts_leave_the_epochs_after(train: Train) -> None:
    """On a small data set without training: what was all right as a pilot is not piloted again, unless kept."""
    settings = {**LIVELY, "learner.lr": 1e-12, "task_args.train_size": 16, "log.rollouts": True, "budget.steps": 6}
    for method, again_ in (("pilot-commit", False), ("pilot-commit-keep", True)):
        run = train(method, {**settings, "allocation.max_rounds": 4}, name=method)
        pilots = [(g["prompt"]["uid"], g) for g in run.groups() if g["purpose"] == "pilot"]
        seen: dict[str, int] = {}
        later = []
        for uid, g in pilots:
            if uid in seen and g["step"] > seen[uid]:  # several epochs can pass in one step
                later.append(uid)
            if all(r["verdict"]["kind"] == "correct" for r in g["rollouts"]):
                seen.setdefault(uid, g["step"])
        assert seen and bool(later) == again_


def test_training_on_the_commits_alone(train: Train, batches: list[Any]) -> None:
    """The batch holds no pilots, they are counted apart, and mini-batches are those of the commits."""
    settings = {**LIVELY, "group_size": 8, "budget.steps": 4, "allocation.pilot.train_on": "commit"}
    run = train("pilot-commit", settings)
    rows = [row for batch, _ in batches for row in batch.rows]
    assert {row.rollout.member for row in rows} == {2, 3, 4, 5, 6, 7} and {row.age for row in rows} == {0}
    groups = sum(run.metric("batch/groups"))
    assert run.ledger["outcomes"]["pilot"]["rollouts"] == 2 * groups == 2 * len(rows) / 6
    assert set(run.metric("updates")) <= {2.0, 0.0}
