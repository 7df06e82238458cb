"""The expression of an assert, evaluated over values that came out of a jail. No `eval`: a walk over the syntax tree,
with a short list of operators and functions, and bounds on what numbers and sequences can grow to.

Equality is stricter than Python's in one respect: a truth value is no number (`True` is not 1, `0` is not `False`).
Whole numbers and floats are equal by value, a tuple is not a list, NaN is equal to nothing, and an object that could
not leave the jail is equal to nothing. A tolerance is what the test says: `abs(f(x) - 1.5) < 1e-6`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rollwise.jail.values import HASHED, PLAIN_INT, Opaque

Call = Callable[[str, list[Any], dict[str, Any]], Any]
BITS, LENGTH = 20_000, 1_000_000


class TooLarge(ValueError):
    """A value would grow beyond the bounds, or take too long to build."""


def _round(number: Any, digits: Any = None) -> Any:
    if isinstance(digits, int) and abs(digits) > 400:  # past what a float has; for whole numbers 10**digits is built
        raise TooLarge("digits")
    return round(number, digits)


def _hashed(make: Callable[..., Any]) -> Callable[..., Any]:
    """A set or dict of no more members than `values` lets out as one, where their hashes can be made to collide."""

    def build(members: Iterable[Any] = (), **named: Any) -> Any:
        held = list(members.items() if isinstance(members, dict) else members)
        if len(held) > HASHED and not all(isinstance(m, str | bytes) or abs(m) < PLAIN_INT for m in held):
            raise TooLarge("members")
        return make(held, **named)

    return build


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{f.__name__: f for f in (abs, all, any, bool, float, int, len, list, max, min, sorted, str, sum, tuple)},
    "round": _round,
    "set": _hashed(set),
    "frozenset": _hashed(frozenset),
    "dict": _hashed(dict),
}
MATH: Mapping[str, Any] = {
    name: getattr(math, name) for name in ("ceil", "fabs", "floor", "inf", "isclose", "isnan", "nan", "pi", "sqrt", "e")
}
TYPES = {t.__name__: t for t in (bool, dict, float, frozenset, int, list, set, str, tuple)}
OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
ORDER: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
COMPARISONS = (*ORDER, ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)


def same(a: Any, b: Any) -> bool:
    """Equality by value and kind, to any depth that a value can have."""
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return a is b
    if isinstance(a, Opaque) or isinstance(b, Opaque):
        return False
    if isinstance(a, int | float | complex) and isinstance(b, int | float | complex):
        return a == b
    if isinstance(a, set | frozenset) and isinstance(b, set | frozenset):
        return a == b and _truths(a) == _truths(b)
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and _truths(a) == _truths(b) and all(same(v, b[k]) for k, v in a.items())
    return bool(a == b)


def _truths(members: Iterable[Any]) -> set[str]:
    """The truth values among members of a set or keys, which Python takes for the numbers 1 and 0."""
    return {str(m) for m in members if isinstance(m, bool)}


def supported(node: ast.expr, functions: frozenset[str]) -> bool:
    """Whether `evaluate` knows everything in the expression; `functions` are those of the program."""

    def every(*nodes: ast.expr | None) -> bool:
        return all(n is not None and supported(n, functions) for n in nodes)

    match node:
        case ast.Call(func=ast.Name(id="isinstance"), args=[value, kinds]) if "isinstance" not in functions:
            wanted = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
            return every(value) and all(isinstance(k, ast.Name) and k.id in TYPES for k in wanted)
        case ast.Call(func=ast.Name(id=name)):
            known = name in functions or name in FUNCTIONS
            return known and every(*node.args, *(k.value for k in node.keywords)) and all(k.arg for k in node.keywords)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"), attr=name)):
            named = node.keywords
            return (
                callable(MATH.get(name)) and every(*node.args, *(k.value for k in named)) and all(k.arg for k in named)
            )
        case ast.Attribute(value=ast.Name(id="math"), attr=name):
            return name in MATH
        case ast.Starred(value=value):
            return every(value)
        case ast.BinOp(left=left, op=op, right=right):
            return type(op) in OPERATORS and every(left, right)
        case ast.UnaryOp(op=op, operand=operand):
            return type(op) in UNARY and every(operand)
        case ast.Compare(left=left, ops=ops, comparators=rest):
            return all(isinstance(o, COMPARISONS) for o in ops) and every(left, *rest)
        case ast.Dict(keys=keys, values=values):
            return every(*keys, *values)
        case ast.Subscript(value=value, slice=index):
            return not isinstance(index, ast.Slice) and every(value, index)
        case ast.BoolOp(values=values) | ast.List(elts=values) | ast.Tuple(elts=values) | ast.Set(elts=values):
            return every(*values)
        case ast.Constant():
            return True
    return False


def evaluate(node: ast.expr, call: Call, functions: frozenset[str]) -> Any:
    """The value of a supported expression. `call(name, args, kwargs)` is made for each call of a function of the
    program and may raise. Otherwise raises what the operators raise, for values that they do not fit, and TooLarge."""

    def value(n: ast.expr) -> Any:
        return evaluate(n, call, functions)

    def items(nodes: list[ast.expr]) -> list[Any]:
        out: list[Any] = []
        for n in nodes:
            out.extend(value(n.value) if isinstance(n, ast.Starred) else [value(n)])
        return out

    match node:
        case ast.Constant(value=constant):
            return constant
        case ast.Call(func=ast.Name(id="isinstance"), args=[subject, kinds]) if "isinstance" not in functions:
            wanted = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
            return isinstance(value(subject), tuple(TYPES[k.id] for k in wanted if isinstance(k, ast.Name)))
        case ast.Call(func=ast.Name(id=name)):
            arguments, named = items(node.args), {str(k.arg): value(k.value) for k in node.keywords}
            return call(name, arguments, named) if name in functions else FUNCTIONS[name](*arguments, **named)
        case ast.Call(func=ast.Attribute(attr=name)):
            return MATH[name](*items(node.args), **{str(k.arg): value(k.value) for k in node.keywords})
        case ast.Attribute(attr=name):
            return MATH[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(type(op), value(left), value(right))
        case ast.UnaryOp(op=op, operand=operand):
            return UNARY[type(op)](value(operand))
        case ast.BoolOp(op=op, values=values):
            last: Any = None
            for n in values:
                last = value(n)
                if bool(last) is isinstance(op, ast.Or):
                    break
            return last
        case ast.Compare():
            return _compare(node, value)
        case ast.Subscript(value=subject, slice=index):
            return value(subject)[value(index)]
        case ast.Dict(keys=keys, values=values):
            return {value(k): value(v) for k, v in zip(keys, values, strict=True) if k is not None}
        case ast.List(elts=elts):
            return items(elts)
        case ast.Tuple(elts=elts):
            return tuple(items(elts))
        case ast.Set(elts=elts):
            return set(items(elts))
    raise TypeError(type(node).__name__)


def _compare(node: ast.Compare, value: Callable[[ast.expr], Any]) -> bool:
    left = value(node.left)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = value(right_node)
        if isinstance(op, ast.Eq | ast.Is):
            holds = same(left, right)
        elif isinstance(op, ast.NotEq | ast.IsNot):
            holds = not isinstance(left, Opaque) and not isinstance(right, Opaque) and not same(left, right)
        elif isinstance(op, ast.In | ast.NotIn):
            found = left in right if isinstance(right, str) else any(same(left, x) for x in right)
            holds = found is isinstance(op, ast.In)
        else:
            holds = bool(ORDER[type(op)](left, right))
        if not holds:
            return False
        left = right
    return True


def _binary(op: type[ast.operator], left: Any, right: Any) -> Any:
    """`left op right`. Raises TooLarge before a result could be."""
    for a, b in ((left, right), (right, left)):
        if isinstance(a, int) and a.bit_length() > BITS:
            raise TooLarge("number")
        if op is ast.Mult and isinstance(a, int) and hasattr(b, "__len__") and a * len(b) > LENGTH:
            raise TooLarge("sequence")
    if op is ast.Pow and isinstance(left, int) and isinstance(right, int) and left.bit_length() * abs(right) > BITS:
        raise TooLarge("number")
    if op is ast.Mod and isinstance(left, str | bytes):
        raise TypeError("text is not formatted")
    return OPERATORS[op](left, right)
