"""Random Countdown questions, made backwards: numbers are joined two by two until one is left: the target."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

ATOM, PRODUCT, SUM = 3, 2, 1  # how tightly the outermost operator of an expression binds


@dataclass(frozen=True, slots=True)
class Problem:
    """Numbers in the order they are shown, a target, and one way to it (empty where not known)."""

    numbers: tuple[int, ...]
    target: int
    solution: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        """What makes two questions the same."""
        return ",".join(map(str, sorted(self.numbers))) + f":{self.target}"


@dataclass(frozen=True, slots=True)
class Part:
    """A whole number above 0 and how it was made."""

    value: int
    text: str
    binds: int = ATOM

    def inside(self, least: int) -> str:
        return self.text if self.binds >= least else f"({self.text})"


def make_problem(rng: Random, count: int, low: int, high: int, operators: str) -> Problem | None:
    """`count` numbers of `low`..`high` and a target they make, or None where the joining met a fraction or a zero."""
    numbers = tuple(rng.randint(low, high) for _ in range(count))
    parts = [Part(n, str(n)) for n in numbers]
    while len(parts) > 1:
        first = parts.pop(rng.randrange(len(parts)))
        second = parts.pop(rng.randrange(len(parts)))
        joined = join(first, second, rng.choice(operators))
        if joined is None:
            return None
        parts.append(joined)
    return Problem(numbers, parts[0].value, parts[0].text)


def join(a: Part, b: Part, operator: str) -> Part | None:
    """`a` and `b` joined, the larger one first for - and /; None where the result is 0 or no whole number.

    Parentheses only where they are needed.
    """
    if operator == "+":
        return Part(a.value + b.value, f"{a.text}+{b.text}", SUM)
    if operator == "*":
        return Part(a.value * b.value, f"{a.inside(PRODUCT)}*{b.inside(PRODUCT)}", PRODUCT)
    if a.value < b.value:
        a, b = b, a
    if operator == "-":
        return Part(a.value - b.value, f"{a.text}-{b.inside(PRODUCT)}", SUM) if a.value > b.value else None
    if a.value % b.value:
        return None
    return Part(a.value // b.value, f"{a.inside(PRODUCT)}/{b.inside(ATOM)}", PRODUCT)
