"""Task settings: a frozen dataclass per task, read from the config's `task_args` with errors that name the key."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from rollwise.config import key
from rollwise.errors import UserError, nearest, show

A = TypeVar("A")

WANT = {int: "a whole number", str: "text", list: "a list of whole numbers"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedArgs:
    """What every task that makes up its own questions can be told."""

    train_size: int = key(1_000_000, "training prompts; prompt i is always the same one", ge=1, le=10**8)
    heldout_size: int = key(10_000, "held-out prompts", ge=1, le=10**8)
    data_seed: int = key(0, "seed of the questions; apart from the run's seed, so that runs share their data", ge=0)
    template: Literal["auto", "bare", "instruct", "base"] = key(
        "auto", "bare: starters; instruct: chat models; base: plain continuation"
    )


def read_args(cls: type[A], args: Mapping[str, Any]) -> A:
    """`args` as an instance of the dataclass `cls`. Raises UserError: `task_args.<key>`, and what would be right."""
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(typing.cast(Any, cls))}
    values: dict[str, Any] = {}
    for name, value in args.items():
        if name not in fields:
            raise UserError(f"unknown key 'task_args.{name}'; {nearest(str(name), fields)}")
        values[name] = _convert(name, value, hints[name], fields[name].metadata)
    return cls(**values)


def _convert(name: str, value: Any, hint: Any, meta: Mapping[str, Any]) -> Any:
    options = typing.get_args(hint) if typing.get_origin(hint) is types.UnionType else (hint,)
    optional = type(None) in options
    if value is None and optional:
        return None
    if list[str] in options and (isinstance(value, list | tuple) or str not in options):
        return _texts(name, value)
    hint = options[0]
    if hint == dict[str, str]:
        return _text_mapping(name, value)
    if hint == dict[str, Any]:
        if not isinstance(value, Mapping) or not all(isinstance(inner, str) for inner in value):
            raise wrong(name, value, "a mapping of names to values")
        return dict(value)
    if typing.get_origin(hint) is Literal:
        if not isinstance(value, str) or value not in typing.get_args(hint):
            raise wrong(name, value, "one of " + ", ".join(typing.get_args(hint)))
        return value
    base = typing.get_origin(hint) or hint
    if base is tuple:  # tuple[int, ...], written as a list
        if not isinstance(value, list | tuple) or not value or not all(_is_int(v) for v in value):
            raise wrong(name, value, WANT[list])
        for v in value:
            _check_bounds(name, v, meta)
        return tuple(value)
    if base is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, base) or isinstance(value, bool):
        raise wrong(name, value, WANT[base] + (" or null" if optional else ""))
    if base is int:
        _check_bounds(name, value, meta)
    return value


def _texts(name: str, value: Any) -> list[str]:
    if not isinstance(value, list | tuple) or not value or not all(isinstance(v, str) for v in value):
        raise wrong(name, value, "a list of texts")
    return list(value)


def _text_mapping(name: str, value: Any) -> dict[str, str]:
    """Null stands for no text."""
    if not isinstance(value, Mapping):
        raise wrong(name, value, "a mapping of names to texts")
    for inner, text in value.items():
        if not isinstance(inner, str) or not isinstance(text, str | None):
            raise wrong(f"{name}.{inner}", text, "text")
    return {inner: text or "" for inner, text in value.items()}


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_bounds(name: str, value: int, meta: Mapping[str, Any]) -> None:
    for bound, words in (("ge", "at least"), ("le", "at most")):
        limit = meta.get(bound)
        if limit is not None and (value < limit if bound == "ge" else value > limit):
            raise wrong(name, value, f"a whole number of {words} {limit}")


def wrong(name: str, value: Any, right: str) -> UserError:
    """The error line for one setting of a task."""
    return UserError(f"task_args.{name} is {show(value)}; it must be {right}")
