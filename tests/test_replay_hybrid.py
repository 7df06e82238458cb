"""FIFO and reservoir together: the sample is even, shares and ages hold, and runs go through the real loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.records import Group, Placed, Role
from rollwise.replay.hybrid import Hybrid, Reservoir
from rollwise.replay.recent import Entry, RecentGroups
from tests.samples import group

Train = Callable[..., Any]


def hybrid(**over: Any) -> Hybrid:
    base: dict[str, Any] = {
        "capacity": 4,
        "max_age": None,
        "max_uses": None,
        "short": "keep",
        "reservoir_capacity": 8,
        "reservoir_max_age": None,
        "share": 0.5,
        "seed": 0,
    }
    at = {**base, **over}
    recent = RecentGroups(
        capacity=at["capacity"],
        admit="informative",
        order="newest",
        min_age=0,
        max_age=at["max_age"],
        max_uses=at["max_uses"],
        short=at["short"],
    )
    reservoir = Reservoir(
        seed=at["seed"],
        capacity=at["reservoir_capacity"],
        max_age=at["reservoir_max_age"],
        max_uses=at["max_uses"],
    )
    return Hybrid(recent=recent, reservoir=reservoir, share=at["share"])


def seats(groups: list[Group]) -> list[Placed]:
    return [Placed(group=g, role=Role.fresh) for g in groups]


def nothing(rollouts: Any) -> list[np.ndarray]:
    raise AssertionError("newest-first needs no log-probs")


def dead(count: int, step: int) -> list[Group]:
    return [group(900 + i, alive=False, step=step) for i in range(count)]


@pytest.mark.parametrize("by_step", [False, True])
def test_the_reservoir_is_an_even_sample_of_all_that_came(by_step: bool) -> None:
    """Each of 20 groups is among the 5 kept in a quarter of the seeds, whether they come at once or one a step."""
    shared = [Entry(group=group(i), born=1) for i in range(20)]
    kept = np.zeros(20)
    runs = 1200
    for seed in range(runs):
        r = Reservoir(seed=seed, capacity=5, max_age=None)
        if by_step:
            for step, entry in enumerate(shared, start=1):
                r.offer([entry], step)
        else:
            r.offer(shared, 1)
        for e in r.entries:
            kept[int(e.group.uid)] += 1
    expected = runs / 4
    assert kept.sum() == 5 * runs
    assert (((kept - expected) ** 2) / (expected * 0.75)).sum() < 43.8, "0.001 of chi-square with 19 degrees"


def test_a_fifo_would_be_seen_as_uneven() -> None:
    r = Reservoir(seed=0, capacity=5, max_age=None)
    r.offer([Entry(group=group(i), born=1) for i in range(20)], 1)
    assert {e.group.uid for e in r.entries} != {str(i) for i in range(15, 20)}


@pytest.mark.parametrize("share,far", [(0.0, 0), (0.25, 1), (0.5, 2), (1.0, 4)])
def test_the_share_of_the_reservoir(share: float, far: int) -> None:
    h = hybrid(share=share)
    h.store(seats([group(i) for i in range(4)]), 1)
    h.store(seats([group(4 + i, step=2) for i in range(4)]), 2)
    placed = h.compose(dead(4, 3), 4, 3, nothing)
    newest = [p.group.uid for p in placed[: 4 - far]]
    assert newest == ["7", "6", "5", "4"][: 4 - far]
    assert h.metrics()["replay/reservoir_groups"] == far
    assert all(p.role is Role.replay for p in placed) and len({p.group.uid for p in placed}) == 4


def test_what_the_reservoir_cannot_give_comes_from_the_fifo() -> None:
    h = hybrid(reservoir_max_age=1, share=0.5)
    h.store(seats([group(i) for i in range(4)]), 1)
    placed = h.compose(dead(4, 3), 4, 3, nothing)
    assert [p.group.uid for p in placed] == ["3", "2", "1", "0"]
    assert (h.reservoir.expired, h.reservoir.entries) == (4, [])


def test_a_group_in_both_has_one_count_of_uses_also_after_loading() -> None:
    h = hybrid(max_uses=2)
    h.store(seats([group(1)]), 1)
    twin = hybrid(max_uses=2)
    twin.load_state_dict(h.state_dict())
    for each in (h, twin):
        for step in (2, 3):
            assert [p.uses for p in each.compose(dead(1, step), 1, step, nothing)] == [step - 2]
        assert each.compose(dead(1, 4), 1, 4, nothing)[0].role is Role.fresh, "used up in both"


limits = st.fixed_dictionaries(
    {
        "capacity": st.integers(1, 5),
        "max_age": st.one_of(st.none(), st.integers(1, 4)),
        "max_uses": st.one_of(st.none(), st.integers(1, 3)),
        "short": st.sampled_from(["keep", "drop"]),
        "reservoir_capacity": st.integers(1, 6),
        "reservoir_max_age": st.one_of(st.none(), st.integers(1, 6)),
        "share": st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    }
)
operations = st.lists(
    st.tuples(st.lists(st.booleans(), min_size=1, max_size=5), st.integers(0, 6), st.booleans()),
    min_size=1,
    max_size=12,
)


@settings(max_examples=100, deadline=None)
@given(operations, limits)
def test_invariants(steps: list[tuple[list[bool], int, bool]], limit: dict[str, Any]) -> None:
    """Conservation, ages, no group twice, the share; and saving and loading anywhere is invisible."""
    h, twin, uid = hybrid(**limit), hybrid(**limit), 0
    for step, (alive, slots, reload) in enumerate(steps, start=1):
        fresh = [group(uid + i, alive=a, step=step) for i, a in enumerate(alive)]
        uid += len(fresh)
        if reload:
            state = twin.state_dict()
            twin = hybrid(**limit)
            twin.load_state_dict(state)
        placed = h.compose(fresh, slots, step, nothing)
        assert [(p.group.uid, p.role, p.age, p.uses) for p in placed] == [
            (p.group.uid, p.role, p.age, p.uses) for p in twin.compose(fresh, slots, step, nothing)
        ]
        assert len({p.group.uid for p in placed}) == len(placed) <= max(slots, len(fresh))
        want = max(0, slots - sum(alive))
        assert len(h._far) <= round(limit["share"] * want) and len(h._near) + len(h._far) <= want
        for entries, oldest in ((h._near, limit["max_age"]), (h._far, limit["reservoir_max_age"])):
            assert all(1 <= step - e.born <= (oldest or step) and e.group.informative for e in entries)
        for p in placed:
            assert p.role is Role.fresh or limit["max_uses"] is None or p.uses < limit["max_uses"]
        for each in (h, twin):
            each.store(seats(fresh), step)
        r = h.reservoir
        assert len(r.entries) <= limit["reservoir_capacity"]
        assert r.admitted == len(r.entries) + r.replaced + r.expired
        assert len({e.group.uid for e in r.entries}) == len(r.entries)


def test_the_hybrid_differs_from_popo_and_reaches_further_back(train: Train) -> None:
    small = {"budget.steps": 8, "learner.lr": 3e-4, "task_args.max_digits": 10}
    popo = train("popo", {**small, "objective.weight_cap": 2.0}, name="popo")
    both = train("popo-hybrid", {**small, "replay.reservoir_share": 0.5}, name="both")
    assert both.weights() != popo.weights()
    assert sum(both.metric("replay/reservoir_groups")) > 0
    assert max(both.metric("replay/age_max")) > max(popo.metric("replay/age_max"))
    per_step = [s["ledger"]["generated"]["rollouts"] for s in both.steps]
    assert per_step == [24 * (i + 1) for i in range(8)], "nothing extra is generated"


def test_without_a_share_the_hybrid_is_popo(train: Train) -> None:
    a = train("popo-hybrid", {"replay.reservoir_share": 0.0, "objective.weight_cap": None, "budget.steps": 6}, name="a")
    b = train("popo", {"budget.steps": 6}, name="b")
    assert a.weights() == b.weights()


def test_foreign_state_is_refused() -> None:
    with pytest.raises(ValueError, match="state of replay"):
        hybrid().load_state_dict({"recent": {}})
    state = hybrid().state_dict()
    with pytest.raises(ValueError, match="state of reservoir"):
        hybrid().load_state_dict({**state, "reservoir": {"entries": []}})
