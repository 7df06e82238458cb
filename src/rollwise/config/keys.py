"""Every setting as a list: what `rollwise keys` prints."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rollwise.config.aliases import ALIASES
from rollwise.config.schema import RunConfig

BOUNDS = (("gt", "above"), ("ge", "at least"), ("le", "at most"), ("lt", "below"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One setting. In `name` a list of sections has `[N]` behind it and a mapping of sections `.NAME`."""

    name: str
    type: str  # in words, such as `whole number or null`; the values of a choice
    default: Any
    doc: str
    bounds: str  # in words; empty where there are none
    aliases: tuple[str, ...]  # other trainers' names for it


def keys(cls: type = RunConfig, prefix: str = "") -> list[Key]:
    """Every key of a section and of those in it, in order."""
    hints = typing.get_type_hints(cls)
    out: list[Key] = []
    for field in dataclasses.fields(cls):
        hint, name = hints[field.name], f"{prefix}{field.name}"
        inside, own = _section(hint)
        if inside is not None:
            out += keys(inside, f"{name}{own}.")
            continue
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        out.append(
            Key(
                name=name,
                type=_words(hint),
                default=default,
                doc=str(field.metadata.get("doc", "")),
                bounds=_bounds(field.metadata),
                aliases=tuple(sorted(a for a, ours in ALIASES.items() if name in ours)),
            )
        )
    return out


def dotted() -> list[str]:
    """The names of all keys that can be set by themselves: not those in a list or a mapping of sections."""
    return [k.name for k in keys() if "[N]" not in k.name and ".NAME" not in k.name]


def _section(hint: Any) -> tuple[type | None, str]:
    """The section a hint stands for, alone, in a list or in a mapping; and how that is written."""
    item = (typing.get_args(hint) or (None,))[-1]
    if dataclasses.is_dataclass(hint):
        return typing.cast(type, hint), ""
    if dataclasses.is_dataclass(item) and typing.get_origin(hint) in (list, dict):
        return typing.cast(type, item), "[N]" if typing.get_origin(hint) is list else ".NAME"
    return None, ""


def _words(hint: Any) -> str:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return " or ".join(_words(a) for a in typing.get_args(hint))
    if typing.get_origin(hint) is Literal:
        return " | ".join(str(a) for a in typing.get_args(hint))
    base, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if base is list:
        return f"list of {_words(inner[0])}"
    if base is dict:
        return f"mapping of names to {_words(inner[1])}"
    plain = {int: "whole number", float: "number", str: "text", bool: "true or false", type(None): "null"}
    return plain.get(base, "any value")


def _bounds(meta: Mapping[str, Any]) -> str:
    return ", ".join(f"{words} {meta[name]:g}" for name, words in BOUNDS if meta.get(name) is not None)
