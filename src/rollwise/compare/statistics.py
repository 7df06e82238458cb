"""The numbers of a comparison. Pure functions; a missing value is NaN or None, never zero.

An interval is the 95 % t-interval over seeds; with one seed there is none. Differences are taken seed by seed, because
runs of one seed see the same prompts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

LEVEL = 0.95
LAST = 3  # evaluations that the final accuracy averages


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean over seeds and the half width of its interval."""

    mean: float  # NaN: no value at all
    half: float  # NaN: fewer than two values
    n: int

    @property
    def includes_zero(self) -> bool:
        """Whether the interval holds 0; false where there is no interval."""
        return math.isfinite(self.half) and abs(self.mean) <= self.half


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(Interval):
    """A paired difference; `agreeing` counts the seeds whose difference has the sign of the mean."""

    agreeing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """When a target was reached, over seeds."""

    median: float  # infinite: not reached by half of the seeds; NaN: no seed
    reached: int
    n: int
    places: tuple[float | None, ...]  # one for each seed, in the order given
    few: bool = False  # some seed has too few evaluations for two in a row to say anything


def within(t: float, df: int) -> float:
    """P(|T| <= t) of Student's t with a whole number of degrees of freedom: a finite sum, exact but for rounding."""
    angle = math.atan2(t, math.sqrt(df))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    term = total = 1.0
    if df % 2:
        term = total = math.cos(angle) if df > 1 else 0.0
        for k in range(3, df - 1, 2):
            term *= square * (k - 1) / k
            total += term
        return 2 / math.pi * (angle + sine * total)
    for k in range(2, df - 1, 2):
        term *= square * (k - 1) / k
        total += term
    return sine * total


@cache
def t_quantile(df: int) -> float:
    """The t with P(|T| <= t) = 0.95, by bisection."""
    if df < 1:
        raise ValueError(f"degrees of freedom must be at least 1, not {df}")
    low, high = 0.0, 16.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, df) < LEVEL else (low, middle)
    return (low + high) / 2


def interval(values: Sequence[float]) -> Interval:
    """Mean and half width of the finite values, the same in any order."""
    good = [v for v in values if math.isfinite(v)]
    n = len(good)
    if n == 0:
        return Interval(mean=math.nan, half=math.nan, n=0)
    mean = math.fsum(good) / n
    if n == 1:
        return Interval(mean=mean, half=math.nan, n=1)
    variance = math.fsum((v - mean) ** 2 for v in good) / (n - 1)
    return Interval(mean=mean, half=t_quantile(n - 1) * math.sqrt(variance / n), n=n)


def paired(values: Mapping[int, float], reference: Mapping[int, float]) -> Difference:
    """`values` minus `reference` over the seeds that both have."""
    seeds = sorted(values.keys() & reference.keys())
    gaps = [values[s] - reference[s] for s in seeds]
    good = [gap for gap in gaps if math.isfinite(gap)]
    over = interval(good)
    agreeing = sum(gap * over.mean > 0 or gap == over.mean == 0 for gap in good)
    return Difference(mean=over.mean, half=over.half, n=over.n, agreeing=agreeing)


def final_mean(accuracies: Sequence[float], last: int = LAST) -> float:
    """Mean of the last evaluations, of all where there are fewer; NaN where there is none."""
    good = [v for v in accuracies if math.isfinite(v)][-last:]
    return math.fsum(good) / len(good) if good else math.nan


def first_of_two(points: Sequence[tuple[float, float]], target: float) -> float | None:
    """The place of the first of two consecutive evaluations at or above the target; None where there are none."""
    for (x, first), (_, second) in pairwise(points):
        if first >= target and second >= target:
            return x
    return None


def reached(places: Sequence[float | None], few: bool = False) -> Reached:
    """The median over seeds, a seed that did not reach the target counting as later than every other.

    A mean over the seeds that did reach it would favour the method that fails more often; this does not.
    """
    n = len(places)
    if n == 0:
        return Reached(median=math.nan, reached=0, n=0, places=(), few=few)
    order = sorted(math.inf if p is None else p for p in places)
    low, high = order[(n - 1) // 2], order[n // 2]
    median = low if low == high else (low + high) / 2
    return Reached(median=median, reached=sum(p is not None for p in places), n=n, places=tuple(places), few=few)


def round_targets(start: float, best: float, most: int = 5) -> list[float]:
    """At most `most` equally spaced round values above `start` and at or below `best`, none in the first tenth between.

    They depend on where all runs start and on the highest mean of any method, whichever it is.
    """
    if not (math.isfinite(start) and math.isfinite(best)) or best <= start:
        return []
    floor = start + 0.1 * (best - start)
    for thousandths in (1, 2, 5, 10, 20, 50, 100, 200, 500):
        first = math.floor(floor * 1000 / thousandths + 1e-9) + 1
        last = math.floor(best * 1000 / thousandths + 1e-9)
        if last - first + 1 <= most:
            return [k * thousandths / 1000 for k in range(first, last + 1)]
    return []
