"""Exact numbers of school geometry: a fraction, perhaps times a square root, perhaps times pi; and their LaTeX."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Exact:
    """coefficient * sqrt(root) * pi ** pi, the root without square factors."""

    coefficient: Fraction
    root: int = 1
    pi: bool = False

    @staticmethod
    def sqrt(square: int) -> Exact:
        """The square root of a whole number, its square factors taken out."""
        outside = next(n for n in range(math.isqrt(square), 0, -1) if square % (n * n) == 0)
        return Exact(Fraction(outside), square // (outside * outside))

    def times(self, factor: Fraction | int) -> Exact:
        return dataclasses.replace(self, coefficient=self.coefficient * factor)

    def plus(self, other: Exact) -> Exact:
        """The sum of two numbers with the same root and the same power of pi."""
        assert (self.root, self.pi) == (other.root, other.pi)
        return dataclasses.replace(self, coefficient=self.coefficient + other.coefficient)

    def __float__(self) -> float:
        return float(self.coefficient) * math.sqrt(self.root) * (math.pi if self.pi else 1.0)

    def latex(self) -> str:
        r"""As in Geometry3K, with blanks: `7`, `5 \sqrt { 2 }`, `12 \pi`, `\frac { 5 \pi } { 3 }`."""
        over, under = self.coefficient.numerator, self.coefficient.denominator
        factors = [f"\\sqrt {{ {self.root} }}"] * (self.root > 1) + ["\\pi"] * self.pi
        above = " ".join([str(over)] * (over != 1 or not factors) + factors)
        return above if under == 1 else f"\\frac {{ {above} }} {{ {under} }}"
