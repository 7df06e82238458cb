"""What a run will not do, said at its start: parts that its budget gives no time to act."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from rollwise.config import RunConfig, data_sets, named
from rollwise.config.pilot import pilot_prompts, pilot_rollouts


def advice(config: RunConfig, sizes: Mapping[str, int], generated: Collection[str] = ()) -> list[str]:
    """A sentence for each part that cannot act, or acts late. `sizes`: training prompts of each data set; `generated`:
    those that make up their prompts, whose number is a setting."""
    return [*_no_return(config, sizes, generated), *_late_replay(config)]


def _no_return(config: RunConfig, sizes: Mapping[str, int], generated: Collection[str]) -> list[str]:
    """Parts that remember prompts, on data that the budget does not pass through once."""
    curriculum = config.curriculum
    wanting = [
        words
        for words, there in (
            ("curriculum.kind mopps", curriculum.kind == "mopps"),
            ("curriculum.drop_solved", curriculum.drop_solved),
            ("curriculum.evict_at", curriculum.evict_at is not None),
            ("replay.kind success", config.replay.kind == "success"),
        )
        if there
    ]
    drawn = most_prompts(config)
    if not wanting or drawn is None:
        return []
    out = []
    for name, size in sizes.items():
        own = math.floor(drawn * _share(config, name))
        if own >= size:
            continue
        where = f"tasks.{name}.args.train_size" if named(config) else "task_args.train_size"
        remedy = f"set {where}={_round(own / 4)} for about four passes" if name in generated else "give a larger budget"
        which, do = " and ".join(wanting), "does" if len(wanting) == 1 else "do"
        of = f"{name}'s" if len(sizes) > 1 else "the"
        out.append(
            f"{which} {do} nothing before prompts come again, and the budget takes at most {own:,} of {of} {size:,} "
            f"training prompts: {remedy}"
        )
    return out


def most_prompts(config: RunConfig) -> int | None:
    """Prompts that the budget lets the curriculum use up, at most; None where only tokens or time bound it."""
    allocation, pilot, size = config.allocation, config.allocation.pilot, config.group_size
    rounds = 1 if allocation.kind == "fixed" else allocation.max_rounds
    each, a_round = size, config.prompts_per_step
    if allocation.kind == "pilot":
        each = pilot_rollouts(pilot.rollouts, pilot.share, size)
        a_round = pilot_prompts(pilot.prompts, a_round)
    bounds = []
    if config.budget.rollouts is not None:
        bounds.append(config.budget.rollouts // each)
    if config.budget.steps is not None:
        bounds.append(config.budget.steps * rounds * a_round)
    factor = config.curriculum.mopps.pool_factor if config.curriculum.kind == "mopps" else 1
    return min(bounds) * factor if bounds else None


def most_steps(config: RunConfig) -> int | None:
    """Steps with full batches that the budget allows, at most; None where only tokens or time bound it."""
    least = config.group_size
    if config.allocation.kind == "pilot":
        pilot = config.allocation.pilot
        least -= pilot_rollouts(pilot.rollouts, pilot.share, config.group_size)
    bounds = [] if config.budget.steps is None else [config.budget.steps]
    if config.budget.rollouts is not None:
        bounds.append(config.budget.rollouts // (config.prompts_per_step * least))
    return min(bounds) if bounds else None


def _share(config: RunConfig, name: str) -> float:
    """The largest share of the prompts drawn that a data set ever has."""
    base = {n: entry.weight for n, entry in data_sets(config).items()}
    mixes = [stage.tasks or base for stage in config.curriculum.stages] or [base]
    return max(mix.get(name, 0.0) / sum(mix.values()) for mix in mixes)


def _late_replay(config: RunConfig) -> list[str]:
    replay = config.replay
    if replay.kind == "rollouts":
        first, key = replay.warmup_steps + 1, "replay.warmup_steps"
    elif replay.kind in ("recent", "hybrid"):
        first, key = replay.min_age + 1, "replay.min_age"
    else:
        return []
    if first <= 2:
        return []
    steps = most_steps(config)
    if steps is not None and first > steps:
        return [f"replay begins at step {first} ({key}), and the budget ends by step {steps}: set {key} lower"]
    return [f"replay begins at step {first} ({key})"]


def _round(value: float) -> int:
    """To one significant digit, at least 1."""
    size = 10 ** max(0, math.floor(math.log10(max(value, 1))))
    return int(max(1, value // size * size))
