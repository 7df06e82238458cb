"""What an answer says: a value, words, several answers, a tuple, set, interval, relation, matrix, number in a base.

Kinds are kept apart because `{1,2}` is not `(1,2)` and `5=4` is not 4. `read` raises Unreadable for what is none of
them; that is no verdict, since the full parser may still read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rollwise.verify import algebra
from rollwise.verify.algebra import Quotient
from rollwise.verify.expressions import Expression
from rollwise.verify.latex import CLOSING, OPENING, Different, Limits, Token, Unreadable, names, tokens
from rollwise.verify.naming import mentions, name_of
from rollwise.verify.units import trimmed, with_plus, without_unit


@dataclass(frozen=True, slots=True)
class Scalar:
    value: Quotient
    unit: str = ""  # what stood behind the number: "cm", "%"


@dataclass(frozen=True, slots=True)
class Words:
    text: str  # lower case unless one letter; single blanks


@dataclass(frozen=True, slots=True)
class Items:
    kind: Literal["list", "set", "tuple", "union", "pair"]  # list: several answers, without braces; pair: 4:30
    items: tuple[Value, ...]
    joiner: str = ""  # of a list: "and" or "or", where only one of them is written


@dataclass(frozen=True, slots=True)
class Span:
    """An interval; an open one of two ends is also read as a tuple."""

    low: Scalar
    high: Scalar
    closed: tuple[bool, bool]
    bracketed: bool = True  # written with brackets, not as an inequality
    name: str = ""  # of the variable, in an inequality


@dataclass(frozen=True, slots=True)
class Relation:
    sign: str  # "=", "ne" or an inequality
    left: Value
    right: Value
    name: str = ""  # the left side, where it is a name: x, f(x), M, words


@dataclass(frozen=True, slots=True)
class Matrix:
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class Based:
    digits: str
    base: int


Value = Scalar | Words | Items | Span | Relation | Matrix | Based

RELATIONS = {"=": "=", "approx": "=", "equiv": "=", "<": "<", ">": ">", "le": "le", "ge": "ge", "ne": "ne", "in": "in"}
JOINERS = frozenset(["and", "or"])
MONEY = (("\\$", "dollars"), ("€", "euros"), ("£", "pounds sterling"), ("¢", "cents"))
MATRICES = names("matrix pmatrix bmatrix Bmatrix vmatrix Vmatrix smallmatrix")
BESIDE_WORDS = " -'\u2018\u2019,/"  # and typographic quotes
FIRST_CJK = 0x2E80
INFINITY = algebra.atom(("s", "\\infty"))
REALS = Span(Scalar(algebra.negative(INFINITY)), Scalar(INFINITY), (False, False))
NOTHING = Items("set", ())
SAID: dict[str, Value] = {
    "all real numbers": REALS, "all reals": REALS, "real numbers": REALS, "no solution": NOTHING, "none": NOTHING,
    "no solutions": NOTHING, "empty set": NOTHING, "infinity": Scalar(INFINITY),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a text; `forms` has several values where the writer gave the same answer twice, as `1:(0,1]`."""

    forms: tuple[Value, ...]


def readings(text: str, limits: Limits) -> list[Reading]:
    """All ways to read a text: a comma between digits may part thousands or answers. Raises Unreadable for none."""
    found = tokens(text)
    first, doubtful = _thousands(found, plain_commas=True)
    out: list[Reading] = []
    error: Unreadable | None = None
    for version in [first, _thousands(found, plain_commas=False)[0]] if doubtful else [first]:
        try:
            out.append(_read(version, text, limits))
        except Unreadable as caught:
            error = caught
    if not out:
        raise error or Unreadable("nothing")
    money = next((name for sign, name in MONEY if sign in text), "")
    return [_paid(reading, money) for reading in out] if money else out


def _paid(reading: Reading, money: str) -> Reading:
    """A value with the currency sign that the tokens leave out as its unit."""
    return Reading(tuple(Scalar(f.value, money) if isinstance(f, Scalar) and not f.unit else f for f in reading.forms))


def words_of(text: str) -> str | None:
    """The words of a text that is nothing else: letters in any script, with blanks, commas, hyphens and apostrophes."""
    kept = text
    for wrapper in ("\\textbf", "\\textit", "\\textrm", "\\text", "\\mathrm", "\\mathbf", "\\mbox"):
        kept = kept.replace(wrapper, " ")
    kept = kept.replace("{", " ").replace("}", " ").replace("~", " ").strip(" .()")
    if not kept or not all(c.isalpha() or c in BESIDE_WORDS for c in kept):
        return None
    runs = "".join(c if c.isalpha() else " " for c in kept).split()
    wrapped = "\\text" in text or any(ord(c) > FIRST_CJK for c in kept)
    if not runs or (max(map(len, runs)) < 3 and not wrapped and kept.lower() != "no"):
        return None
    if set(runs) & JOINERS and all(len(r) < 3 or r in JOINERS for r in runs):
        return None
    words = " ".join(kept.split())
    return words if len(words) == 1 else words.lower()


def _thousands(found: Sequence[Token], *, plain_commas: bool) -> tuple[list[Token], bool]:
    """Numbers written in groups of three joined. The flag says that a plain comma was among what joined them."""
    out: list[Token] = []
    doubtful = False
    depth = at = 0
    while at < len(found):
        token = found[at]
        depth += (token.kind == "sign" and token.text in OPENING) - (token.kind == "sign" and token.text in CLOSING)
        at += 1
        if token.kind != "number" or not (1 <= len(token.text) <= 3) or (out and out[-1].text == "."):
            out.append(token)
            continue
        digits, end, plain = token.text, at, False
        while True:
            stop, how = _separator(found, end)
            after = found[stop] if stop < len(found) else None
            if not how or after is None or after.kind != "number" or len(after.text) != 3:
                break
            if how == "," and (not plain_commas or depth > 0):
                break
            plain |= how == ","
            digits, end = digits + after.text, stop + 1
        doubtful |= plain
        out.append(Token("number", digits))
        at = end
    return out, doubtful


def _separator(found: Sequence[Token], at: int) -> tuple[int, str]:
    """What stands between two groups of digits: `,` alone, or surely a thousands mark (`,\\!`, `\\,`), or a blank."""
    texts: list[str] = []
    while at < len(found) and (found[at].kind == "space" or found[at].text == ",") and len(texts) < 6:
        texts.append(found[at].text)
        at += 1
    if "\\!" in texts or texts == ["\\,"] or texts == [" "]:
        return at, "sure"
    return at, "," if texts == [","] else ""


def _read(found: list[Token], text: str, limits: Limits) -> Reading:
    said = words_of(text)
    if said is not None:
        return Reading((SAID.get(said) or Words(said),))
    sides = _split(found, ":")
    if len(sides) == 2 and all(sides):
        left, right = (SAID.get(_flat(side)) or _several(side, limits) for side in sides)
        if isinstance(left, Scalar) and isinstance(right, Scalar):
            if _clock(sides):
                return Reading((Items("pair", (left, right)),))
            return Reading((Scalar(algebra.over(left.value, right.value), right.unit),))
        if not isinstance(left, Scalar) and not isinstance(right, Scalar):
            return Reading((left, right))
    return Reading((_several(found, limits),))


def _clock(sides: Sequence[list[Token]]) -> bool:
    """Whether `a:b` may be a time of day, which is not the same as another of the same ratio."""
    digits = [t.text for t in sides[1] if t.kind == "number"]
    return len(sides[0]) == 1 and sides[0][0].kind == "number" and len(digits) == 1 and len(digits[0]) == 2


def _flat(found: Sequence[Token]) -> str:
    return " ".join("".join(t.text for t in found).lower().split())


def _split(found: Sequence[Token], *signs: str) -> list[list[Token]]:
    """The tokens between `signs` at depth 0."""
    out: list[list[Token]] = [[]]
    depth = 0
    for token in found:
        if token.kind == "sign":
            depth += (token.text in OPENING) - (token.text in CLOSING)
        elif token.kind == "command":
            depth += token.text.startswith("begin ") - token.text.startswith("end ")
        if depth == 0 and (token.text in signs or token.text.strip(" ,") in signs):
            out.append([])
        else:
            out[-1].append(token)
    return [trimmed(part) for part in out]


def _several(found: Sequence[Token], limits: Limits) -> Value:
    parts = _split(found, ",", ";", *JOINERS)
    if len(parts) > 1 and not (parts[0] and parts[-1]):
        raise Different("a side of a comma or an 'or' is empty")
    parts = [p for p in parts if p]
    items = [value for part in parts for value in _signs(part, limits)]
    if not items:
        raise Unreadable("nothing")
    joiners = {t.text.strip(" ,") for t in found} & JOINERS
    return items[0] if len(items) == 1 else Items("list", tuple(items), joiners.pop() if len(joiners) == 1 else "")


def _signs(found: list[Token], limits: Limits) -> list[Value]:
    """One answer, or the two that a plus-minus sign stands for."""
    marks = [t.text for t in found if t.text in ("pm", "mp")]
    if not marks:
        return [_relation(found, limits)]
    if len(marks) > 1:
        raise Unreadable("several plus-minus signs")
    minus = Token("sign", "-")
    plus = Token("sign", "+")
    return [
        _relation([sign if t.kind == "command" and t.text in ("pm", "mp") else t for t in found], limits)
        for sign in (plus, minus)
    ]


def _relation(found: list[Token], limits: Limits) -> Value:
    parts, signs = [[]], []  # type: list[list[Token]], list[str]
    depth = 0
    for token in found:
        if token.kind == "sign":
            depth += (token.text in OPENING) - (token.text in CLOSING)
        if depth == 0 and token.kind in ("sign", "command") and token.text in RELATIONS:
            signs.append(RELATIONS[token.text])
            parts.append([])
        else:
            parts[-1].append(token)
    parts = [trimmed(p) for p in parts]
    if not signs:
        return _side(parts[0], limits)
    if len(signs) == 1:
        return _one_relation(signs[0], parts[0], parts[1], limits)
    if len(signs) == 2 and (set(signs) <= {"<", "le"} or set(signs) <= {">", "ge"}):
        low, high = _scalar(parts[0], limits), _scalar(parts[2], limits)
        closed = (signs[0] in ("le", "ge"), signs[1] in ("le", "ge"))
        name = _flat(parts[1]).replace(" ", "")
        if signs[0] in (">", "ge"):
            low, high, closed = high, low, (closed[1], closed[0])
        return Span(low, high, closed, bracketed=False, name=name)
    raise Unreadable("a chain of relations")


def _one_relation(sign: str, left: list[Token], right: list[Token], limits: Limits) -> Value:
    name = name_of(left)
    if sign == "=" and not name and name_of(right):  # 5 = x: turned round
        name, left, right = name_of(right), right, left
    if sign == "=" and len(name) == 1 and mentions(right, name):  # x = 0x: not solved
        name = ""
    value = _side(right, limits)
    if sign == "in":
        return value
    lhs = _left(left, name, limits)
    if sign in ("=", "ne"):
        return Relation(sign, lhs, value, name)
    if not name and name_of(right):  # 3 < x: turned round
        flipped = {"<": ">", ">": "<", "le": "ge", "ge": "le"}[sign]
        return _one_relation(flipped, right, left, limits)
    if name and isinstance(value, Scalar):
        up = sign in (">", "ge")
        ends = (value, Scalar(INFINITY)) if up else (Scalar(algebra.negative(INFINITY)), value)
        closed = (sign == "ge", False) if up else (False, sign == "le")
        return Span(*ends, closed, bracketed=False, name=name)
    return Relation(sign, lhs, value, "")


def _left(left: list[Token], name: str, limits: Limits) -> Value:
    if any(t.kind == "text" for t in left):
        return Words(_flat(left))
    try:
        return _side(left, limits)
    except Unreadable:
        if not name:
            raise
        return Words(_flat(left))  # a name that is no value: \angle A


def _side(found: list[Token], limits: Limits) -> Value:
    if not found:
        raise Unreadable("a side is empty")
    parts = _split(found, "cup")
    if len(parts) > 1:
        return Items("union", tuple(_side(p, limits) for p in parts))
    if found[0].kind == "command" and found[0].text.startswith("begin "):
        return _matrix(found, limits)
    if len(found) == 1 and found[0].text == "emptyset":
        return Items("set", ())
    if len(found) == 1 and found[0].text == "mathbb R":
        return REALS
    texts = [t for t in found if t.kind == "text"]
    if len(texts) == len([t for t in found if t.kind != "space"]):
        said = " ".join(" ".join(t.text for t in texts).replace("~", " ").split()).strip("() .")
        return SAID.get(said.lower()) or Words(said if len(said) == 1 else said.lower())
    enclosed = _enclosed(found)
    if enclosed is not None:
        return _bracketed(found[0].text, enclosed, found[-1].text, limits)
    based = _based(found)
    return based or _scalar(found, limits)


def _enclosed(found: list[Token]) -> list[Token] | None:
    """What one pair of brackets holds, if it holds everything and is more than a pair of parentheses round a value."""
    first, last = found[0], found[-1]
    if first.kind != "sign" or first.text not in ("(", "[", "\\{", "]") or last.kind != "sign" or len(found) < 2:
        return None
    if last.text not in (")", "]", "\\}", "["):
        return None
    depth = 0
    for token in found[1:-1]:
        if token.kind == "sign":
            depth += (token.text in OPENING) - (token.text in CLOSING)
            if depth < 0:
                return None
    inside = found[1:-1]
    return inside if first.text == "\\{" or len(_split(inside, ",", ";")) > 1 else None


def _bracketed(left: str, inside: list[Token], right: str, limits: Limits) -> Value:
    if left == "\\{":
        if right != "\\}":
            raise Unreadable("brackets do not match")
        built = _split(inside, "|")
        if len(built) == 1:
            built = _split(inside, ":")
        if len(built) == 2:
            domain = [t.text for t in built[0]]
            if "in" in domain and "mathbb R" not in domain:
                raise Different("a set with a domain")
            return _several(built[1], limits)
        parts = [p for p in _split(inside, ",", ";") if p]
        return Items("set", tuple(v for p in parts for v in _signs(p, limits)))
    parts = _split(inside, ",", ";")
    items = tuple(_relation(p, limits) for p in parts)
    closed = (left == "[", right == "]")
    if len(items) == 2 and all(isinstance(i, Scalar) for i in items):
        low, high = items
        assert isinstance(low, Scalar) and isinstance(high, Scalar)
        return Span(low, high, closed)
    if closed == (True, False) or closed == (False, True):
        raise Unreadable("brackets do not match")
    return Items("tuple", items)


def _matrix(found: list[Token], limits: Limits) -> Matrix:
    name = found[0].text.split()[1]
    if name not in MATRICES or found[-1].text != f"end {name}":
        raise Unreadable("an environment")
    inside = found[1:-1]
    rows = [r for r in _split(inside, "\\\\") if r]
    return Matrix(tuple(tuple(_side(cell, limits) for cell in _split(row, "&")) for row in rows))


def _based(found: list[Token]) -> Based | None:
    texts = [t.text for t in found if t.kind != "space" and t.text not in ("{", "}")]
    numbers = [t for t in found if t.kind == "number"]
    if len(texts) != 3 or texts[1] != "_" or len(numbers) != 2 or not numbers[1].text.isdigit():
        return None
    if texts[0] != numbers[0].text or len(numbers[1].text) > 2:
        return None
    return Based(texts[0].lstrip("0") or "0", int(numbers[1].text))


def _scalar(found: list[Token], limits: Limits) -> Scalar:
    kept, unit = without_unit(found)
    endless = [i for i, t in enumerate(kept) if t.text == "infty" and (not i or kept[i - 1].text != "_")]
    if endless and (len(endless) > 1 or any(t.kind != "space" and t.text not in ("+", "-", "infty") for t in kept)):
        raise Different("infinity in an expression")
    for i in range(1, len(kept) - 1):
        beside = kept[i].kind == "space" and kept[i - 1].kind == kept[i + 1].kind == "number"
        if beside and (i < 2 or kept[i - 2].text not in ("_", "^")):  # `log_2 8` is one
            kept = with_plus(kept, i)
            break
    return Scalar(Expression(kept, limits.factorial).parse(), unit)
