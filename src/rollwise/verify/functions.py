"""What letters, function names and digits mean, as exact quotients."""

from __future__ import annotations

from fractions import Fraction
from math import comb, factorial

from rollwise.verify import algebra
from rollwise.verify.algebra import Quotient
from rollwise.verify.latex import Unreadable

MAX_DIGITS = 1000


def symbol(name: str) -> Quotient:
    return algebra.atom(("i",)) if name == "i" else algebra.atom(("s", name))


def opaque(name: str, *inside: Quotient) -> Quotient:
    return algebra.atom(("f", name, *map(algebra.key, inside)))


def absolute(inside: Quotient) -> Quotient:
    plain = algebra.rational(inside)
    return opaque("abs", inside) if plain is None else algebra.number(abs(plain))


def binomial(n: Quotient, k: Quotient, limit: int) -> Quotient:
    plain_n, plain_k = algebra.rational(n), algebra.rational(k)
    if plain_n is None or plain_k is None:
        difference = algebra.add(n, algebra.negative(k))
        return algebra.over(any_factorial(n), algebra.times(any_factorial(k), any_factorial(difference)))
    if plain_n.denominator != 1 or plain_k.denominator != 1 or not 0 <= plain_k <= plain_n:
        raise Unreadable("binomial")
    if plain_n > limit * 10:
        raise algebra.TooLarge("number too large")
    return algebra.number(comb(plain_n.numerator, plain_k.numerator))


def any_factorial(n: Quotient) -> Quotient:
    plain = algebra.rational(n)
    if plain is None or plain.denominator != 1 or not 0 <= plain <= 100:
        return opaque("!", n)
    return algebra.number(factorial(plain.numerator))


def applied(name: str, base: Quotient | None, inside: Quotient) -> Quotient:
    """A function of `inside`, in terms of sin, cos and ln where that is its definition."""
    if name == "exp":
        return algebra.power(symbol("e"), inside)
    if name in ("tan", "cot", "sec", "csc"):
        sine, cosine = opaque("sin", inside), opaque("cos", inside)
        one = algebra.number(1)
        top = {"tan": sine, "cot": cosine, "sec": one, "csc": one}[name]
        return algebra.over(top, cosine if name in ("tan", "sec") else sine)
    if base is None:
        return logarithm(inside) if name == "ln" else opaque(name, inside)
    if name == "log":
        return algebra.over(logarithm(inside), logarithm(base))
    return opaque(name, base, inside)


def logarithm(inside: Quotient) -> Quotient:
    """ln of a positive fraction as a sum over its primes, so that ln 8 is 3 ln 2; ln e is 1."""
    plain = algebra.rational(inside)
    if plain is None or plain <= 0:
        return algebra.number(1) if inside == symbol("e") else opaque("ln", inside)
    out = algebra.number(0)
    for part, sign in ((plain.numerator, 1), (plain.denominator, -1)):
        for prime, count in algebra.factors(part).items():
            term = algebra.times(algebra.number(sign * count), opaque("ln", algebra.number(prime)))
            out = algebra.add(out, term)
    return out


def integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise algebra.TooLarge("number too large")
    return int(digits)


def decimal(whole: str, decimals: str, repeating: str) -> Fraction:
    """`whole.decimals` with `repeating` for ever after."""
    value = Fraction(integer(whole + decimals), 10 ** len(decimals))
    if repeating:
        value += Fraction(integer(repeating), (10 ** len(repeating) - 1) * 10 ** len(decimals))
    return value
