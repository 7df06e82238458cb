"""From a worked solution to the final answer that ends it, and whether two answers are one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

How = Literal["as it is", "####", "boxed", "prose"]

MARK = "####"
BOX = re.compile(r"\\boxed|\\fbox")
WRAPPERS = ("\\textbf", "\\text", "\\mathrm", "\\mathbf", "\\mbox")
LAYOUT = ("\\left", "\\right", "\\!", "\\,", "\\;", "\\ ", " ", "^\\circ", "{", "}", "\\$", "\\%", "%")
LONGEST = 120  # characters of an answer that could stand by itself


@dataclass(frozen=True, slots=True)
class Reduced:
    """`text` is the final answer; of prose, which ends in none that is marked, the whole."""

    text: str
    how: How
    others: tuple[str, ...] = ()  # further boxes, the last but one first


def reduced(text: str) -> Reduced:
    """GSM8K's `#### N` and MATH's last `\\boxed{...}`; a short text is its own answer."""
    at = text.rfind(MARK)
    if at >= 0:
        tail = text[at + len(MARK) :].strip().split("\n", 1)[0].strip()
        if tail:
            return Reduced(tail, "####")
    boxes = boxed(text)
    if boxes:
        return Reduced(boxes[-1], "boxed", tuple(reversed(boxes[:-1])))
    stripped = text.strip()
    prose = len(stripped) > LONGEST or "\n" in stripped
    return Reduced(stripped, "prose" if prose else "as it is")


def boxed(text: str) -> list[str]:
    """The content of every complete box in order, boxes inside a box left in it. Linear in the text."""
    out: list[str] = []
    at = 0
    while (found := BOX.search(text, at)) is not None:
        at = start = found.end()
        if text.startswith(("{", " {"), start):
            begin = text.index("{", start) + 1
            end = _closing(text, begin)
            if end < 0:
                break
            if text[begin:end].strip():
                out.append(text[begin:end].strip())
            at = end
        elif text[start : start + 1] == " " and text[start + 1 : start + 2].isalnum():  # \boxed 5
            out.append(text[start + 1 : start + LONGEST].split("$", 1)[0].split(maxsplit=1)[0])
    return out


def _closing(text: str, begin: int) -> int:
    depth, i = 1, begin
    while i < len(text):
        if text[i] == "\\":
            i += 1
        elif text[i] == "{":
            depth += 1
        elif text[i] == "}":
            depth -= 1
            if depth == 0:
                return i
        i += 1
    return -1


def plain_number(value: Any) -> str:
    """A number as an answer is written: 27.0 as 27, others as they are."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def same(one: str, two: str) -> bool:
    """Whether two answers are one for certain: equal but for marks of layout, or equal numbers."""
    a, b = _bare(one), _bare(two)
    if a == b:
        return True
    x, y = _number(a), _number(b)
    return x is not None and x == y


def _bare(text: str) -> str:
    out = text.strip().rstrip(".").strip("$ ").removeprefix("\\(").removesuffix("\\)")
    for wrapper in WRAPPERS:
        out = out.replace(wrapper, "")
    for mark in LAYOUT:
        out = out.replace(mark, "")
    out = out.replace("dfrac", "frac").replace("tfrac", "frac")
    return out.removeprefix("(").removesuffix(")") if out[1:-1].isalnum() else out


def _number(text: str) -> Fraction | None:
    if len(text) > 40 or not text or not set(text) <= set("0123456789.,-+/") or not text[-1].isdigit():
        return None
    try:
        return Fraction(text.replace(",", ""))
    except (ValueError, ZeroDivisionError):
        return None
