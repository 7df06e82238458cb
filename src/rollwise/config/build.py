"""From a nested mapping to typed settings, or one line that names the key at fault."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

from rollwise.config.aliases import ALIASES
from rollwise.config.keys import dotted
from rollwise.config.pilot import accepted, pilot_prompts, pilot_rollouts
from rollwise.config.schema import RunConfig
from rollwise.config.tasks import check_tasks
from rollwise.errors import UserError, nearest, show

LARGEST = 10**18


def build(tree: Mapping[str, Any], source: str = "config", *, together: bool = True) -> RunConfig:
    """The typed config of a nested mapping. Raises UserError naming the first key that is wrong; `together` also
    checks settings against each other, which only a complete config can pass."""
    config: RunConfig = _build(RunConfig, tree, "", source)
    if together:
        _check_together(config, source)
    return config


def _build(cls: type, tree: Any, prefix: str, source: str) -> Any:
    if not isinstance(tree, Mapping):
        raise UserError(f"{source}: '{prefix[:-1]}' is {show(tree)}; it is a section of keys")
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    values: dict[str, Any] = {}
    for name, value in tree.items():
        if name not in fields:
            raise UserError(f"{source}: unknown key '{prefix}{name}'; {_nearest_key(prefix, str(name), fields)}")
        values[name] = _convert(value, hints[name], fields[name].metadata, f"{prefix}{name}", source)
    return cls(**values)


def _nearest_key(prefix: str, name: str, here: Mapping[str, Any]) -> str:
    """Keys of that name in other sections, else the nearest in this one, in full."""
    elsewhere = [k for k in dotted() if k.split(".")[-1] == name.split(".")[-1]]
    if 1 <= len(elsewhere) <= 3:
        return "did you mean " + " or ".join(f"'{k}'" for k in elsewhere) + "?"
    names = [f"{prefix}{k}" for k in here]
    close = difflib.get_close_matches(f"{prefix}{name}", [*names, *({} if prefix else ALIASES)], n=1, cutoff=0.55)
    if close and close[0] not in names:
        return f"did you mean '{close[0]}', here {' and '.join(ALIASES[close[0]])}?"
    return nearest(f"{prefix}{name}", names)


def _convert(value: Any, hint: Any, meta: Mapping[str, Any], name: str, source: str) -> Any:
    """`value` as the type of its field, bounds checked."""
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type, hint), value, f"{name}.", source)
    optional = typing.get_origin(hint) in (types.UnionType, typing.Union)  # the latter for `Literal[...] | None`
    options = [a for a in typing.get_args(hint) if a is not type(None)] if optional else [hint]
    if value is None and optional:
        return None
    want = options[0]
    if typing.get_origin(want) is Literal:
        allowed = typing.get_args(want)
        if value not in allowed or isinstance(value, bool):
            shown = ", ".join(map(str, allowed))
            raise UserError(f"{source}: {name} is {show(value)}; one of {shown}")
        return value
    base = typing.get_origin(want) or want
    if base in (list, dict) and typing.get_args(want)[-1] is not Any:
        return _convert_each(value, want, meta, name, source)
    if base is float and isinstance(value, str):  # YAML 1.1 reads 1e-5 as text
        with contextlib.suppress(ValueError):
            value = float(value)
    if isinstance(value, int) and abs(value) > LARGEST:
        raise UserError(f"{source}: {name} is {show(value)}; a number of at most 18 digits")
    if base is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if base is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, base) or (isinstance(value, bool) and base is not bool):
        kinds = {int: "a whole number", float: "a number", str: "text", bool: "true or false", dict: "a mapping"}
        null = " or null" if optional else ""
        raise UserError(f"{source}: {name} is {show(value)}; it is {kinds[base]}{null}")
    if base in (int, float):
        _check_bounds(value, meta, name, source)
    return value


def _convert_each(value: Any, hint: Any, meta: Mapping[str, Any], name: str, source: str) -> Any:
    """A list, or a mapping from text, with every item converted."""
    item = typing.get_args(hint)[-1]
    if typing.get_origin(hint) is list:
        if not isinstance(value, list | tuple):
            raise UserError(f"{source}: {name} is {show(value)}; it is a list")
        return [_convert(v, item, meta, f"{name}[{i}]", source) for i, v in enumerate(value)]
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise UserError(f"{source}: {name} is {show(value)}; it is a mapping of names")
    return {k: _convert(v, item, meta, f"{name}.{k}", source) for k, v in value.items()}


def _check_bounds(value: float, meta: Mapping[str, Any], name: str, source: str) -> None:
    if not math.isfinite(value):
        raise UserError(f"{source}: {name} is {value}; a finite number")
    for bound, holds, words in (
        ("gt", lambda v, b: v > b, "above"),
        ("ge", lambda v, b: v >= b, "at least"),
        ("le", lambda v, b: v <= b, "at most"),
        ("lt", lambda v, b: v < b, "below"),
    ):
        limit = meta.get(bound)
        if limit is not None and not holds(value, limit):  # type: ignore[no-untyped-call]
            raise UserError(f"{source}: {name} is {value}; it must be {words} {limit}")


def _check_together(config: RunConfig, source: str) -> None:
    """Settings that are each legal and together are not."""
    learner, replay, allocation = config.learner, config.replay, config.allocation
    if all(
        v is None for v in (config.budget.rollouts, config.budget.tokens, config.budget.steps, config.budget.seconds)
    ):
        raise UserError(
            f"{source}: no budget; give one of budget.rollouts, budget.tokens, budget.steps, budget.seconds"
        )
    if config.images.max_pixels < config.images.min_pixels:
        raise UserError(
            f"{source}: images.max_pixels is {config.images.max_pixels}; "
            f"at least images.min_pixels ({config.images.min_pixels})"
        )
    if learner.schedule != "constant" and learner.schedule_updates is None:
        raise UserError(f"{source}: learner.schedule is {learner.schedule}; give learner.schedule_updates as well")
    if learner.schedule_updates is not None and learner.schedule_updates <= learner.warmup_updates:
        raise UserError(
            f"{source}: learner.schedule_updates is {learner.schedule_updates}; above learner.warmup_updates"
        )
    _check_group_size(config, source)
    if replay.capacity is not None and replay.capacity_batches is not None:
        raise UserError(f"{source}: replay.capacity and replay.capacity_batches are both set; keep one")
    if replay.max_age is not None and replay.max_age < replay.min_age:
        raise UserError(f"{source}: replay.max_age is {replay.max_age}; at least replay.min_age ({replay.min_age})")
    _check_replay(config, source)
    if allocation.on_limit == "replay" and replay.kind not in ("recent", "hybrid"):
        raise UserError(
            f"{source}: allocation.on_limit is replay with replay.kind {replay.kind}; set replay.kind=recent"
        )
    if allocation.max_rollouts is not None and allocation.max_rollouts < config.group_size:
        raise UserError(
            f"{source}: allocation.max_rollouts is {allocation.max_rollouts}; at least group_size ({config.group_size})"
        )
    if allocation.kind == "pilot":
        _check_pilot(config, source)
    per_round = config.prompts_per_step * config.group_size
    smallest = per_round if allocation.kind == "fixed" else config.group_size
    if config.budget.rollouts is not None and config.budget.rollouts < smallest:
        raise UserError(f"{source}: budget.rollouts is {config.budget.rollouts}; the first step needs {smallest}")
    if config.task_args and not all(isinstance(k, str) for k in config.task_args):
        raise UserError(f"{source}: task_args has a key that is not text")
    for name, words in dataclasses.asdict(config.log.reflection).items():
        if not all(map(str.strip, words)):
            raise UserError(f"{source}: log.reflection.{name} holds an empty word; leave it out")
    check_tasks(config, source)
    _check_best(config, source)
    _check_credit(config, source)
    _check_objective(config, source)


def _check_group_size(config: RunConfig, source: str) -> None:
    """One rollout a prompt has no variance: only what compares it with the batch or with a critic learns from it."""
    if config.group_size > 1:
        return
    needs = (
        ("advantage.kind", config.advantage.kind, ("reinforce++", "gae")),
        ("allocation.kind", config.allocation.kind, ("fixed",)),
        ("replay.kind", config.replay.kind, ("none",)),
    )
    for name, value, alone in needs:
        if value not in alone:
            what = "a group needs at least 2 rollouts to have variance"
            raise UserError(
                f"{source}: group_size is 1 with {name} {value}; {what}; set group_size=2 or more, or {name}={alone[0]}"
            )
    if config.curriculum.kind == "mopps" or config.curriculum.drop_solved or config.curriculum.evict_at is not None:
        raise UserError(
            f"{source}: group_size is 1, and the curriculum judges prompts by the pass rate of their group; set "
            "group_size=2 or more"
        )


def _check_best(config: RunConfig, source: str) -> None:
    """A result that evaluations do give."""
    best, known, k = config.checkpoint.best, ["accuracy", "reward"], 1
    while k <= config.eval.samples:
        known.append(f"pass@{k}")
        k *= 2
    if best is None or best in known:
        return
    _, _, result = best.removeprefix("task/").partition("/")
    if not (best.startswith("task/") and result in known and best[5:].partition("/")[0] in config.tasks):
        raise UserError(f"{source}: checkpoint.best is {show(best)}; an evaluation gives {', '.join(known)}")


def _check_credit(config: RunConfig, source: str) -> None:
    """Reward, advantage and critic against each other."""
    reward, advantage, critic = config.reward, config.advantage, config.critic
    if reward.function is not None and reward.functions:
        raise UserError(f"{source}: reward.function and reward.functions are both set; keep one")
    if reward.overlong_buffer is not None and reward.overlong_share is not None:
        raise UserError(f"{source}: reward.overlong_buffer and reward.overlong_share are both set; keep one")
    longest = config.sampling.max_completion_length
    if reward.overlong_buffer is not None and reward.overlong_buffer > longest:
        raise UserError(
            f"{source}: reward.overlong_buffer is {reward.overlong_buffer}; "
            f"at most sampling.max_completion_length ({longest})"
        )
    if advantage.kl_in_reward > 0 and advantage.kind in ("group", "reinforce++-baseline"):
        raise UserError(
            f"{source}: advantage.kl_in_reward is read by rloo, reinforce++ and gae, not by advantage.kind "
            f"{advantage.kind}; set objective.kl_coef for a KL term in the loss"
        )
    if advantage.kind == "gae" and critic.kind == "none":
        raise UserError(f"{source}: advantage.kind is gae without a critic; set critic.kind=model")
    if advantage.kind != "gae" and critic.kind != "none":
        raise UserError(
            f"{source}: critic.kind is {critic.kind}, but advantage.kind {advantage.kind} reads no values; "
            "set critic.kind=none"
        )


def _check_replay(config: RunConfig, source: str) -> None:
    """Kinds of replay that some other part leaves nothing to do, or would be misread by."""
    replay = config.replay
    if replay.kind in ("recent", "hybrid") and replay.min_age > 1:
        _check_stale(config, source)
    if replay.kind == "success" and config.allocation.kind != "fixed":
        raise UserError(
            f"{source}: replay.kind is success with allocation.kind {config.allocation.kind}, which drops the groups "
            "it mends; set allocation.kind=fixed"
        )
    if replay.kind != "rollouts":
        return
    if replay.capacity_batches is not None:
        raise UserError(f"{source}: replay.capacity_batches is for groups; set replay.capacity, in rollouts")
    advantage = config.advantage
    alone = {"group": advantage.scale != "batch", "rloo": advantage.kl_in_reward == 0}
    if replay.composition == "pool" and not alone.get(advantage.kind, False):
        raise UserError(
            f"{source}: replay.composition is pool, which needs advantages before the batch is made, with "
            f"advantage.kind {advantage.kind} over the batch or with its log-probs; set advantage.kind=group and "
            "advantage.scale=std"
        )
    if replay.entries == "rollouts" and config.objective.reduction == "prompt":
        raise UserError(
            f"{source}: objective.reduction is prompt, which gives a single replayed rollout the weight of a group; "
            "set objective.reduction=token or replay.entries=groups"
        )


def _check_stale(config: RunConfig, source: str) -> None:
    """Groups that may be drawn once they are old must still be there then."""
    replay, prompts = config.replay, config.prompts_per_step
    least = (replay.min_age - 1) * prompts + 1
    if replay.capacity is not None and replay.capacity < least:
        raise UserError(
            f"{source}: replay.capacity is {replay.capacity} groups, and steps of {prompts} push a group out before "
            f"replay.min_age {replay.min_age}; at least {least}"
        )
    if replay.capacity_batches is not None and replay.capacity_batches < replay.min_age:
        raise UserError(
            f"{source}: replay.capacity_batches is {replay.capacity_batches}, and a group is pushed out before "
            f"replay.min_age {replay.min_age}; at least {replay.min_age}"
        )


def _check_objective(config: RunConfig, source: str) -> None:
    objective = config.objective
    if objective.behaviour_weight and objective.kind in ("clipped", "behaviour"):
        raise UserError(
            f"{source}: objective.behaviour_weight is for sequence and cispo, not for objective.kind {objective.kind}; "
            "set objective.kind=decoupled"
        )
    weighted = objective.kind == "decoupled" or objective.behaviour_weight
    if objective.weight_level == "sequence" and not weighted:
        kind = objective.kind
        wanted = "behaviour_weight=true" if kind in ("sequence", "cispo") else "kind=decoupled"
        raise UserError(
            f"{source}: objective.weight_level is sequence, but objective.kind {kind} has no weight; "
            f"set objective.{wanted}"
        )
    if objective.kind == "cispo" and objective.dual_clip is not None:
        raise UserError(
            f"{source}: objective.dual_clip is {objective.dual_clip}; objective.kind cispo has none, "
            "set objective.dual_clip=null"
        )


def _check_pilot(config: RunConfig, source: str) -> None:
    """Settings under which no prompt could ever be piloted and committed."""
    allocation, pilot = config.allocation, config.allocation.pilot
    pilots = pilot_rollouts(pilot.rollouts, pilot.share, config.group_size)
    if pilots >= config.group_size:
        raise UserError(
            f"{source}: {pilots} pilot rollouts with group_size {config.group_size} leave none to commit; "
            f"set group_size={pilots + 1} or more"
        )
    if pilot.train_on == "commit" and config.group_size - pilots < 2:
        raise UserError(
            f"{source}: allocation.pilot.train_on is commit, and {pilots} pilot rollouts leave one of group_size "
            f"{config.group_size}; set group_size={pilots + 2} or more"
        )
    if not accepted(pilots, pilot.p_lower, pilot.p_upper):
        raise UserError(
            f"{source}: no pass rate of {pilots} pilot rollouts is within allocation.pilot.p_lower {pilot.p_lower} "
            f"and p_upper {pilot.p_upper}; widen the band, as 0.125 and 0.75"
        )
    if allocation.max_rounds < 2:
        raise UserError(
            f"{source}: allocation.max_rounds is {allocation.max_rounds}; at least 2, to pilot and then to commit"
        )
    prompts = pilot_prompts(pilot.prompts, config.prompts_per_step)
    step = prompts * pilots + config.prompts_per_step * (config.group_size - pilots)
    if allocation.max_rollouts is not None and allocation.max_rollouts < step:
        raise UserError(
            f"{source}: allocation.max_rollouts is {allocation.max_rollouts}; at least {step}, the pilots and commits "
            "of one step"
        )
