"""`rollwise compare`."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollwise.cli.layers import overrides
from rollwise.console import open_console
from rollwise.errors import UserError

if TYPE_CHECKING:
    from rollwise.config import RunConfig


def compare(args: Namespace) -> int:
    from rollwise.assemble import resolve
    from rollwise.compare import compare as run_all
    from rollwise.config import read_yaml
    from rollwise.methods import method

    methods = _names(args.methods)
    for name in methods:
        method(name)
    more = dict(_factor(text, methods) for text in args.more)
    seeds = _seeds(args.seeds)
    shared = [*args.set, *(f"{k}={getattr(args, k)}" for k in ("task", "model") if getattr(args, k))]
    recipe = [(args.recipe, read_yaml(Path(args.recipe)))] if args.recipe else []
    layers = [*recipe, ("--set", overrides(shared))]
    configs = []
    for name in methods:  # a wrong setting is one line here, not a failure of every run
        last = {"method": name, "budget": {"rollouts": args.rollouts}}
        configs.append(resolve([*layers, ("command line", last)], shared=True))
    _check_read(configs, layers)
    config = configs[-1]
    base = ["--shared", *([args.recipe] if args.recipe else [])]
    for text in shared:
        base += ["--set", text]
    jobs = args.jobs or min(len(os.sched_getaffinity(0)), len(methods) * len(seeds))
    targets = _targets(args.targets) if args.targets else None
    with open_console() as console:
        result = run_all(
            methods,
            seeds,
            base,
            Path(args.output),
            args.rollouts,
            more=more,
            jobs=jobs,
            targets=targets,
            console=console,
            round_size=config.prompts_per_step * config.group_size,
        )
    return result.exit_status


def _check_read(configs: list[RunConfig], layers: list[tuple[str, dict[str, Any]]]) -> None:
    """A setting that at least one of the methods reads is fine. Raises UserError for the others."""
    from rollwise.config import expand_aliases, leaves, nest
    from rollwise.config.effect import check_read, unread

    for source, tree in layers:
        for name, value in leaves(expand_aliases(tree, source)).items():
            if all(unread(name, config) for config in configs):
                check_read(configs[0], nest(name, value), source)


def _names(text: str) -> list[str]:
    names = [n.strip() for n in text.split(",") if n.strip()]
    if not names or len(set(names)) != len(names):
        raise UserError(f"--methods {text}: give different names with commas, for example grpo,dapo,popo")
    return names


def _factor(text: str, methods: list[str]) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        factor = float(value)
    except ValueError:
        factor = 0.0
    if name not in methods or not 1 < factor < 1000:
        raise UserError(f"--more {text}: give METHOD=FACTOR, a method of --methods and a factor above 1")
    return name, factor


MOST_SEEDS = 1000


def _seeds(text: str) -> list[int]:
    try:
        numbers = [int(t) for t in text.split(",") if t.strip()]
    except ValueError:
        raise UserError(f"--seeds {text}: give a number of seeds, or seeds with commas") from None
    counted = "," not in text and len(numbers) == 1
    if len(numbers) > MOST_SEEDS or (counted and numbers[0] > MOST_SEEDS):
        raise UserError(f"--seeds {text}: at most {MOST_SEEDS:,} seeds")
    seeds = list(range(numbers[0])) if counted else numbers
    if not seeds or min(numbers) < 0 or len(set(seeds)) != len(seeds):
        raise UserError(f"--seeds {text}: give at least one seed, each once")
    return seeds


def _targets(text: str) -> list[float]:
    try:
        targets = [float(t) for t in text.split(",")]
    except ValueError:
        targets = [2.0]
    if not all(0 < t <= 1 for t in targets):
        raise UserError(f"--targets {text}: give accuracies between 0 and 1 with commas")
    return targets
