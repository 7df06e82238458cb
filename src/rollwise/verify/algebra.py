"""Exact arithmetic on closed forms: fractions of sums of terms over the rationals, roots, pi, i, letters and functions.

A sum is `{monomial: coefficient}`, a monomial the set of its (atom, exponent) pairs with rational exponents. Atoms:

    ("p", 7)          a prime under a root, exponent in (0, 1); products of these are linearly independent over Q
    ("i",)            the imaginary unit, exponent 1
    ("s", "x")        a letter; pi and e are letters too
    ("^", a, m)       the atom a to the power of a monomial m that holds letters: 2^n
    ("f", name, key)  a function of something else, or a root of a sum: equal only if written alike

Two quotients without functions are equal exactly if cross-multiplying says so; with functions a difference proves
nothing. Work is bounded: `TooHard` where a result would be large, `Undefined` for a division by zero.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction
from math import exp, isqrt, pi
from typing import NamedTuple

Atom = tuple[Hashable, ...]
Monomial = frozenset[tuple[Atom, Fraction]]
Sum = dict[Monomial, Fraction]

ONE: Monomial = frozenset()
MAX_PRODUCTS = 300  # of terms, in one multiplication or one power
MAX_BITS = 1 << 16  # of a coefficient
MAX_POWER_OF_SUM = 30
TRIAL = 10_000  # primes below this are found by division


class TooHard(ValueError):
    """Larger than this arithmetic is meant for."""


class Undefined(ValueError):
    """Division by zero."""


class TooLarge(ValueError):
    """A number beyond any answer."""


class Quotient(NamedTuple):
    """`top / bottom`; the bottom has several terms or is 1."""

    top: Sum
    bottom: Sum


UNIT: Sum = {ONE: Fraction(1)}


def number(value: Fraction | int) -> Quotient:
    return Quotient({ONE: Fraction(value)} if value else {}, UNIT)


def atom(a: Atom) -> Quotient:
    return Quotient({frozenset({(a, Fraction(1))}): Fraction(1)}, UNIT)


def cost(a: Quotient, b: Quotient) -> int:
    """Products of terms that multiplying or adding them takes."""
    return len(a.top) * len(b.top) + len(a.bottom) * len(b.bottom)


def rational(q: Quotient) -> Fraction | None:
    """The value as a fraction, where it is one as it stands."""
    if q.bottom != UNIT or len(q.top) > 1:
        return None
    if not q.top:
        return Fraction(0)
    (monomial, value), *_ = q.top.items()
    return value if monomial == ONE else None


def add(a: Quotient, b: Quotient) -> Quotient:
    if a.bottom == b.bottom:
        return Quotient(_plus(a.top, b.top), a.bottom)
    return _reduced(_plus(_times(a.top, b.bottom), _times(b.top, a.bottom)), _times(a.bottom, b.bottom))


def negative(a: Quotient) -> Quotient:
    return Quotient({m: -c for m, c in a.top.items()}, a.bottom)


def times(a: Quotient, b: Quotient) -> Quotient:
    return _reduced(_times(a.top, b.top), _times(a.bottom, b.bottom))


def over(a: Quotient, b: Quotient) -> Quotient:
    if not b.top:
        raise Undefined("division by zero")
    return _reduced(_times(a.top, b.bottom), _times(a.bottom, b.top))


def power(base: Quotient, exponent: Quotient) -> Quotient:
    """`base ** exponent`: a rational exponent, or a sum with letters over a base of one term."""
    plain = rational(exponent)
    if plain is not None:
        return _rational_power(base, plain)
    if exponent.bottom != UNIT or _has_function(exponent.top):
        raise TooHard("exponent")
    out = number(1)
    for monomial, factor in exponent.top.items():
        if monomial == ONE:
            out = times(out, _rational_power(base, factor))
        else:
            out = times(out, _letter_power(base, monomial, factor))
    return out


def equal(a: Quotient, b: Quotient) -> bool | None:
    """Whether they are the same; None where that cannot be told here."""
    if _times(a.top, b.bottom) == _times(b.top, a.bottom):
        return True
    return None if any(map(_has_function, (*a, *b))) else False


def proportional(a: Quotient, b: Quotient) -> bool | None:
    """Whether a = c b with a rational c other than 0; None where that cannot be told here."""
    left, right = _times(a.top, b.bottom), _times(b.top, a.bottom)
    if left.keys() == right.keys() and left:
        ratios = {left[m] / right[m] for m in left}
        if len(ratios) == 1:
            return True
    return None if any(map(_has_function, (*a, *b))) else False


def approximate(q: Quotient) -> float | None:
    """The value as a float, where it is a real number of fractions, roots, pi and e; None otherwise."""
    top, bottom = _float(q.top), _float(q.bottom)
    return None if top is None or not bottom else top / bottom


def _float(terms: Sum) -> float | None:
    total = 0.0
    try:
        for monomial, c in terms.items():
            value = float(c)
            for a, e in monomial:
                if a[0] == "p":
                    base = float(str(a[1]))
                elif a in (("s", "\\pi"), ("s", "e")):
                    base = pi if a[1] == "\\pi" else exp(1)
                else:
                    return None
                value *= base ** float(e)
            total += value
    except (OverflowError, ValueError):
        return None
    return total


def key(q: Quotient) -> Hashable:
    """Equal keys mean equal values; the other way round only for what `equal` can tell and bottoms of 1."""
    return frozenset(q.top.items()), frozenset(q.bottom.items())


def _plus(a: Sum, b: Sum) -> Sum:
    out = dict(a)
    for monomial, c in b.items():
        total = out.get(monomial, Fraction(0)) + c
        if total:
            out[monomial] = total
        else:
            del out[monomial]
    return out


def _times(a: Sum, b: Sum) -> Sum:
    if a == UNIT:
        return b
    if b == UNIT:
        return a
    if len(a) * len(b) > MAX_PRODUCTS:
        raise TooHard("terms")
    out: Sum = {}
    for m, c in a.items():
        for n, d in b.items():
            monomial, factor = _join(m, n) if m and n else (m | n, Fraction(1))
            total = out.get(monomial, Fraction(0)) + _checked(c * d * factor)
            if total:
                out[monomial] = total
            else:
                del out[monomial]
    return out


def _checked(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise TooLarge("number too large")
    return value


def _join(m: Monomial, n: Monomial) -> tuple[Monomial, Fraction]:
    exponents = dict(m)
    for a, e in n:
        exponents[a] = exponents.get(a, Fraction(0)) + e
    return _settle(exponents)


def _settle(exponents: dict[Atom, Fraction]) -> tuple[Monomial, Fraction]:
    """The monomial in its one form, and the rational factor that came out of it: whole powers of primes, i * i = -1."""
    factor = Fraction(1)
    out: list[tuple[Atom, Fraction]] = []
    for a, e in exponents.items():
        if a[0] == "p":
            whole = e.numerator // e.denominator
            if whole:
                if abs(whole) > MAX_BITS:
                    raise TooLarge("number too large")
                factor = _checked(factor * Fraction(int(str(a[1]))) ** whole)
                e -= whole
        elif a == ("i",):
            if e.denominator != 1:
                raise TooHard("root of i")
            turns = e.numerator % 4
            factor, e = (-factor if turns >= 2 else factor), Fraction(turns % 2)
        if e:
            out.append((a, e))
    return frozenset(out), factor


def _reduced(top: Sum, bottom: Sum) -> Quotient:
    if not bottom:
        raise Undefined("division by zero")
    if len(bottom) > 1 or bottom == UNIT:
        return Quotient(top, bottom)
    return Quotient(_times(top, _one_term_power(bottom, Fraction(-1))), UNIT)


def _rational_power(base: Quotient, exponent: Fraction) -> Quotient:
    if exponent == 0:
        return number(1)
    if not base.top:
        if exponent < 0:
            raise Undefined("division by zero")
        return base
    if exponent < 0:
        base, exponent = over(number(1), base), -exponent
    if exponent.denominator == 1:
        n = exponent.numerator
        if len(base.top) == 1 and base.bottom == UNIT:
            return Quotient(_one_term_power(base.top, exponent), UNIT)
        if n > MAX_POWER_OF_SUM:
            raise TooHard("power of a sum")
        out, products = number(1), 0
        for _ in range(n):
            products += cost(out, base)
            if products > MAX_PRODUCTS:
                raise TooHard("power of a sum")
            out = times(out, base)
        return out
    if len(base.top) == 1 and base.bottom == UNIT:
        return Quotient(_one_term_power(base.top, exponent), UNIT)
    root = atom(("f", "root", key(base), exponent.denominator))
    return _rational_power(root, Fraction(exponent.numerator))


def _one_term_power(term: Sum, exponent: Fraction) -> Sum:
    ((monomial, c),) = term.items()
    exponents = {a: e * exponent for a, e in monomial}
    if exponent.denominator == 1:
        n = exponent.numerator
        if max(c.numerator.bit_length(), c.denominator.bit_length()) * abs(n) > MAX_BITS:
            raise TooLarge("number too large")
        factor = c**n
    else:
        factor = Fraction(1)
        if c < 0:
            if exponent.denominator == 2:  # the square root of a negative number
                exponents[("i",)] = exponents.get(("i",), Fraction(0)) + exponent.numerator
            elif exponent.denominator % 2:  # an odd root: the real one
                factor = Fraction(-1 if exponent.numerator % 2 else 1)
            else:
                raise TooHard("root of a negative number")
        for base, sign in ((abs(c.numerator), 1), (c.denominator, -1)):
            for prime, count in factors(base).items():
                p: Atom = ("p", prime)
                exponents[p] = exponents.get(p, Fraction(0)) + sign * count * exponent
    settled, more = _settle(exponents)
    return {settled: _checked(factor * more)}


def _letter_power(base: Quotient, monomial: Monomial, factor: Fraction) -> Quotient:
    """`base ** (factor * monomial)` as a product of ("^", atom, monomial) to the power of `factor`."""
    if base.bottom != UNIT or len(base.top) != 1:
        raise TooHard("power of a sum")
    ((inner, c),) = base.top.items()
    exponents: dict[Atom, Fraction] = {}
    if c < 0:
        exponents[("^", ("p", -1), monomial)] = factor
    for size, sign in ((abs(c.numerator), 1), (c.denominator, -1)):
        for prime, count in factors(size).items():
            exponents[("^", ("p", prime), monomial)] = sign * count * factor
    for a, e in inner:
        if a[0] in ("^", "i"):
            raise TooHard("power of a power")
        exponents[("^", a, monomial)] = exponents.get(("^", a, monomial), Fraction(0)) + e * factor
    settled, more = _settle(exponents)
    return Quotient({settled: more}, UNIT)


def factors(n: int) -> dict[int, int]:
    """Prime factors of n > 0. Raises TooHard where they are not found quickly."""
    out: dict[int, int] = {}
    d = 2
    while d < TRIAL and d * d <= n:
        while n % d == 0:
            out[d] = out.get(d, 0) + 1
            n //= d
        d += 1 if d == 2 else 2
    if n > 1 and n >= TRIAL * TRIAL:
        root = isqrt(n)
        if root * root != n or root >= TRIAL * TRIAL:
            raise TooHard("large number under a root")
        out[root] = out.get(root, 0) + 2  # no factor below TRIAL and below TRIAL squared: a prime
    elif n > 1:
        out[n] = out.get(n, 0) + 1
    return out


def _has_function(terms: Mapping[Monomial, Fraction]) -> bool:
    return any(_opaque(a) for m in terms for a, _ in m)


def _opaque(a: Atom) -> bool:
    if a[0] != "^":
        return a[0] == "f"
    base, exponent = a[1], a[2]
    turning = isinstance(exponent, frozenset) and (("i",), Fraction(1)) in exponent  # e^{i pi} is -1
    return turning or (isinstance(base, tuple) and (base[0] == "f" or base == ("p", -1)))
