"""Whether an answer says what the gold says. True, False, or None where only the full parser can tell.

The gold decides what may be left out: `5` for `x=5`, `20` for `20 cm`, braces round several answers. See
`docs/verifiers.md` for the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rollwise.verify import algebra
from rollwise.verify.naming import plain_name, same_name
from rollwise.verify.reader import Based, Items, Matrix, Reading, Relation, Scalar, Span, Value, Words
from rollwise.verify.units import differ

Tri = bool | None
MAX_PAIRS = 400  # comparisons in matching the items of two lists


def same(gold: Sequence[Reading], answer: Sequence[Reading]) -> Tri:
    """Whether some reading of the answer is some reading of the gold; every form of the answer must fit."""
    return _any(_forms(g, a) for g in gold for a in answer)


def _forms(gold: Reading, answer: Reading) -> Tri:
    return _all(_any(equal(g, a) for g in gold.forms) for a in answer.forms)


def _any(found: Iterable[Tri]) -> Tri:
    out: Tri = False
    for one in found:
        if one:
            return True
        out = None if one is None else out
    return out


def _all(found: Iterable[Tri]) -> Tri:
    out: Tri = True
    for one in found:
        if one is False:
            return False
        out = None if one is None else out
    return out


def equal(gold: Value, answer: Value) -> Tri:
    """Whether two values are the same answer."""
    gold, answer = _single(gold), _single(answer)
    if isinstance(gold, Relation) or isinstance(answer, Relation):
        return _relations(gold, answer)
    if isinstance(gold, Based) or isinstance(answer, Based):
        return _bases(gold, answer)
    if isinstance(gold, Words) or isinstance(answer, Words):
        return _letters(gold) == _letters(answer) != ""
    if isinstance(gold, Items) and gold.kind == "pair" and isinstance(answer, Scalar):
        return _ratio(gold, answer)
    if isinstance(answer, Items) and answer.kind == "pair" and isinstance(gold, Scalar):
        return _ratio(answer, gold)
    if isinstance(gold, Scalar) and isinstance(answer, Scalar):
        if differ(gold.unit, answer.unit):
            return False
        return algebra.equal(gold.value, answer.value)
    if isinstance(answer, Items) and answer.kind == "list" and (place := _place(gold)):
        return _coordinates(place, answer)
    if isinstance(gold, Span) and isinstance(answer, Span):
        return _spans(gold, answer)
    if isinstance(gold, Matrix) and isinstance(answer, Matrix):
        if [len(r) for r in gold.rows] != [len(r) for r in answer.rows]:
            return False
        return _all(equal(g, a) for x, y in zip(gold.rows, answer.rows, strict=True) for g, a in zip(x, y, strict=True))
    if isinstance(gold, Items) and isinstance(answer, Items):
        return _items(gold, answer)
    return False


def _place(value: Value) -> tuple[Value, ...]:
    """The coordinates of a pair or triple in parentheses; () for anything else."""
    if isinstance(value, Span) and value.bracketed and value.closed == (False, False):
        return value.low, value.high
    return value.items if isinstance(value, Items) and value.kind == "tuple" else ()


def _coordinates(gold: tuple[Value, ...], answer: Items) -> Tri:
    """`x=3, y=4` for `(3,4)`: the names x, y and z in this order, each once."""
    given = {i.name: i.right for i in answer.items if isinstance(i, Relation) and i.sign == "="}
    names = ("x", "y", "z")[: len(gold)]
    if len(answer.items) != len(gold) or set(given) != set(names) or len(names) != len(gold):
        return False
    return _all(equal(g, given[name]) for g, name in zip(gold, names, strict=True))


def _ratio(pair: Items, value: Scalar) -> Tri:
    """`3:10` beside a number is their quotient."""
    top, bottom = pair.items
    if not isinstance(top, Scalar) or not isinstance(bottom, Scalar) or not bottom.value.top:
        return False
    return algebra.equal(algebra.over(top.value, bottom.value), value.value)


def _single(value: Value) -> Value:
    """Braces or a list round one value count for nothing."""
    if isinstance(value, Items) and value.kind in ("list", "set", "union") and len(value.items) == 1:
        return value if value.items[0] == Items("set", ()) else value.items[0]
    return value


def _letters(value: Value) -> str:
    """Words, or a value that is one letter or letters in a row, as text."""
    if isinstance(value, Words):
        return value.text.strip("() ")
    if isinstance(value, Scalar) and value.value.bottom == algebra.UNIT and len(value.value.top) == 1:
        ((monomial, c),) = value.value.top.items()
        if c == 1 and len(monomial) == 1:
            ((found, e),) = monomial
            if e == 1 and found[0] in ("s", "i"):
                return str(found[-1])
    return ""


def _bases(gold: Value, answer: Value) -> Tri:
    """The digits must agree, and the base where both name one: a question that asks for base 5 may leave it out. An
    answer in a base, where the gold has none, is its value."""
    if isinstance(gold, Based) and isinstance(answer, Based):
        return gold == answer
    based, other = (gold, answer) if isinstance(gold, Based) else (answer, gold)
    assert isinstance(based, Based)
    if based is answer:
        if not 2 <= based.base <= 10 or any(int(d) >= based.base for d in based.digits):
            return False
        return isinstance(other, Scalar) and algebra.rational(other.value) == int(based.digits, based.base)
    return isinstance(other, Scalar) and algebra.rational(other.value) == int(based.digits)


def _relations(gold: Value, answer: Value) -> Tri:
    if isinstance(gold, Relation) and isinstance(answer, Relation):
        if gold.sign != answer.sign:
            return False
        solved = bool(gold.name) and _constant(gold.right)
        if gold.name and answer.name:
            return same_name(gold.name, answer.name) and equal(gold.right, answer.right)
        if solved and not answer.name:
            return False
        return _proportional(gold, answer)
    relation, other = (gold, answer) if isinstance(gold, Relation) else (answer, gold)
    assert isinstance(relation, Relation)
    if relation.sign != "=":
        return False
    if not relation.name or (
        relation is answer and not plain_name(relation.name)
    ):  # 1/2 = 0.5 as an answer: both sides must be the gold
        both = (relation.left, relation.right)
        return relation is not gold and all(equal(other, side) is True for side in both)
    return equal(relation.right, other) if relation is gold else equal(other, relation.right)


def _constant(value: Value) -> bool:
    if not isinstance(value, Scalar):
        return True
    return not any(a[0] == "s" and a[1] not in ("e", "\\pi") for m in value.value.top for a, _ in m)


def _proportional(gold: Relation, answer: Relation) -> Tri:
    sides = (gold.left, gold.right, answer.left, answer.right)
    if not all(isinstance(s, Scalar) for s in sides):
        return _all([equal(gold.left, answer.left), equal(gold.right, answer.right)])
    a, b, c, d = (s.value for s in sides if isinstance(s, Scalar))
    return algebra.proportional(algebra.add(a, algebra.negative(b)), algebra.add(c, algebra.negative(d)))


def _spans(gold: Span, answer: Span) -> Tri:
    if gold.closed != answer.closed or (gold.name and answer.name and gold.name != answer.name):
        return False
    return _all([equal(gold.low, answer.low), equal(gold.high, answer.high)])


def _items(gold: Items, answer: Items) -> Tri:
    loose = {"list", "set", "union"}
    if gold.kind != answer.kind and not (gold.kind in loose and answer.kind in loose):
        return False
    if _joined(gold) != _joined(answer) and "and" in (_joined(gold), _joined(answer)):
        return False
    if gold.kind == "set" or answer.kind == "set":  # a set holds each of its members once
        gold_items, answer_items = _distinct(gold.items), _distinct(answer.items)
    else:
        gold_items, answer_items = list(gold.items), list(answer.items)
    if len(gold_items) != len(answer_items):
        return False
    if gold.kind in ("tuple", "pair") or _ordered(gold_items, answer_items):
        return _all(equal(g, a) for g, a in zip(gold_items, answer_items, strict=True))
    return _matching(gold_items, answer_items)


def _joined(items: Items) -> str:
    """How conditions or statements are joined, where it makes them another one: `x<0 and x>1`, `p or q`."""
    if items.kind == "union":
        return "or"
    told = all(isinstance(i, Span) or (isinstance(i, Scalar) and _letters(i)) for i in items.items)
    return items.joiner if told and len(items.items) > 1 else ""


def _ordered(gold: list[Value], answer: list[Value]) -> bool:
    """`a=1, b=2` answered by `1, 2`: without the names the order must tell."""
    names = {g.name for g in gold if isinstance(g, Relation)}
    return len(names) > 1 and not any(isinstance(a, Relation) for a in answer)


def _distinct(items: Sequence[Value]) -> list[Value]:
    out: list[Value] = []
    for item in items[:MAX_PAIRS]:
        if not any(equal(item, kept) for kept in out):
            out.append(item)
    return out


def _matching(gold: list[Value], answer: list[Value]) -> Tri:
    """Whether the items pair off in some order. Sameness is an equivalence, so taking the first match is enough."""
    if len(gold) * len(answer) > MAX_PAIRS:
        return None
    left = list(answer)
    unknown = False
    for g in gold:
        found = [equal(g, a) for a in left]
        if True in found:
            left.pop(found.index(True))
        elif None in found:
            unknown = True
        else:
            return False
    return None if unknown else True
