"""Group advantages: published vectors, floating-point traps, invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwise.advantage import group_advantage

# Groups of 8 with rewards +-1 and k correct: advantage of a correct and of a wrong member, population deviation.
VECTORS = {
    1: (2.6458, -0.3780),
    2: (1.7321, -0.5774),
    3: (1.2910, -0.7746),
    4: (1, -1),
    6: (0.5774, -1.7321),
    7: (0.3780, -2.6458),
}


@pytest.mark.parametrize("correct", VECTORS)
@pytest.mark.parametrize("ddof,factor", [(0, 1.0), (1, 0.9354)])
def test_published_vectors(correct: int, ddof: int, factor: float) -> None:
    advantage = group_advantage([1.0] * correct + [-1.0] * (8 - correct), ddof=ddof, eps=0)
    right, wrong = VECTORS[correct]
    assert advantage[0] == pytest.approx(right * factor, abs=2e-4)
    assert advantage[-1] == pytest.approx(wrong * factor, abs=2e-4)


@pytest.mark.parametrize("size", [3, 4, 6, 7, 8, 12, 16, 24, 64])
@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 1.0, 1e6])
def test_equal_rewards_give_exactly_zero(size: int, value: float) -> None:
    assert group_advantage([value] * size).tolist() == [0.0] * size


def test_rewards_equal_but_for_rounding_are_equal() -> None:
    assert not group_advantage([0.1 + 0.2] * 4 + [0.3] * 4).any()


def test_no_cancellation() -> None:
    """E[x^2] - E[x]^2 in single precision puts the lone member at -2075 here."""
    advantage = group_advantage([0.0] + [0.95] * 7)
    assert advantage[0] == pytest.approx(-2.4749, abs=1e-3)


rewards = st.lists(st.floats(-10, 10), min_size=2, max_size=32)


@given(rewards)
def test_advantages_sum_to_zero(values: list[float]) -> None:
    for scale in ("std", "none"):
        assert abs(group_advantage(values, scale=scale).sum()) < 1e-6


@given(rewards, st.floats(-100, 100))
def test_a_constant_changes_nothing(values: list[float], shift: float) -> None:
    if max(values) - min(values) > 1e-3:
        np.testing.assert_allclose(group_advantage([v + shift for v in values]), group_advantage(values), atol=1e-6)


@given(rewards, st.randoms())
def test_order_follows(values: list[float], random: object) -> None:
    order = list(range(len(values)))
    random.shuffle(order)  # type: ignore[attr-defined]
    whole = group_advantage(values)
    np.testing.assert_allclose(group_advantage([values[i] for i in order]), whole[order], atol=1e-9)


@pytest.mark.parametrize("bad", [[], [float("nan"), 1.0], [float("inf"), 0.0]])
def test_impossible_rewards_are_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        group_advantage(bad)
