"""`rollwise methods`."""

from __future__ import annotations

import json
from argparse import Namespace
from textwrap import fill

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


def methods(args: Namespace) -> int:
    chosen = [method(args.name)] if args.name else list(METHODS.values())
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
    return lines
