"""Saved state of parts with memory, and readers for what it holds.

A checkpoint that is whole by its hashes may still hold what no run has written. Every value is read by one of the
readers here, which raise ValueError where it is of another type or out of its range.
"""

from __future__ import annotations

import copy
import math
import reprlib
import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import numpy as np


class Saved(Protocol):
    """What is saved with a checkpoint. `load_state_dict(state_dict())` changes nothing."""

    def state_dict(self) -> dict[str, Any]:
        """JSON values and numpy arrays."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ValueError for unknown or missing keys, and for a value that this part cannot have."""
        ...


class Part(Saved, Protocol):
    """What every part with memory offers besides its own act."""

    def metrics(self) -> dict[str, float]: ...


def check_keys(state: dict[str, Any], expected: set[str], part: str) -> None:
    """A saved state must hold exactly the expected keys: anything else was saved by something else."""
    if type(state) is not dict or set(state) != expected:
        raise ValueError(f"state of {part}: expected keys {sorted(expected)}, found {reprlib.repr(sorted(state))}")


LARGEST = 2**53  # whole numbers up to it are the same in every reader of JSON


def odd(what: str, expected: str, value: Any) -> ValueError:
    """The error for a value of `what` that is not as expected."""
    found = " ".join(reprlib.repr(value).split())  # arrays are shown in lines
    return ValueError(f"state of {what}: expected {expected}, found {found}")


def whole(value: Any, what: str, least: int = 0, most: int = LARGEST) -> int:
    """A whole number within bounds; True is none."""
    if type(value) is not int or not least <= value <= most:
        raise odd(what, f"a whole number from {least} to {most}", value)
    return value


def number(value: Any, what: str, least: float = -math.inf, most: float = math.inf) -> float:
    """A finite number within bounds."""
    largest = sys.float_info.max
    if type(value) not in (int, float) or not max(least, -largest) <= value <= min(most, largest):
        raise odd(what, f"a number from {least:g} to {most:g}", value)
    return float(value)


def string(value: Any, what: str) -> str:
    if type(value) is not str:
        raise odd(what, "a text", value)
    return value


def listed(value: Any, what: str, length: int | None = None) -> list[Any]:
    """A list, of that length if one is given."""
    if type(value) is not list or length not in (None, len(value)):
        raise odd(what, "a list" if length is None else f"a list of {length}", value)
    return value


def series(value: Any, what: str, dtype: Any) -> np.ndarray:
    """A list of finite numbers as an array of that dtype."""
    whole_only = np.issubdtype(dtype, np.integer)
    limits = np.iinfo(dtype) if whole_only else np.finfo(dtype)
    kinds = {int} if whole_only else {int, float}
    least, most = float(limits.min), float(limits.max)
    if set(map(type, listed(value, what))) <= kinds and all(least <= v <= most for v in value):
        return np.array(value, dtype=dtype)
    raise odd(what, f"finite numbers of {np.dtype(dtype)}", value)


def shaped(value: Any, what: str, dtype: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """An array of that dtype and shape (None: any length)."""
    if not isinstance(value, np.ndarray) or value.dtype != dtype or value.ndim != len(shape):
        raise odd(what, f"an array {np.dtype(dtype)} of {len(shape)} dimensions", value)
    if any(n is not None and n != have for n, have in zip(shape, value.shape, strict=True)):
        raise odd(what, f"an array of shape {shape}", value.shape)
    return value


def array(
    value: Any, what: str, dtype: Any, shape: tuple[int | None, ...], least: float = -math.inf, most: float = math.inf
) -> np.ndarray:
    """An array of that dtype and shape, with finite numbers within bounds."""
    shaped(value, what, dtype, shape)
    if not (np.isfinite(value).all() and (value >= least).all() and (value <= most).all()):
        raise odd(what, f"finite numbers from {least:g} to {most:g}", value)
    return value  # type: ignore[no-any-return]


def rows(value: Any, what: str, size: int) -> np.ndarray:
    """Different rows of a data set of that size, int64."""
    out = array(value, what, np.int64, (None,), least=0, most=size - 1)
    if len(np.unique(out)) < len(out):
        raise odd(what, "different rows", out)
    return out


def as_now(part: Part) -> Callable[[], None]:
    """A call that puts the part back to the state it has now."""
    state = copy.deepcopy(part.state_dict())
    return lambda: part.load_state_dict(copy.deepcopy(state))


def check_distinct(keys: Sequence[Hashable], what: str) -> None:
    """Raises ValueError where one stands twice."""
    if len(set(keys)) < len(keys):
        raise ValueError(f"state of {what}: a rollout stands in it twice")
