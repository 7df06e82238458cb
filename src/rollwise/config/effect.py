"""Settings that nothing reads: those of a part that the run does not have.

A table says of each key, or of all keys that begin with it, under which other settings it is read. A key that the user
set to something else than its default, and which nothing reads, is refused: the run would not do what was asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from rollwise.config.layers import leaves, to_tree
from rollwise.config.schema import RunConfig
from rollwise.errors import UserError, show

Reads = Callable[[RunConfig], bool]


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """When the keys are read, what that takes, and the setting that is asked for it."""

    keys: tuple[str, ...]  # a key, or the beginning of several that ends with a dot
    reads: Reads
    remedy: str  # what to set
    why: tuple[str, ...]  # the keys whose values make it so


def _weighted(c: RunConfig) -> bool:
    return c.objective.kind == "decoupled" or c.objective.behaviour_weight


def _replay(*kinds: str) -> Reads:
    return lambda c: c.replay.kind in kinds


def _advantage(*kinds: str) -> Reads:
    return lambda c: c.advantage.kind in kinds


RULES = (
    Rule(("sampling.engine",), lambda c: c.backend == "local", "backend=local", ("backend",)),
    Rule(("sampling.vllm.",), lambda c: c.sampling.engine == "vllm", "sampling.engine=vllm", ("sampling.engine",)),
    Rule(
        ("sampling.importance_cap",),
        lambda c: c.sampling.engine == "vllm" or c.backend == "verl",
        "sampling.engine=vllm",
        ("sampling.engine", "backend"),
    ),
    Rule(("sampling.importance_cap",), lambda c: c.sampling.top_p == 1, "sampling.top_p=1", ("sampling.top_p",)),
    Rule(("curriculum.mopps.",), lambda c: c.curriculum.kind == "mopps", "curriculum.kind=mopps", ("curriculum.kind",)),
    Rule(
        ("curriculum.mopps.target",),
        lambda c: c.curriculum.mopps.strategy != "uniform",
        "curriculum.mopps.strategy=topk",
        ("curriculum.mopps.strategy",),
    ),
    Rule(
        ("curriculum.mopps.band",),
        lambda c: c.curriculum.mopps.strategy == "threshold",
        "curriculum.mopps.strategy=threshold",
        ("curriculum.mopps.strategy",),
    ),
    Rule(
        ("curriculum.evict_on", "curriculum.retest_epochs"),
        lambda c: c.curriculum.evict_at is not None,
        "curriculum.evict_at=1.0",
        ("curriculum.evict_at",),
    ),
    Rule(
        ("allocation.max_rounds", "allocation.max_rollouts", "allocation.on_limit"),
        lambda c: c.allocation.kind != "fixed",
        "allocation.kind=dynamic or pilot",
        ("allocation.kind",),
    ),
    Rule(
        ("allocation.surplus",),
        lambda c: c.allocation.kind == "dynamic",
        "allocation.kind=dynamic",
        ("allocation.kind",),
    ),
    Rule(("allocation.pilot.",), lambda c: c.allocation.kind == "pilot", "allocation.kind=pilot", ("allocation.kind",)),
    Rule(
        ("allocation.pilot.share",),
        lambda c: c.allocation.pilot.rollouts is None,
        "allocation.pilot.rollouts=null",
        ("allocation.pilot.rollouts",),
    ),
    Rule(
        ("allocation.pilot.updates",),
        lambda c: c.allocation.pilot.train_on == "group",
        "allocation.pilot.train_on=group",
        ("allocation.pilot.train_on",),
    ),
    Rule(
        ("replay.max_uses",),
        _replay("recent", "hybrid", "rollouts"),
        "replay.kind=recent, hybrid or rollouts",
        ("replay.kind",),
    ),
    Rule(
        ("replay.capacity_batches", "replay.admit", "replay.order", "replay.min_age", "replay.short"),
        _replay("recent", "hybrid"),
        "replay.kind=recent or hybrid",
        ("replay.kind",),
    ),
    Rule(
        ("replay.capacity", "replay.max_age"),
        _replay("recent", "hybrid", "rollouts", "success"),
        "replay.kind=recent, hybrid, rollouts or success",
        ("replay.kind",),
    ),
    Rule(
        ("replay.reservoir_capacity", "replay.reservoir_share", "replay.reservoir_max_age"),
        _replay("hybrid"),
        "replay.kind=hybrid",
        ("replay.kind",),
    ),
    Rule(
        tuple(f"replay.{k}" for k in ("ratio", "priority", "alpha", "eps", "warmup_steps", "composition", "entries")),
        _replay("rollouts"),
        "replay.kind=rollouts",
        ("replay.kind",),
    ),
    Rule(
        ("replay.alpha", "replay.eps"),
        lambda c: c.replay.priority != "uniform",
        "replay.priority=advantage or sigma",
        ("replay.priority",),
    ),
    Rule(("replay.per_prompt",), _replay("success"), "replay.kind=success", ("replay.kind",)),
    Rule(
        ("advantage.scale", "advantage.ddof", "advantage.eps"),
        _advantage("group"),
        "advantage.kind=group",
        ("advantage.kind",),
    ),
    Rule(
        ("advantage.ddof", "advantage.eps"),
        lambda c: c.advantage.scale != "none",
        "advantage.scale=std or batch",
        ("advantage.scale",),
    ),
    Rule(
        ("advantage.gamma",),
        _advantage("reinforce++", "reinforce++-baseline", "gae"),
        "advantage.kind=reinforce++ or gae",
        ("advantage.kind",),
    ),
    Rule(("advantage.gae_lambda", "advantage.whiten"), _advantage("gae"), "method=ppo", ("advantage.kind",)),
    Rule(
        ("advantage.kl_in_reward",),
        _advantage("rloo", "reinforce++", "gae"),
        "objective.kl_coef for a KL term in the loss",
        ("advantage.kind",),
    ),
    Rule(("critic.lr", "critic.clip_value"), lambda c: c.critic.kind != "none", "method=ppo", ("critic.kind",)),
    Rule(
        ("reward.correct_at", "reward.seconds"),
        lambda c: bool(c.reward.function or c.reward.functions),
        "reward.function",
        ("reward.function",),
    ),
    Rule(
        ("reward.overlong_factor",),
        lambda c: c.reward.overlong_buffer is not None or c.reward.overlong_share is not None,
        "reward.overlong_share or reward.overlong_buffer",
        ("reward.overlong_buffer",),
    ),
    Rule(
        ("objective.dual_clip",),
        lambda c: c.objective.kind != "cispo",
        "objective.dual_clip=null",
        ("objective.kind",),
    ),
    Rule(
        ("objective.behaviour_weight",),
        lambda c: c.objective.kind in ("sequence", "cispo"),
        "objective.kind=decoupled",
        ("objective.kind",),
    ),
    Rule(
        ("objective.weight_level", "objective.weight_cap", "objective.weight_over_cap"),
        _weighted,
        "objective.kind=decoupled, or objective.behaviour_weight=true with sequence and cispo",
        ("objective.kind",),
    ),
    Rule(
        ("objective.weight_over_cap",),
        lambda c: c.objective.weight_cap is not None,
        "objective.weight_cap",
        ("objective.weight_cap",),
    ),
    Rule(("verl",), lambda c: c.backend == "verl", "backend=verl", ("backend",)),
    Rule(
        ("learner.schedule_updates",),
        lambda c: c.learner.schedule != "constant",
        "learner.schedule=linear or cosine",
        ("learner.schedule",),
    ),
    Rule(
        ("guard.window", "guard.dead", "guard.all_right", "guard.all_wrong", "guard.entropy_share"),
        lambda c: c.guard.action != "off",
        "guard.action=warn or stop",
        ("guard.action",),
    ),
)


def unread(name: str, config: RunConfig) -> Rule | None:
    """The rule by which nothing reads a dotted key; None where something does."""
    for rule in RULES:
        about = any(name == key or (key.endswith(".") and name.startswith(key)) for key in rule.keys)
        if about and not rule.reads(config):
            return rule
    return None


def check_read(config: RunConfig, given: Mapping[str, Any], source: str) -> None:
    """Raises UserError where a key of the user's own layers, nested in `given`, differs from its default and is read by
    nothing under the final settings."""
    values, defaults = leaves(to_tree(config)), leaves(to_tree(RunConfig()))
    for name in leaves(given):
        rule = unread(name, config)
        if rule is None or name not in values or values[name] == defaults.get(name):
            continue
        because = " and ".join(f"{key} {_shown(values[key])}" for key in rule.why)
        raise UserError(
            f"{source}: {name} is {show(values[name])}, and nothing reads it with {because}; leave it out, or set "
            f"{rule.remedy}"
        )
    for number, stage in enumerate(config.curriculum.stages):
        plain = type(stage.until)()
        if "curriculum" not in given or stage.until.plateau is not None:
            continue
        for part in ("window", "min_gain", "patience"):
            if getattr(stage.until, part) != getattr(plain, part):
                raise UserError(
                    f"{source}: curriculum.stages[{number}].until.{part} is {getattr(stage.until, part)}, and nothing "
                    "reads it without a plateau; leave it out, or set until.plateau"
                )


def _shown(value: Any) -> str:
    return "null" if value is None else str(value)
