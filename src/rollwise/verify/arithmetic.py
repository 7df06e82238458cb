"""A parser for `+ - * /` and parentheses over exact fractions. Model text never meets `eval` or Python's literals.

Limits are checked before and while the text is cut into tokens, so a hostile text costs time linear in its length.
Raises nothing but `ParseError`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

DIGITS = frozenset("0123456789")
SPACE = frozenset(" \t\r\n")
SIGNS = {"+": "+", "-": "-", "*": "*", "/": "/", "(": "(", ")": ")", "×": "*", "·": "*", "÷": "/", "−": "-"}


class ParseError(ValueError):
    """The text is not an expression of this grammar, or breaks a limit. The message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a text may hold."""

    characters: int = 256
    digits: int = 12  # of one integer
    tokens: int = 128
    nesting: int = 20  # open parentheses


class Parsed(NamedTuple):
    value: Fraction
    used: Counter[int]  # how often each integer was written


DEFAULT = Limits()


def parse(text: str, limits: Limits = DEFAULT) -> Parsed:
    """The exact value of an expression and the integers in it. Raises ParseError with the reason."""
    if len(text) > limits.characters:
        raise ParseError(f"over {limits.characters} characters")
    reader = _Reader(tokenize(text, limits), limits)
    value = reader.sum(0)
    if reader.peek():
        raise ParseError(f"'{reader.peek()}' not expected")
    return Parsed(value, Counter(int(t) for t in reader.tokens if t[0] in DIGITS))


def tokenize(text: str, limits: Limits = DEFAULT) -> list[str]:
    """Integers and signs, spaces dropped. ASCII digits only, no leading zero, no point, no underscore, no letter."""
    tokens: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char in SPACE:
            at += 1
            continue
        if len(tokens) == limits.tokens:
            raise ParseError(f"over {limits.tokens} tokens")
        if char in DIGITS:
            number = _number(text, at, limits)
            tokens.append(number)
            at += len(number)
        elif char in SIGNS:
            tokens.append(SIGNS[char])
            at += 1
        else:
            raise ParseError(f"character {char!r} not allowed")
    return tokens


def _number(text: str, start: int, limits: Limits) -> str:
    end = start
    while end < len(text) and text[end] in DIGITS:
        end += 1
        if end - start > limits.digits:
            raise ParseError(f"over {limits.digits} digits in a number")
    if text[start] == "0" and end - start > 1:
        raise ParseError("leading zero")
    return text[start:end]


class _Reader:
    """Recursive descent: a sum of products of factors. The depth is bounded by `limits.nesting`."""

    def __init__(self, tokens: list[str], limits: Limits) -> None:
        self.tokens, self.limits, self.at = tokens, limits, 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def sum(self, depth: int) -> Fraction:
        value = self.product(depth)
        while self.peek() in ("+", "-"):
            minus = self.take() == "-"
            term = self.product(depth)
            value = value - term if minus else value + term
        return value

    def product(self, depth: int) -> Fraction:
        value = self.factor(depth)
        while self.peek() in ("*", "/"):
            divide = self.take() == "/"
            factor = self.factor(depth)
            if divide and factor == 0:
                raise ParseError("division by zero")
            value = value / factor if divide else value * factor
        return value

    def factor(self, depth: int) -> Fraction:
        token = self.take()
        if token and token[0] in DIGITS:
            return Fraction(int(token))
        if token != "(":
            raise ParseError(f"'{token}' not expected" if token else "ends too early")
        if depth == self.limits.nesting:
            raise ParseError(f"nested deeper than {self.limits.nesting}")
        value = self.sum(depth + 1)
        if self.take() != ")":
            raise ParseError("parenthesis not closed")
        return value


def last_integer(text: str, limits: Limits = DEFAULT) -> int:
    """The last number of `number(,number)*`. The whole text must be of that form; no signs, no spaces inside."""
    if len(text) > limits.characters:
        raise ParseError(f"over {limits.characters} characters")
    last = ""
    for last in text.split(","):
        if not last or not DIGITS.issuperset(last):
            raise ParseError("not a list of whole numbers")
        _number(last, 0, limits)
    return int(last)
