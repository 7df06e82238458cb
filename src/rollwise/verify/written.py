"""How models write a right value: `4 (four)`, `10 m`, `\\sqrt2 \\approx 1.414`. For answers only, never for golds."""

from __future__ import annotations

import re

from rollwise.verify import algebra
from rollwise.verify.latex import Different, Limits
from rollwise.verify.reader import Reading, Relation, Scalar, readings
from rollwise.verify.spoken import COUNTING

TWICE = re.compile(r"(-?[0-9]{1,2})\s*(?:\\text\{\s*)?\(([a-z]+)\)\s*\}?")
METRES = re.compile(r"(-?[0-9][0-9,]*(?:\.[0-9]+)?)\s+([mgshLNJW])")
DECIMAL = re.compile(r"(-?[0-9]{1,12}(?:\.([0-9]{1,12}))?)\s*(?:\\text\{[a-zA-Z ]{1,20}\})?")
APPROX = re.compile(r"\\approx(?![A-Za-z])")


def as_meant(text: str, gold: tuple[Reading, ...], limits: Limits) -> str:
    """The text with what says the same twice left out. Raises Different where the two do not agree."""
    twice = TWICE.fullmatch(text)
    if twice:
        if COUNTING.get(twice[2]) != int(twice[1]):
            raise Different("two values")
        return twice[1]
    metres = METRES.fullmatch(text)
    if metres and all(isinstance(f, Scalar) and algebra.rational(f.value) is not None for r in gold for f in r.forms):
        return f"{metres[1]}\\text{{ {metres[2]}}}"
    sides = APPROX.split(text)
    decimal = DECIMAL.fullmatch(sides[-1].strip()) if len(sides) == 2 else None
    if decimal is None or not sides[0].strip():
        return text
    value = readings(sides[0], limits)[0].forms[0]
    value = value.right if isinstance(value, Relation) and value.name else value
    exact = algebra.approximate(value.value) if isinstance(value, Scalar) else None
    if exact is None:
        return text
    unit = 10.0 ** -len(decimal[2] or "")
    missing = abs(exact) - abs(float(decimal[1]))
    if exact * float(decimal[1]) < 0 or not -0.501 * unit <= missing < 1.001 * unit:  # rounded or cut off
        raise Different("a value that is not near")
    return sides[0]
