"""Rollout-level replay: closed forms, draws, limits, and every row through the real loop."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.advantage import GroupAdvantage, group_advantage
from rollwise.config import build
from rollwise.errors import UserError
from rollwise.learner.batching import mini_batches
from rollwise.learner.stats import TokenLog
from rollwise.objective import TokenStats
from rollwise.records import Credit, Group, Placed, Role, Row, Verdict, VerdictKind
from rollwise.replay.draw import log_priority, weighted_draw
from rollwise.replay.rollouts import RolloutReplay
from tests.samples import group


def mixed(uid: int, right: int = 1, size: int = 4, step: int = 1) -> Group:
    """A group with `right` of `size` members correct."""
    first = group(uid, step=step)
    good, bad = first.rollouts
    members = (dataclasses.replace(good if i < right else bad, member=i) for i in range(size))
    return dataclasses.replace(first, rollouts=tuple(members))


def credits_of(g: Group) -> tuple[Credit, ...]:
    estimate = GroupAdvantage(scale="std", ddof=0, eps=1e-6)
    return estimate([Placed(group=g, role=Role.fresh)], None)[0]  # type: ignore[arg-type]


def seats(groups: list[Group]) -> list[Placed]:
    return [Placed(group=g, role=Role.fresh, credits=credits_of(g)) for g in groups]


def store(**over: Any) -> RolloutReplay:
    base: dict[str, Any] = {
        "seed": 0,
        "capacity": 100,
        "ratio": 0.5,
        "alpha": 0.5,
        "eps": 1e-6,
        "warmup_steps": 0,
        "max_age": None,
        "max_uses": None,
        "priority": "advantage",
        "entries": "rollouts",
        "composition": "fresh",
    }
    chosen = {**base, **over}
    return RolloutReplay(**chosen, credits_of=credits_of if chosen["composition"] == "pool" else None)


def zeros(rollouts: Any) -> list[np.ndarray]:
    """A policy whose log-probs can be told from the sampler's."""
    return [np.zeros(r.length, dtype=np.float32) for r in rollouts]


def nothing(rollouts: Any) -> list[np.ndarray]:
    raise AssertionError("no log-probs are needed")


def replayed(placed: list[Placed]) -> list[Placed]:
    return [p for p in placed if p.role is Role.replay]


def keys(placed: list[Placed]) -> list[tuple[str, int]]:
    return [(r.group_uid, r.member) for p in placed for r in p.group.rollouts]


# --- closed forms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 5, 8, 16])
def test_advantages_of_two_rewards(size: int) -> None:
    """arXiv 2606.04560, proposition 1; population deviation."""
    for k in range(1, size):
        a = group_advantage([1.0] * k + [-1.0] * (size - k), ddof=0, eps=0.0)
        assert a[0] == pytest.approx(math.sqrt((size - k) / k))
        assert a[-1] == pytest.approx(-math.sqrt(k / (size - k)))
        assert -a[0] * a[-1] == pytest.approx(1)


def test_advantages_of_eight() -> None:
    table = {1: (2.6458, -0.3780), 2: (1.7321, -0.5774), 3: (1.2910, -0.7746), 4: (1, -1), 6: (0.5774, -1.7321)}
    for k, (right, wrong) in table.items():
        stored = store()
        stored.store(seats([mixed(1, k, 8)]), step=1)
        found = [c.advantage for s in stored.seats for c in s.credits or ()]
        assert found == pytest.approx([right] * k + [wrong] * (8 - k), abs=1e-4)
        assert stored.table["reward_mean"][0] == k / 8
        assert 2 * stored.table["reward_std"][0] == pytest.approx(2 * math.sqrt(k / 8 * (1 - k / 8)))


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def of_eight(draws: int, **over: Any) -> np.ndarray:
    """How often each member of a group with one right of eight is drawn first, over many seeds."""
    counts = np.zeros(8)
    s, fresh = store(**over), [group(2, step=2)]
    s.store(seats([mixed(1, 1, 8)]), step=1)
    for seed in range(draws):
        s.seed = seed
        (one,) = replayed(s.compose(fresh, 1, 2, nothing))
        counts[one.group.rollouts[0].member] += 1
    return counts


def test_one_right_of_eight_is_drawn_root_seven_times_as_often() -> None:
    draws = 3000
    weight = np.array([math.sqrt(7)] + [1.0] * 7)
    expected = draws * weight / weight.sum()
    assert chi_square(of_eight(draws), expected) < 24.3, "0.001 of chi-square with 7 degrees"
    assert chi_square(of_eight(draws, alpha=1.0), expected) > 100, "another alpha is seen"
    assert chi_square(of_eight(draws, priority="uniform"), np.full(8, draws / 8)) < 24.3
    assert chi_square(of_eight(draws, priority="sigma"), np.full(8, draws / 8)) < 24.3, "one group, one deviation"


def test_draws_without_replacement_are_draws_one_by_one() -> None:
    """All ordered pairs of four items, against the probabilities of drawing twice among what is left."""
    weight = np.array([1.0, 2.0, 3.0, 6.0])
    draws = 6000
    seen = Counter(
        tuple(weighted_draw(np.log(weight), 2, np.random.Generator(np.random.Philox(s))).tolist()) for s in range(draws)
    )
    pairs = list(itertools.permutations(range(4), 2))
    share = [weight[a] / 12 * weight[b] / (12 - weight[a]) for a, b in pairs]
    assert sum(share) == pytest.approx(1)
    assert chi_square(np.array([seen[p] for p in pairs]), draws * np.array(share)) < 31.3, "0.001, 11 degrees"


@given(st.lists(st.floats(-300, 300), max_size=40), st.integers(0, 50), st.integers(0, 9))
def test_a_draw_is_distinct_and_a_shorter_one_is_its_beginning(weights: list[float], count: int, seed: int) -> None:
    def draw(n: int) -> list[int]:
        return weighted_draw(np.array(weights), n, np.random.Generator(np.random.Philox(seed))).tolist()  # type: ignore[no-any-return]

    drawn = draw(count)
    assert len(set(drawn)) == len(drawn) == min(count, len(weights))
    assert draw(count // 2) == drawn[: count // 2]
    assert drawn == draw(count)


def test_priorities_are_positive_and_never_too_small() -> None:
    weight = log_priority(np.array([0.0, 1.0, 2.0]), alpha=200.0, eps=1e-6)
    assert np.isfinite(weight).all() and (np.diff(weight) > 0).all()
    assert weighted_draw(weight, 3, np.random.Generator(np.random.Philox(1))).tolist() == [2, 1, 0]


# --- the store -------------------------------------------------------------------------------------------------------


def test_ages_one_to_the_limit_are_drawn() -> None:
    s = store(max_age=3, ratio=9)
    s.store(seats([mixed(1)]), step=1)
    found = {
        step: [p.age for p in replayed(s.compose([group(9, step=step)], 1, step, nothing))] for step in range(2, 6)
    }
    assert found == {2: [1] * 4, 3: [2] * 4, 4: [3] * 4, 5: []}
    assert (s.admitted, s.expired, len(s.seats)) == (4, 4, 0)


def test_warm_up_stores_and_does_not_draw() -> None:
    s = store(warmup_steps=3)
    for step in range(1, 6):
        drawn = replayed(s.compose([mixed(step, step=step)], 1, step, nothing))
        assert len(drawn) == (2 if step > 3 else 0)
        s.store(seats([mixed(step, step=step)]), step)
        assert len(s.seats) == 4 * step


def test_capacity_drops_the_oldest_and_may_cut_a_group() -> None:
    s = store(capacity=6)
    s.store(seats([mixed(1), mixed(2)]), step=1)
    assert keys(s.seats) == [("1", 2), ("1", 3), ("2", 0), ("2", 1), ("2", 2), ("2", 3)]
    assert (s.admitted, s.evicted) == (8, 2)
    whole = store(capacity=6, entries="groups")
    whole.store(seats([mixed(1), mixed(2)]), step=1)
    assert [p.group.uid for p in whole.seats] == ["2"], "a group leaves whole"
    assert whole.evicted == 4


@pytest.mark.parametrize(
    "fresh,stored,ratio,drawn", [(8, 4, 0.5, 4), (8, 2, 0.5, 4), (4, 1, 2.0, 4), (0, 4, 0.5, 0), (8, 4, 0.0, 0)]
)
def test_the_size_of_a_draw(fresh: int, stored: int, ratio: float, drawn: int) -> None:
    """min(round(ratio x rollouts of informative fresh groups), stored), dead groups of the step not counted."""
    s = store(ratio=ratio)
    s.store(seats([mixed(i) for i in range(stored)]), step=1)
    own = [mixed(10 + i, step=2) for i in range(fresh // 4)]
    placed = s.compose([*own, group(99, alive=False, step=2)], 5, 2, nothing)
    assert placed[: len(own)] == [Placed(group=g, role=Role.fresh) for g in own], "fresh ones first and whole"
    assert len(replayed(placed)) == min(drawn, 4 * stored)
    assert "99" not in {p.group.uid for p in placed}


def test_the_pool_holds_as_many_as_fresh_and_draw_together() -> None:
    s = store(composition="pool")
    s.store(seats([mixed(i) for i in range(5)]), step=1)
    own = [mixed(10 + i, step=2) for i in range(2)]
    placed = s.compose(own, 2, 2, zeros)
    assert len(placed) == 12
    fresh = [p for p in placed if p.role is Role.fresh]
    assert 0 < len(fresh) < 8, "some give way"
    assert all(p.credits == (credits_of(mixed(0))[p.group.rollouts[0].member],) for p in placed)
    s.store([Placed(group=g, role=Role.fresh, credits=(Credit(advantage=0.0),) * 4) for g in own], step=2)
    new = s.seats[20:]
    assert keys(new) == [("10", i) for i in range(4)] + [("11", i) for i in range(4)]
    assert all(c.teaches for p in new for c in p.credits or ())
    met = {(r.group_uid, r.member): r.birth_logprobs for p in new for r in p.group.rollouts}
    assert {k for k, lp in met.items() if lp is not None} == set(keys(own_seats(own))) - set(keys(fresh))


def own_seats(groups: list[Group]) -> list[Placed]:
    return [Placed(group=g, role=Role.fresh) for g in groups]


def test_the_pool_asks_no_log_probs_of_what_was_born_before() -> None:
    """A group that the allocation held was drawn by an earlier policy: it keeps the sampler's log-probs."""
    s = store(composition="pool")
    s.store(seats([mixed(i) for i in range(30)]), step=1)
    held = mixed(50, step=1)
    placed = s.compose([held], 1, 2, nothing)
    assert len([p for p in placed if p.role is Role.fresh]) < 4
    s.store(seats([held]), step=2)
    new = s.seats[-4:]
    assert all(r.birth_logprobs is None for p in new for r in p.group.rollouts)
    assert s.table["birth"][-4:].tolist() == [1] * 4


def test_during_warm_up_the_pool_is_all_that_is_fresh() -> None:
    s = store(composition="pool", warmup_steps=5)
    s.store(seats([mixed(1)]), step=1)
    assert keys(s.compose([mixed(2, step=2)], 1, 2, nothing)) == [("2", i) for i in range(4)]


def test_a_member_without_verdict_or_count_is_not_stored() -> None:
    g = mixed(1)
    failed = dataclasses.replace(g.rollouts[3], verdict=Verdict(kind=VerdictKind.infra_error, score=0.0))
    seat = Placed(
        group=dataclasses.replace(g, rollouts=(*g.rollouts[:3], failed)),
        role=Role.fresh,
        credits=(*credits_of(g)[:2], Credit(advantage=-1.0, counts=False), Credit(advantage=0.0)),
    )
    s = store()
    s.store([seat, *seats([group(2, alive=False)])], step=1)
    assert keys(s.seats) == [("1", 0), ("1", 1)]


operations = st.lists(
    st.tuples(st.lists(st.integers(0, 4), max_size=4), st.booleans()),
    min_size=1,
    max_size=12,
)
limits = st.fixed_dictionaries(
    {
        "capacity": st.integers(1, 30),
        "ratio": st.sampled_from([0.0, 0.3, 0.5, 2.0]),
        "warmup_steps": st.integers(0, 3),
        "max_age": st.one_of(st.none(), st.integers(1, 4)),
        "max_uses": st.one_of(st.none(), st.integers(1, 3)),
        "priority": st.sampled_from(["advantage", "sigma", "uniform"]),
        "entries": st.sampled_from(["rollouts", "groups"]),
        "composition": st.sampled_from(["fresh", "pool"]),
    }
)


@settings(max_examples=120, deadline=None)
@given(operations, limits)
def test_store_invariants(steps: list[tuple[list[int], bool]], limit: dict[str, Any]) -> None:
    """Conservation, ages, size of the draw, nothing twice in a step; saving and loading anywhere is invisible."""
    s, twin, uid = store(**limit), store(**limit), 0
    for step, (rights, reload) in enumerate(steps, start=1):
        fresh = [mixed(uid + i, right, step=step) for i, right in enumerate(rights)]
        uid += len(fresh)
        if reload:
            state = twin.state_dict()
            twin = store(**limit)
            twin.load_state_dict(state)
        placed, other = (each.compose(fresh, len(fresh), step, zeros) for each in (s, twin))
        assert [(keys([p]), p.role, p.age, p.uses, p.credits) for p in placed] == [
            (keys([p]), p.role, p.age, p.uses, p.credits) for p in other
        ]
        assert len(set(keys(placed))) == len(keys(placed))
        old = replayed(placed)
        for p in old:
            assert 1 <= p.age <= (limit["max_age"] or step)
            assert limit["max_uses"] is None or p.uses < limit["max_uses"]
            assert p.credits is not None and all(r.birth_step == step - p.age for r in p.group.rollouts)
        alive = [g for g in fresh if g.informative]
        unit = 4 if limit["entries"] == "rollouts" else 1
        count = min(round(limit["ratio"] * unit * len(alive)), len(s.seats)) if step > limit["warmup_steps"] else 0
        if limit["composition"] == "fresh":
            assert len(old) == count and len(placed) == len(alive) + count
        else:
            assert len(placed) == unit * len(alive) + count
        for each in (s, twin):
            each.store(seats(fresh), step)
        assert s.table["rows"].sum() == sum(p.group.size for p in s.seats) <= limit["capacity"]
        assert s.admitted == s.table["rows"].sum() + s.evicted + s.expired


def test_foreign_state_is_refused() -> None:
    state = store().state_dict()
    for broken in ({**state, "more": 1}, {**state, "table": {}}, {k: v for k, v in state.items() if k != "credits"}):
        with pytest.raises(ValueError, match="state of replay"):
            store().load_state_dict(broken)
    with pytest.raises(ValueError, match="state of stored groups"):
        store().load_state_dict({**state, "groups": {}})


# --- mini-batches of groups and single rollouts ----------------------------------------------------------------------


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 6), st.integers(0, 5))
def test_mini_batches_are_even_in_rows(sizes: list[int], count: int, step: int) -> None:
    member = group(0).rollouts[0]
    rows = [
        Row(rollout=member, credit=Credit(advantage=1.0), role=Role.fresh, unit=u)
        for u, size in enumerate(sizes)
        for _ in range(size)
    ]
    plan = mini_batches(rows, count, seed=0, step=step, epoch=0)
    assert len(plan) == min(count, len(sizes)) and all(plan)
    assert sorted(i for part in plan for i in part) == list(range(len(rows)))
    units = [{rows[i].unit for i in part} for part in plan]
    assert sum(map(len, units)) == len(sizes), "a unit is in one part"
    if max(sizes) * count <= len(rows) and len(sizes) > 3 * count:
        assert max(map(len, plan)) - min(map(len, plan)) <= 2 * max(sizes)


# --- what the learner counts, and what settings refuse ----------------------------------------------------------------


def test_shares_of_replayed_tokens_without_gradient() -> None:
    """Clipped, weighted 0, of a row with advantage 0 in its pass, and of a row left out: counted here by hand."""
    member = group(1).rollouts[0]  # two tokens
    rows = [
        Row(rollout=member, credit=Credit(advantage=a), role=role, unit=i, age=1)
        for i, (a, role) in enumerate([(1.0, Role.replay), (0.0, Role.replay), (1.0, Role.fresh), (1.0, Role.replay)])
    ]
    clipped = torch.tensor([[True, False], [False, False], [True, True], [False, False]])
    weight = torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    mask = torch.tensor([[True, True], [True, True], [True, True], [True, False]])
    for removes, lost in ((True, 1 + 2 + 1), (False, 2 + 1)):
        log = TokenLog(clip_removes=removes)
        log.tokens(rows, mask, torch.zeros(4, 2), torch.zeros(4, 2), TokenStats(weight=weight, clipped=clipped))
        assert log.metrics()["replay/zero_grad_frac"] == pytest.approx(lost / 5)
        log.left_out(rows[1:3])
        assert log.metrics()["replay/zero_grad_frac"] == pytest.approx((lost + 2) / 7), "fresh rows are not counted"


@pytest.mark.parametrize(
    "tree,words",
    [
        ({"replay": {"kind": "rollouts", "capacity_batches": 2}}, "set replay.capacity, in rollouts"),
        ({"replay": {"kind": "rollouts"}, "objective": {"reduction": "prompt"}}, "replay.entries=groups"),
        (
            {"replay": {"kind": "rollouts", "composition": "pool"}, "advantage": {"kind": "reinforce++"}},
            "set advantage.kind=group",
        ),
        ({"replay": {"kind": "success"}, "allocation": {"kind": "dynamic"}}, "set allocation.kind=fixed"),
    ],
)
def test_combinations_that_are_refused(tree: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=r"^config: ") as error:
        build({"budget": {"steps": 1}, **tree})
    assert words in str(error.value) and "\n" not in str(error.value)
