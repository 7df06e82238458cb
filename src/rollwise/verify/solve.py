"""A solution of a Countdown question by search, for the audit of golds. Exact fractions, bounded work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

MAX_NUMBERS = 6
MAX_STEPS = 100_000  # pairs tried; all of four numbers take fewer than ten thousand

Entry = tuple[Fraction, str]


def solve(numbers: Sequence[int], target: int) -> str | None:
    """An expression that uses each number once and has the value `target`, or None if none was found."""
    if not 1 <= len(numbers) <= MAX_NUMBERS:
        return None
    return _search([(Fraction(n), str(n)) for n in numbers], Fraction(target), [MAX_STEPS])


def _search(entries: list[Entry], target: Fraction, left: list[int]) -> str | None:
    if len(entries) == 1:
        return entries[0][1] if entries[0][0] == target else None
    for i, a in enumerate(entries):
        for j in range(i + 1, len(entries)):
            rest = [e for k, e in enumerate(entries) if k not in (i, j)]
            for joined in _joined(a, entries[j]):
                left[0] -= 1
                if left[0] < 0:
                    return None
                found = _search([*rest, joined], target, left)
                if found is not None:
                    return found
    return None


def _joined(a: Entry, b: Entry) -> Iterator[Entry]:
    (x, left), (y, right) = a, b
    yield x + y, f"({left}+{right})"
    yield x * y, f"({left}*{right})"
    yield x - y, f"({left}-{right})"
    yield y - x, f"({right}-{left})"
    if y:
        yield x / y, f"({left}/{right})"
    if x:
        yield y / x, f"({right}/{left})"
