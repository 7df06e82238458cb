"""The kinds of question of the geometry task: what is drawn, what it says, and the exact answer.

A kind is a handful of pure functions of its whole numbers. `key` is what two questions share that differ only in the
drawing: all questions with one key are on one side of the split.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from rollwise.tasks.drawing import Figure, Point
from rollwise.tasks.surds import Exact

Values = tuple[int, ...]
SPECIAL = (30, 45)  # the smaller acute angle of the two special right triangles


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of question. `ask` goes with the drawing, `words` says the same without one."""

    draw: Callable[[Random], Values]
    key: Callable[[Values], Values]
    answer: Callable[[Values], Exact]
    figure: Callable[[Values, Random], Figure]
    ask: Callable[[Values], str]
    words: Callable[[Values], str]
    adds: bool = False  # answers of two questions have an exact sum


def _turned(rng: Random, *points: Point) -> list[Point]:
    """The points turned by any angle, mirrored at times."""
    by = cmath.exp(1j * math.radians(rng.randrange(360)))
    mirrored = rng.random() < 0.5
    return [(p.conjugate() if mirrored else p) * by for p in points]


def _two_angles(rng: Random) -> Values:
    first = rng.randint(25, 110)
    return first, rng.randint(25, 155 - first)


def _triangle(v: Values, rng: Random) -> Figure:
    """Corners with angles v[0], v[1] and the rest, by the law of sines."""
    third = 180 - v[0] - v[1]
    long, short = (math.sin(math.radians(a)) for a in (third, v[1]))
    a, b, c = _turned(rng, 0j, complex(long), short * cmath.exp(1j * math.radians(v[0])))
    out = Figure()
    out.polygon(a, b, c)
    for corner, one, two, text in ((a, b, c, f"{v[0]}°"), (b, a, c, f"{v[1]}°"), (c, a, b, "x")):
        out.within(corner, one, two, text)
    return out


def _lines(v: Values, rng: Random) -> Figure:
    """Two lines that cross at v[0] degrees; x is the angle opposite or beside it."""
    tips = [cmath.exp(1j * math.radians(d)) for d in (0, v[0], 180, 180 + v[0])]
    a, b, c, d = _turned(rng, *tips)
    out = Figure(lines=[(a, c), (b, d)])
    out.within(0j, a, b, f"{v[0]}°")
    out.within(0j, *((c, d) if v[1] else (b, c)), "x")
    return out


def _right(v: Values, rng: Random) -> Figure:
    """Legs v[0] and v[1]; x is the longest side, or with v[2] the second leg where the longest side is given."""
    corner, a, b = _turned(rng, 0j, complex(v[0]), v[1] * 1j)
    out = Figure(squares=[(corner, a, b)])
    out.polygon(corner, a, b)
    longest = Exact.sqrt(v[0] ** 2 + v[1] ** 2)
    out.beside(corner, a, b, str(v[0]))
    out.beside(corner, b, a, "x" if v[2] else str(v[1]))
    out.beside(a, b, corner, str(int(longest.coefficient)) if v[2] else "x")
    return out


def _draw_right(rng: Random) -> Values:
    if rng.random() < 0.5:
        return rng.randint(2, 30), rng.randint(2, 30), 0
    m, n, k = rng.choice([(2, 1, 6), (3, 2, 3), (4, 1, 2), (4, 3, 1), (5, 2, 1)])  # Euclid's triples
    k = rng.randint(1, k)
    legs = [k * (m * m - n * n), k * 2 * m * n]
    rng.shuffle(legs)
    return *legs, 1


def _special(v: Values, rng: Random) -> Figure:
    """A right triangle with the acute angle v[0] and the side against it v[1]; x is the longest side, or with v[2] the
    other leg."""
    corner, a, b = _turned(rng, 0j, complex(1 / math.tan(math.radians(v[0]))), 1j)
    out = Figure(squares=[(corner, a, b)])
    out.polygon(corner, a, b)
    out.within(a, corner, b, f"{v[0]}°")
    out.beside(corner, b, a, str(v[1]))
    out.beside(*((corner, a, b) if v[2] else (a, b, corner)), "x")
    return out


def _special_answer(v: Values) -> Exact:
    root = {(30, 0): Exact.sqrt(4), (30, 1): Exact.sqrt(3), (45, 0): Exact.sqrt(2), (45, 1): Exact.sqrt(1)}
    return root[v[0], v[2]].times(v[1])


def _circle(v: Values, rng: Random) -> Figure:
    """Radius v[0] or with v[1] the diameter of that length."""
    (tip,) = _turned(rng, 1 + 0j)
    line = (-tip, tip) if v[1] else (0j, tip)
    out = Figure(lines=[line], circles=[(0j, 1.0)])
    out.beside(*line, line[0] - tip * 1j, str(v[0]))
    return out


def _circle_answer(v: Values) -> Exact:
    radius = Fraction(v[0], 2 if v[1] else 1)
    return Exact(radius * radius if v[2] else 2 * radius, pi=True)


def _arc(v: Values, rng: Random) -> Figure:
    """A central angle of v[0] degrees in a circle of radius v[1]."""
    a, b = _turned(rng, 1 + 0j, cmath.exp(1j * math.radians(v[0])))
    out = Figure(lines=[(0j, a), (0j, b)], circles=[(0j, 1.0)], labels=[(a, a, "A"), (b, b, "B")])
    out.within(0j, a, b, f"{v[0]}°")
    out.beside(0j, a, b, str(v[1]))
    return out


def _chord(v: Values, rng: Random) -> Figure:
    """Radius v[0], a chord at the distance v[1] from the centre."""
    away = v[1] / v[0]
    half = math.sqrt(1 - away * away)
    a, b, m = _turned(rng, complex(-half, away), complex(half, away), away * 1j)
    out = Figure(lines=[(a, b), (0j, m), (0j, b)], circles=[(0j, 1.0)], squares=[(m, 0j, a)])
    out.labels += [(a, a, "A"), (b, b, "B")]
    out.beside(0j, m, b, str(v[1]))
    out.beside(0j, b, m, str(v[0]))
    return out


def _draw_chord(rng: Random) -> Values:
    radius = rng.randint(5, 30)
    return radius, rng.randint(radius // 5 + 1, radius - 2)


KINDS: dict[str, Kind] = {
    "triangle": Kind(
        draw=_two_angles,
        key=lambda v: tuple(sorted((v[0], v[1], 180 - v[0] - v[1]))),
        answer=lambda v: Exact(Fraction(180 - v[0] - v[1])),
        figure=_triangle,
        ask=lambda v: "Find x, in degrees.",
        words=lambda v: f"Two angles of a triangle are {v[0]} and {v[1]} degrees. How many degrees has the third?",
        adds=True,
    ),
    "lines": Kind(
        draw=lambda rng: (rng.randint(30, 150), rng.randint(0, 1)),
        key=lambda v: (min(v[0], 180 - v[0]),),
        answer=lambda v: Exact(Fraction(v[0] if v[1] else 180 - v[0])),
        figure=_lines,
        ask=lambda v: "Two lines cross. Find x, in degrees.",
        words=lambda v: (
            f"Two lines cross at {v[0]} degrees. "
            f"How many degrees has the angle {'opposite to' if v[1] else 'next to'} that one?"
        ),
        adds=True,
    ),
    "right": Kind(
        draw=_draw_right,
        key=lambda v: tuple(sorted(v[:2])),
        answer=lambda v: Exact(Fraction(v[1])) if v[2] else Exact.sqrt(v[0] ** 2 + v[1] ** 2),
        figure=_right,
        ask=lambda v: "Find x.",
        words=lambda v: (
            f"A right triangle has a leg of {v[0]} and a longest side of {math.isqrt(v[0] ** 2 + v[1] ** 2)}. "
            "How long is the other leg?"
            if v[2]
            else f"A right triangle has legs of {v[0]} and {v[1]}. How long is its longest side?"
        ),
    ),
    "special": Kind(
        draw=lambda rng: (rng.choice(SPECIAL), rng.randint(2, 60), rng.randint(0, 1)),
        key=lambda v: v[:2],
        answer=_special_answer,
        figure=_special,
        ask=lambda v: "Find x.",
        words=lambda v: (
            f"A right triangle has an angle of {v[0]} degrees, and the side against it is {v[1]}. "
            f"How long is {'the other leg' if v[2] else 'the longest side'}?"
        ),
    ),
    "circle": Kind(
        draw=lambda rng: (rng.randint(2, 60), rng.randint(0, 1), rng.randint(0, 1)),
        key=lambda v: (v[0] if v[1] else 2 * v[0],),
        answer=_circle_answer,
        figure=_circle,
        ask=lambda v: f"Find the {'area' if v[2] else 'circumference'} of the circle.",
        words=lambda v: (
            f"A circle has a {'diameter' if v[1] else 'radius'} of {v[0]}. "
            f"What is its {'area' if v[2] else 'circumference'}?"
        ),
    ),
    "arc": Kind(
        draw=lambda rng: (15 * rng.randint(2, 11), rng.randint(2, 40)),
        key=lambda v: v,
        answer=lambda v: Exact(Fraction(v[0] * v[1], 180), pi=True),
        figure=_arc,
        ask=lambda v: "Find the length of the shorter arc A B.",
        words=lambda v: f"A circle has a radius of {v[1]}. How long is an arc with a central angle of {v[0]} degrees?",
        adds=True,
    ),
    "chord": Kind(
        draw=_draw_chord,
        key=lambda v: v,
        answer=lambda v: Exact.sqrt(v[0] ** 2 - v[1] ** 2).times(2),
        figure=_chord,
        ask=lambda v: "Find A B.",
        words=lambda v: f"A chord of a circle with a radius of {v[0]} is {v[1]} away from the centre. How long is it?",
    ),
}
