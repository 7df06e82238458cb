"""`rollwise methods` and `rollwise keys`."""

from __future__ import annotations

import dataclasses
import json
from argparse import Namespace
from textwrap import fill
from typing import Any

from rollwise.config import ALIASES, build, merge, nest
from rollwise.config.effect import RULES, unread
from rollwise.config.keys import Key
from rollwise.config.keys import keys as keys_of
from rollwise.errors import UserError, nearest
from rollwise.methods import METHODS, Method, method

PARTS = (
    "curriculum.kind",
    "curriculum.drop_solved",
    "allocation.kind",
    "replay.kind",
    "advantage.kind",
    "objective.kind",
    "objective.reduction",
)
SECTIONS = ("curriculum.", "allocation.", "replay.", "advantage.", "critic.", "objective.")


def methods(args: Namespace) -> int:
    chosen = [method(name) for name in args.name] or list(METHODS.values())
    if args.json:
        print(json.dumps([_tree(m) for m in chosen], indent=1))
        return 0
    print("\n\n".join("\n".join(_lines(m, whole=bool(args.name))) for m in chosen))
    return 0


def _tree(m: Method) -> dict[str, object]:
    return {"name": m.name, "summary": m.summary, "paper": m.paper, "differs": m.differs, "settings": m.settings}


def _lines(m: Method, *, whole: bool) -> list[str]:
    def block(label: str, text: str) -> str:
        return fill(text, 100, initial_indent=f"  {label:<9}", subsequent_indent=" " * 11)

    chosen = {p: m.settings[p] for p in PARTS if p in m.settings}
    parts = " + ".join(p.split(".")[-1] if value is True else str(value) for p, value in chosen.items())
    lines = [m.name, block("what", m.summary), block("paper", m.paper), block("parts", parts)]
    lines.append(block("differs", m.differs))
    if whole:
        lines.append("  settings")
        lines += [f"    {key}: {json.dumps(value)}" for key, value in m.settings.items()]
        lines.append("  defaults that this method reads besides (`rollwise keys` has every key)")
        lines += [line for key in _others(m) for line in _shown(f"{key.name}: {json.dumps(key.default)}", key.doc)]
    return lines


def _others(m: Method) -> list[Key]:
    """Keys of the method's own parts that it leaves at their defaults and that act in it."""
    tree: dict[str, Any] = {}
    for dotted, value in m.settings.items():
        tree = merge(tree, nest(dotted, value))
    config = build(tree, m.name, together=False)
    own = sorted({rule_key for rule in RULES for rule_key in rule.keys if not unread(rule_key, config)})
    return [
        key
        for key in keys_of()
        if key.name.startswith(SECTIONS)
        and key.name not in m.settings
        and any(key.name == name or (name.endswith(".") and key.name.startswith(name)) for name in own)
        and unread(key.name, config) is None
    ]


def keys(args: Namespace) -> int:
    """Keys that begin with the prefix, or the nearest to it."""
    every = keys_of()
    wanted = args.prefix.strip().rstrip(".")
    names = [*ALIASES.get(wanted, (wanted,))]
    chosen = [
        k for k in every if not wanted or any(k.name == n or k.name.startswith((f"{n}.", f"{n}[")) for n in names)
    ]
    if not chosen:
        sections = {k.name.split(".")[0].removesuffix("[N]") for k in every}
        raise UserError(
            f"keys {wanted}: no such key or section; {nearest(wanted, {*sections, *(k.name for k in every)})}"
        )
    if args.json:
        print(json.dumps([dataclasses.asdict(k) for k in chosen], indent=1))
        return 0
    for k in chosen:
        print("\n".join(_shown(f"{k.name}: {json.dumps(k.default)}", k.doc, _about(k))))
    return 0


def _about(k: Key) -> str:
    also = f"also: {', '.join(k.aliases)}" if k.aliases else ""
    return "; ".join(part for part in (k.type, k.bounds, also) if part)


def _shown(head: str, *texts: str) -> list[str]:
    below = [fill(text, 100, initial_indent=" " * 8, subsequent_indent=" " * 8) for text in texts if text]
    return [f"    {head}", *below]
