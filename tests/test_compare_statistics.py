"""The numbers of a comparison: goldens, and what must not depend on the order of seeds."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwise.compare.statistics import (
    final_mean,
    first_of_two,
    interval,
    paired,
    reached,
    round_targets,
    t_quantile,
)

values = st.floats(-10, 10)


@pytest.mark.parametrize(
    ("df", "t"),
    [
        (1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (6, 2.447), (7, 2.365), (8, 2.306), (9, 2.262),
        (10, 2.228), (15, 2.131), (20, 2.086), (29, 2.045), (30, 2.042), (60, 2.000), (120, 1.980), (10000, 1.960),
    ],
)  # fmt: skip
def test_t_quantile(df: int, t: float) -> None:
    assert round(t_quantile(df), 3) == t


def test_t_quantile_falls_and_refuses() -> None:
    row = [t_quantile(df) for df in range(1, 60)]
    assert row == sorted(row, reverse=True)
    with pytest.raises(ValueError, match="at least 1"):
        t_quantile(0)


def test_interval() -> None:
    got = interval([1.0, 2.0, 3.0])
    assert (got.mean, got.n) == (2.0, 3) and math.isclose(got.half, 4.302652729911275 / math.sqrt(3), rel_tol=1e-9)
    assert interval([1.0]).half != interval([1.0]).half and interval([1.0]).mean == 1.0
    assert math.isnan(interval([]).mean) and interval([math.nan, 2.0]).n == 1
    assert interval([2.0, 2.0]).half == 0


def test_paired_difference_of_six_seeds() -> None:
    grpo = dict(enumerate([0.520, 0.518, 0.517, 0.524, 0.518, 0.552]))
    popo = dict(enumerate([0.599, 0.596, 0.582, 0.619, 0.575, 0.582]))
    gap = paired(popo, grpo)
    assert (round(gap.mean, 4), round(gap.half, 4), gap.agreeing, gap.n) == (0.0673, 0.0236, 6, 6)
    assert not gap.includes_zero


@given(
    st.dictionaries(st.integers(0, 20), values, min_size=1), st.dictionaries(st.integers(0, 20), values), st.randoms()
)
def test_pairing_ignores_order_and_is_antisymmetric(a: dict[int, float], b: dict[int, float], r: random.Random) -> None:
    shuffled = list(a.items())
    r.shuffle(shuffled)
    one, two, back = paired(a, b), paired(dict(shuffled), b), paired(b, a)
    assert repr(one) == repr(two)
    assert one.n == back.n == len(a.keys() & b.keys())
    if one.n:
        assert one.mean == -back.mean and one.agreeing == back.agreeing <= one.n
    if one.n > 1:
        assert math.isclose(one.half, back.half, rel_tol=1e-9, abs_tol=1e-12) and one.half >= 0


@given(st.lists(values, min_size=2), st.randoms())
def test_interval_ignores_order(sample: list[float], r: random.Random) -> None:
    mixed = sample[:]
    r.shuffle(mixed)
    assert interval(sample).mean == interval(mixed).mean
    assert math.isclose(interval(sample).half, interval(mixed).half, rel_tol=1e-9, abs_tol=1e-12)


@given(st.dictionaries(st.integers(0, 9), values, min_size=2), st.floats(-5, 5))
def test_a_shift_common_to_a_seed_cancels(a: dict[int, float], shift: float) -> None:
    moved = {s: v + shift for s, v in a.items()}
    assert math.isclose(paired(moved, a).mean, shift, abs_tol=1e-9)
    assert paired(moved, a).half < 1e-7


def test_final_mean_handles_fewer() -> None:
    assert final_mean([9.0, 1.0, 2.0, 3.0]) == 2.0
    assert final_mean([1.0, 2.0]) == 1.5 and math.isnan(final_mean([]))


def test_first_of_two_consecutive() -> None:
    points = [(0.0, 0.1), (1.0, 0.5), (2.0, 0.4), (3.0, 0.5), (4.0, 0.6)]
    assert first_of_two(points, 0.5) == 3.0
    assert first_of_two(points, 0.6) is None  # the last alone is not enough
    assert first_of_two(points, 0.1) == 0.0 and first_of_two([], 0.1) is None


def test_median_counts_those_that_never_arrive() -> None:
    assert reached([10.0, None, 30.0]).median == 30.0
    assert reached([10.0, 20.0]).median == 15.0
    assert reached([10.0, None]).median == math.inf and reached([10.0, None]).reached == 1
    assert reached([None, None]).median == math.inf and math.isnan(reached([]).median)


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_a_failure_never_improves_the_median(places: list[float]) -> None:
    assert reached([*places, None]).median >= reached([*places, max(places)]).median


def test_default_targets() -> None:
    assert round_targets(0.363, 0.58) == [0.4, 0.45, 0.5, 0.55]
    assert round_targets(0.5, 0.5) == [] and round_targets(math.nan, 0.5) == []


@given(st.floats(0, 1), st.floats(0, 1))
def test_default_targets_lie_between(start: float, best: float) -> None:
    targets = round_targets(start, best)
    assert len(targets) <= 5 and targets == sorted(set(targets))
    assert all(start < t <= best + 1e-9 for t in targets)
