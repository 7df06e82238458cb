"""Group replay through the real loop: several groups, several steps, rows checked one by one."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.learner.learner import Learner
from rollwise.records import Batch, Group, Placed, Role
from rollwise.replay.recent import RecentGroups
from rollwise.replay.simple import NoReplay
from tests.samples import group

Train = Callable[..., Any]


def by_unit(batch: Batch) -> list[list[Any]]:
    units: dict[int, list[Any]] = {}
    for row in batch.rows:
        units.setdefault(row.unit, []).append(row)
    return list(units.values())


def test_popo_generates_as_grpo_and_fills_its_batch(train: Train, batches: list[Any]) -> None:
    steps = {"budget.steps": 8}
    grpo = train("grpo", steps, name="grpo")
    popo = train("popo", steps, name="popo")
    per_step = [s["ledger"]["generated"]["rollouts"] for s in grpo.steps]
    assert per_step == [24 * (i + 1) for i in range(8)]
    assert [s["ledger"]["generated"]["rollouts"] for s in popo.steps] == per_step
    assert max(grpo.metric("replay/filled")) < 1, "dead groups occur, or this test shows nothing"
    warm = next(i for i, f in enumerate(popo.metric("replay/filled")) if f == 1.0)
    assert popo.metric("replay/filled")[warm:] == [1.0] * (8 - warm)
    assert popo.metric("batch/groups") == [6.0] * 8


def test_until_the_buffer_holds_something_popo_is_grpo_bit_for_bit(train: Train) -> None:
    one = {"budget.steps": 1}
    assert train("popo", one, name="a").weights() == train("grpo", one, name="b").weights()


def test_where_all_groups_are_fresh_popo_is_grpo_bit_for_bit(train: Train) -> None:
    """A buffer whose groups never come of age: the decoupled weight of fresh rows is exactly 1."""
    same = {"budget.steps": 4}
    a = train("popo", {**same, "replay.min_age": 100}, name="a")
    b = train("grpo", same, name="b")
    assert a.weights() == b.weights()
    assert train("popo", same, name="c").weights() != b.weights()


def test_every_replayed_row_is_the_row_that_was_born(train: Train, batches: list[Any]) -> None:
    """The advantage, tokens, rewards and birth log-probs of every row of every replayed group, groups 1.. included."""
    train("popo", {"budget.steps": 6})
    born: dict[tuple[str, int], tuple[Any, np.ndarray | None]] = {}
    replayed = 0
    for batch, learned in batches:
        for row, prox in zip(batch.rows, learned.prox, strict=True):
            key = (row.rollout.group_uid, row.rollout.member)
            if row.role is Role.fresh:
                assert row.rollout.birth_step == batch.step
                born[key] = (row, prox)
                continue
            first, birth = born[key]
            replayed += 1
            assert row.credit.advantage == first.credit.advantage
            assert row.rollout.reward == first.rollout.reward
            np.testing.assert_array_equal(row.rollout.completion_ids, first.rollout.completion_ids)
            np.testing.assert_array_equal(row.rollout.prompt_ids, first.rollout.prompt_ids)
            assert row.age == batch.step - row.rollout.birth_step > 0
            if row.credit.teaches:
                assert birth is not None and row.rollout.birth_logprobs is not None
                np.testing.assert_array_equal(row.rollout.birth_logprobs, birth)
                if prox is not None:
                    assert not np.array_equal(prox, birth), "the policy has moved since"
    assert replayed > 40
    units = [u for batch, _ in batches for u in by_unit(batch) if u[0].role is Role.replay]
    assert {len(u) for u in units} == {4}, "groups stay whole"
    assert any(u[0].unit > 0 for u in units)


def test_no_group_twice_in_a_step_and_uids_unique(train: Train, batches: list[Any]) -> None:
    train("popo", {"budget.steps": 8})
    for batch, _ in batches:
        uids = [u[0].rollout.group_uid for u in by_unit(batch)]
        assert len(set(uids)) == len(uids)


def test_the_weight_of_replay_moves_away_from_one(train: Train) -> None:
    popo = train("popo", {"budget.steps": 6, "learner.lr": 1e-3})
    gaps = [v for v in popo.metric("weight/mean_abs_log") if v is not None]
    assert gaps and min(gaps) > 1e-5
    assert popo.metric("weight/applied_mean")[-1] != 1.0


def test_overwritten_birth_logprobs_would_be_seen(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a trainer that recomputes old log-probs for the mixed batch would do: every weight becomes 1."""

    def forgetful(self: Learner, rows: Any, prox: Any, packed: Any, step: int) -> Any:
        return prox.clone()

    monkeypatch.setattr(Learner, "_behaviour", forgetful)
    popo = train("popo", {"budget.steps": 6, "learner.lr": 1e-3})
    assert {v for v in popo.metric("weight/mean_abs_log") if v is not None} == {0.0}


@pytest.mark.parametrize(
    "method", ["grpo-filter", "popo-kl", "popo-ineff", "popo-stale", "popo-onpolicy", "popo-behaviour"]
)
def test_each_ablation_changes_the_run(train: Train, method: str) -> None:
    small = {"budget.steps": 5, "learner.lr": 1e-3}
    if method == "popo-stale":
        small["replay.min_age"] = 3
    popo = train("popo", {"budget.steps": 5, "learner.lr": 1e-3}, name="popo")
    other = train(method, small, name="other")
    assert other.weights() != popo.weights()
    assert other.steps[-1]["ledger"]["generated"] == other.ledger["generated"]
    if method == "popo-stale":
        ages = [a for a, n in zip(other.metric("replay/age_mean"), other.metric("replay/groups"), strict=True) if n]
        assert ages and min(ages) >= 3
    if method == "popo-onpolicy":
        assert {v for v in other.metric("weight/applied_mean") if v is not None} == {1.0}
        assert max(v for v in other.metric("weight/mean_abs_log") if v is not None) > 0
    if method == "grpo-filter":
        dead = other.metric("frac_reward_zero_std")
        assert other.metric("batch/groups") == [round(6 * (1 - d)) for d in dead]
    if method == "popo-ineff":
        assert max(other.metric("replay/size")) == 6
        filled = other.metric("replay/filled")
        assert min(filled[1:]) < 1, "dead groups are replayed too"


def test_kl_order_takes_the_nearest(train: Train, batches: list[Any]) -> None:
    """Distances recomputed here from the stored log-probs and the policy's, through the real loop."""
    taken: list[tuple[list[float], list[float]]] = []
    original = RecentGroups._nearest_first

    def spy(self: RecentGroups, entries: Any, policy: Any) -> Any:
        out = original(self, entries, policy)

        def distance(e: Any) -> float:
            d = np.concatenate(
                [a - b.behaviour_logprobs for a, b in zip(policy(e.group.rollouts), e.group.rollouts, strict=True)]
            ).astype(np.float64)
            return float((np.exp(d) - 1 - d).mean())

        taken.append(([distance(e) for e in out], [distance(e) for e in entries]))
        return out

    RecentGroups._nearest_first = spy  # type: ignore[method-assign]
    try:
        train("popo-kl", {"budget.steps": 6, "learner.lr": 1e-3})
    finally:
        RecentGroups._nearest_first = original  # type: ignore[method-assign]
    assert any(ordered != given for ordered, given in taken)
    for ordered, _ in taken:
        assert all(a <= b + 1e-6 for a, b in itertools.pairwise(ordered))


def test_short_buffer_drop_shrinks_the_batch(train: Train) -> None:
    kept = train("popo", {"budget.steps": 2}, name="kept")
    dropped = train("popo", {"budget.steps": 2, "replay.short": "drop"}, name="dropped")
    dead = kept.metric("frac_reward_zero_std")[0]
    assert dead > 0
    assert kept.metric("batch/groups")[0] == 6
    assert dropped.metric("batch/groups")[0] == round(6 * (1 - dead))


# --- the store itself ------------------------------------------------------------------------------------------------


def store(**settings: Any) -> RecentGroups:
    base: dict[str, Any] = {
        "capacity": 4,
        "admit": "informative",
        "order": "newest",
        "min_age": 0,
        "max_age": None,
        "max_uses": None,
        "short": "keep",
    }
    return RecentGroups(**{**base, **settings})


def seats(groups: list[Group]) -> list[Placed]:
    return [Placed(group=g, role=Role.fresh) for g in groups]


def nothing(rollouts: Any) -> list[np.ndarray]:
    raise AssertionError("newest-first needs no log-probs")


def test_newest_first_in_place_and_evicted_oldest_first() -> None:
    s = store()
    s.store(seats([group(i) for i in range(6)]), step=1)
    assert [e.group.uid for e in s.entries] == ["2", "3", "4", "5"]
    fresh = [group(10, alive=False, step=2), group(11, step=2), group(12, alive=False, step=2)]
    placed = s.compose(fresh, 3, 2, nothing)
    assert [(p.group.uid, p.role.value, p.age) for p in placed] == [
        ("5", "replay", 1),
        ("11", "fresh", 0),
        ("4", "replay", 1),
    ]
    assert [p.uses for p in s.compose(fresh, 3, 3, nothing) if p.role is Role.replay] == [1, 1]


def test_more_slots_than_fresh_groups_are_filled_too() -> None:
    s = store()
    s.store(seats([group(i) for i in range(4)]), step=1)
    placed = s.compose([group(9, step=2)], 4, 2, nothing)
    assert [p.group.uid for p in placed] == ["9", "3", "2", "1"]


def test_all_valid_leaves_the_batch_as_it_is() -> None:
    s = store()
    s.store(seats([group(1)]), step=1)
    fresh = [group(5, step=2), group(6, step=2)]
    assert [p.group for p in s.compose(fresh, 2, 2, nothing)] == fresh


@pytest.mark.parametrize("size", [6, 7, 12, 64])
def test_validity_does_not_trust_a_standard_deviation(size: int) -> None:
    g = group(1, alive=False)
    wide = dataclasses.replace(g, rollouts=tuple(g.rollouts[0] for _ in range(size)))
    assert not wide.informative
    s = store()
    s.store(seats([wide]), step=1)
    assert s.entries == []


def test_age_and_use_limits() -> None:
    s = store(max_age=2, max_uses=2)
    s.store(seats([group(1)]), step=1)
    dead = [group(9, alive=False)]
    uses = [[p.role.value for p in s.compose(dead, 1, step, nothing)] for step in (2, 3, 4)]
    assert uses == [["replay"], ["replay"], ["fresh"]]
    assert (s.admitted, s.expired, len(s.entries)) == (1, 1, 0)


operations = st.lists(
    st.tuples(st.lists(st.booleans(), min_size=1, max_size=5), st.integers(0, 6), st.booleans()),
    min_size=1,
    max_size=15,
)
limits = st.fixed_dictionaries(
    {
        "capacity": st.integers(1, 8),
        "admit": st.sampled_from(["informative", "any"]),
        "min_age": st.integers(0, 3),
        "max_age": st.one_of(st.none(), st.integers(3, 5)),
        "max_uses": st.one_of(st.none(), st.integers(1, 3)),
        "short": st.sampled_from(["keep", "drop"]),
    }
)


@settings(max_examples=150, deadline=None)
@given(operations, limits)
def test_store_invariants(steps: list[tuple[list[bool], int, bool]], limit: dict[str, Any]) -> None:
    """Conservation, ages, no group twice, nothing of the step itself; and saving and loading anywhere is invisible."""
    s, twin, uid = store(**limit), store(**limit), 0
    for step, (alive, slots, reload) in enumerate(steps, start=1):
        fresh = []
        for a in alive:
            uid += 1
            fresh.append(group(uid, alive=a, step=step))
        if reload:
            state = twin.state_dict()
            twin = store(**limit)
            twin.load_state_dict(state)
        placed = s.compose(fresh, slots, step, nothing)
        assert [(p.group.uid, p.role, p.age, p.uses) for p in placed] == [
            (p.group.uid, p.role, p.age, p.uses) for p in twin.compose(fresh, slots, step, nothing)
        ]
        old = [p for p in placed if p.role is Role.replay]
        assert len({p.group.uid for p in placed}) == len(placed)
        for p in old:
            assert p.age >= max(1, limit["min_age"])
            assert limit["max_age"] is None or p.age <= limit["max_age"]
            assert limit["max_uses"] is None or p.uses < limit["max_uses"]
            assert limit["admit"] == "any" or p.group.informative
        good = sum(g.informative for g in fresh)
        assert good <= len(placed) <= max(slots, len(fresh))
        ages = [p.age for p in old]
        assert ages == sorted(ages)
        for each in (s, twin):
            each.store(seats(fresh), step)
        assert len(s.entries) <= limit["capacity"]
        assert s.admitted == len(s.entries) + s.evicted + s.expired


def test_foreign_state_is_refused() -> None:
    with pytest.raises(ValueError, match="state of replay"):
        store().load_state_dict({"entries": []})
    with pytest.raises(ValueError, match="state of replay"):
        NoReplay(drop_dead=False).load_state_dict(store().state_dict())
