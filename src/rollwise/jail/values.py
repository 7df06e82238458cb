"""Plain Python values as JSON with their types kept, so that they can leave a jail. Data only: nothing is ever built
from a name.

`None`, truth values, text, finite floats and whole numbers of up to 15 digits stand for themselves; everything else is
a list with a letter in front. An object of any other class becomes `Opaque`, which equals nothing. Subclasses are
written as the value of their built-in base, read with the base's own methods.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

DEPTH, NODES = 60, 200_000
PLAIN_INT = 10**15
HASHED = 2_000  # members of sets and dicts whose hashes can be made to collide: large numbers, complex ones, tuples

REAL, IMAGINARY = complex.real.__get__, complex.imag.__get__  # whatever a subclass says


class ValueLimit(ValueError):
    """Too deep, too large, or not of this form. The message is the reason."""


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """What cannot leave the jail: only the name of its class is known."""

    name: str


def encode(value: Any) -> Any:
    """`value` as JSON. Raises ValueLimit."""
    return _Encoder().encode(value, 0)


class _Encoder:
    def __init__(self) -> None:
        self.nodes = 0

    def encode(self, value: Any, depth: int) -> Any:
        self.nodes += 1
        if self.nodes > NODES:
            raise ValueLimit("value too large")
        if depth > DEPTH:
            raise ValueLimit("value nested too deep")
        if value is None or value is True or value is False:
            return value
        if isinstance(value, int):
            number = int.__add__(value, 0)
            return number if -PLAIN_INT < number < PLAIN_INT else ["i", hex(number)]
        if isinstance(value, float):
            real = float.__add__(value, 0.0)
            return real if math.isfinite(real) else ["f", float.__repr__(real)]
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, list | tuple | set | frozenset):
            base: Any = next(b for b in (list, tuple, set, frozenset) if isinstance(value, b))
            return [base.__name__[0] if base is not frozenset else "z", *self.items(base.__iter__(value), depth)]
        if isinstance(value, dict):
            pairs = [self.items(pair, depth) for pair in dict.items(value)]
            return ["d", *pairs]
        if isinstance(value, complex):
            return ["c", *self.items((REAL(value), IMAGINARY(value)), depth)]
        if isinstance(value, bytes):
            return ["b", bytes.hex(value)]
        return ["o", str(type(value).__name__)[:60]]

    def items(self, values: Any, depth: int) -> list[Any]:
        return [self.encode(v, depth + 1) for v in values]


def decode(data: Any) -> Any:
    """The value that `encode` wrote. Raises ValueLimit on anything else."""
    return _Decoder().decode(data, 0)


class _Decoder:
    def __init__(self) -> None:
        self.hashed = 0

    def decode(self, data: Any, depth: int) -> Any:
        if data is None or isinstance(data, bool | int | float | str):
            return data
        if depth > DEPTH or not isinstance(data, list) or not data or not isinstance(data[0], str):
            raise ValueLimit("not a value")
        try:
            return self._tagged(data[0], data[1:], depth + 1)
        except ValueLimit:
            raise
        except (
            Exception
        ):  # members that cannot be hashed, wrong counts, numbers no float can hold: it is not `encode`'s
            raise ValueLimit("not a value") from None

    def _tagged(self, kind: str, rest: list[Any], depth: int) -> Any:
        if kind in "dsz":
            members = [pair[0] for pair in rest] if kind == "d" else rest
            self.hashed += sum(isinstance(m, list) and m[0] not in ("b", "f") for m in members)
            if self.hashed > HASHED:
                raise ValueLimit("too many members of sets and dicts")
        match kind:
            case "d":
                return {self.decode(k, depth): self.decode(v, depth) for k, v in rest}
            case "l":
                return [self.decode(v, depth) for v in rest]
            case "t":
                return tuple(self.decode(v, depth) for v in rest)
            case "s":
                return {self.decode(v, depth) for v in rest}
            case "z":
                return frozenset(self.decode(v, depth) for v in rest)
            case "i":
                return int(rest[0], 16)
            case "f":
                return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[rest[0]]
            case "c":
                return complex(self.decode(rest[0], depth), self.decode(rest[1], depth))
            case "b":
                return bytes.fromhex(rest[0])
            case "o":
                return Opaque(str(rest[0])[:60])
        raise ValueLimit("not a value")
