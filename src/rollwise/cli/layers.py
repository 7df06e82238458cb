"""From flags to layers of settings."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from rollwise.config import RunConfig, expand_aliases, merge, parse_override, read_yaml
from rollwise.config.aliases import WIDE, clashes
from rollwise.errors import UserError

FLAGS = ("method", "task", "model", "seed", "threads", "output", "backend")
MAIN_JOB: dict[str, Any] = {"method": "popo", "task": "sort_digits"}
MAIN_BUDGET: dict[str, Any] = {"budget": {"rollouts": 25_600}}


def overrides(texts: list[str]) -> dict[str, Any]:
    """All `--set` of a command line, later over earlier. Raises UserError where one key has two names."""
    names = dict.fromkeys(text.partition("=")[0].strip() for text in texts)
    if clash := clashes(names):
        raise UserError(f"--set: '{clash[0]}' is given twice, as {clash[1]} and as {clash[2]}; keep one of the two")
    tree: dict[str, Any] = {}
    for text in sorted(texts, key=lambda t: t.partition("=")[0].strip() not in WIDE):  # another name narrows a wide one
        tree = merge(tree, parse_override(text))
    return tree


def layers(args: Namespace) -> list[tuple[str, dict[str, Any]]]:
    """Settings by source: the recipe (or the main job), `--set`, and the named flags."""
    given = {name: getattr(args, name, None) for name in FLAGS}
    flags = {name: _value(name, text) for name, text in given.items() if text is not None}
    typed = overrides(args.set)
    given_rows = _rows(args)
    if args.recipe is None:
        own_budget = MAIN_BUDGET if "budget" not in typed else {}
        first = ("main job", merge(MAIN_JOB, own_budget))
    else:
        first = (args.recipe, read_yaml(Path(args.recipe)))
    if given_rows:
        flags["task_args"] = given_rows
        named = [typed, flags, *([first[1]] if args.recipe is not None else [])]
        if "data" in given_rows and not any("task" in tree for tree in named):
            flags["task"] = "data"
    return [first, ("--set", typed), ("command line", flags)]


def row_args(args: Namespace) -> dict[str, Any]:
    """How the rows of files named by flags are read: `--set task_args.*`, and `--map` over it."""
    from rollwise.data.columns import parse_map

    own = dict(expand_aliases(overrides(args.set), "--set").get("task_args") or {})
    columns = parse_map(args.map)
    return {**own, "map": {**(own.get("map") or {}), **columns}} if columns else own


def _rows(args: Namespace) -> dict[str, Any]:
    """The task settings that `train --data` and `--map` are short for."""
    from rollwise.data.columns import parse_map

    files, columns = getattr(args, "train_data", None), getattr(args, "train_map", None)
    out: dict[str, Any] = {}
    if files:
        out["data"] = files[0] if len(files) == 1 else files
    if columns:
        out["map"] = parse_map(columns)
    return out


def _value(name: str, text: str) -> Any:
    if name not in ("seed", "threads"):
        return text
    try:
        return int(text)
    except ValueError:
        raise UserError(f"--{name} {text}: give a whole number") from None


def trained(run: Path) -> Path:
    """The model folder of a run's newest checkpoint. Raises UserError for one on verl, whose weights are in shards."""
    from rollwise import checkpoint

    shards = sorted((run / "checkpoints").glob("global_step_*/actor"), key=lambda p: int(p.parent.name.split("_")[-1]))
    if shards:
        made = f"python -m verl.model_merger merge --backend fsdp --local_dir {shards[-1]} --target_dir MODEL"
        raise UserError(f"{run}: its weights are in verl's shards; make a model folder of them and give that: {made}")
    return checkpoint.newest(run / "checkpoints")[0] / "model"


def config(args: Namespace) -> RunConfig:
    from rollwise.assemble import resolve

    return resolve(layers(args), shared=args.shared)
