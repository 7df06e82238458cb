"""A run's settings: typed sections, one YAML file, dotted overrides, and errors that name the key.

Layers, later over earlier: the defaults below, the starter's recipe (only with `model: starter`), the method's
defaults, the user's file, `--set a.b=c`. Unknown keys, wrong types and impossible values raise `UserError` with the key
and what would be right. Imports neither torch nor numpy.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rollwise.errors import UserError, nearest


def key(default: Any, doc: str, *, ge: float | None = None, gt: float | None = None, le: float | None = None) -> Any:
    """A config field with its explanation and its bounds."""
    meta = {"doc": doc, "ge": ge, "gt": gt, "le": le}
    if isinstance(default, dict | list):
        return field(default_factory=lambda: type(default)(default), metadata=meta)
    return field(default=default, metadata=meta)


@dataclass(slots=True, kw_only=True)
class BudgetConfig:
    rollouts: int | None = key(None, "stop before more than this many rollouts are generated for training", gt=0)
    tokens: int | None = key(None, "stop after the round that reaches this many generated completion tokens", gt=0)
    steps: int | None = key(None, "stop after this many steps", gt=0)
    seconds: float | None = key(None, "stop after the step in which this much time has passed", gt=0)


@dataclass(slots=True, kw_only=True)
class SamplingConfig:
    temperature: float = key(1.0, "softmax temperature of training rollouts", gt=0)
    top_p: float = key(1.0, "nucleus mass; 1 keeps the whole distribution", gt=0, le=1)
    max_prompt_length: int = key(1024, "prompt tokens; a longer prompt is an error, never cut", gt=0)
    max_completion_length: int = key(1024, "completion tokens, the end token included", gt=0)
    max_rows: int = key(512, "rollouts generated side by side in one call; bounds the KV cache", gt=0)


@dataclass(slots=True, kw_only=True)
class CurriculumConfig:
    kind: Literal["uniform"] = key("uniform", "which prompts are drawn")


@dataclass(slots=True, kw_only=True)
class AllocationConfig:
    kind: Literal["fixed", "dynamic"] = key("fixed", "how many rollouts, and when: one round, or rounds until full")
    max_rounds: int = key(10, "dynamic: generation rounds a step may take", gt=0)
    max_rollouts: int | None = key(None, "dynamic: rollouts a step may take; null leaves it to max_rounds", gt=0)
    on_limit: Literal["partial", "replay", "stop"] = key(
        "partial", "dynamic, limit reached: train on what was found, leave the gap to replay, or end the run"
    )
    surplus: Literal["drop", "carry"] = key("drop", "dynamic: informative groups beyond the batch")


@dataclass(slots=True, kw_only=True)
class ReplayConfig:
    kind: Literal["none", "filter", "recent"] = key(
        "none", "none: the batch as generated; filter: without dead groups; recent: dead groups replaced from a FIFO"
    )
    capacity: int | None = key(None, "groups stored; null: capacity_batches x prompts_per_step", gt=0)
    capacity_batches: int | None = key(None, "batches stored; null: min_age + 8 if min_age else 1", gt=0)
    admit: Literal["informative", "any"] = key("informative", "which fresh groups are stored, and which may be drawn")
    order: Literal["newest", "kl"] = key("newest", "draw the newest first, or the nearest to the current policy by KL")
    min_age: int = key(0, "steps a stored group must have aged before it may be drawn", ge=0)
    max_age: int | None = key(None, "drop a stored group when it is older than this many steps", gt=0)
    max_uses: int | None = key(None, "drop a stored group once it was replayed this often", gt=0)
    short: Literal["keep", "drop"] = key("keep", "slots that cannot be filled: keep dead groups there, or shrink")


@dataclass(slots=True, kw_only=True)
class AdvantageConfig:
    kind: Literal["group"] = key("group", "reward minus the mean of its group")
    scale: Literal["std", "none"] = key("std", "divide by the group's standard deviation, or not")
    ddof: Literal[0, 1] = key(1, "standard deviation over N - ddof")
    eps: float = key(1e-6, "added to the standard deviation", ge=0)


@dataclass(slots=True, kw_only=True)
class ObjectiveConfig:
    kind: Literal["clipped", "decoupled", "behaviour"] = key(
        "clipped",
        "clipped: ratio to the proximal policy; decoupled: that times the weight prox/behaviour; "
        "behaviour: ratio to, and clip around, the behaviour policy",
    )
    clip_low: float = key(0.2, "ratio is clipped below at 1 - clip_low", ge=0, le=1)
    clip_high: float = key(0.28, "ratio is clipped above at 1 + clip_high", ge=0)
    dual_clip: float | None = key(10.0, "bound on the loss of a negative advantage, in units of it; null: off", gt=1)
    weight_cap: float | None = key(None, "decoupled: upper bound on the weight; null: none", gt=0)
    weight_over_cap: Literal["clamp", "mask"] = key("clamp", "decoupled: tokens above the cap are clamped or removed")
    reduction: Literal["token", "sequence", "prompt", "constant"] = key(
        "token",
        "token: mean over tokens; sequence: of per-rollout means; prompt: of per-group token means; "
        "constant: sum / (rollouts x max_completion_length)",
    )
    kl_coef: float = key(0.0, "weight of KL(policy || frozen start model), k3 estimator", ge=0)
    entropy_coef: float = key(0.0, "weight of the entropy bonus", ge=0)


@dataclass(slots=True, kw_only=True)
class LearnerConfig:
    lr: float = key(1e-6, "AdamW learning rate", gt=0)
    beta1: float = key(0.9, "AdamW", ge=0, le=1)
    beta2: float = key(0.999, "AdamW", ge=0, le=1)
    eps: float = key(1e-8, "AdamW", gt=0)
    weight_decay: float = key(0.0, "AdamW, decoupled", ge=0)
    warmup_updates: int = key(0, "linear warm-up, counted in optimizer updates", ge=0)
    schedule: Literal["constant", "linear", "cosine"] = key("constant", "after the warm-up, counted in updates")
    schedule_updates: int | None = key(None, "updates at which linear and cosine reach zero; needed by both", gt=0)
    max_grad_norm: float | None = key(1.0, "clip the gradient norm; null: off", gt=0)
    updates_per_batch: int = key(1, "mini-batches a step's batch is split into, one optimizer update each", gt=0)
    epochs: int = key(1, "passes over a step's batch", gt=0)
    micro_batch_tokens: int = key(8192, "padded tokens in one forward pass; does not change the gradient", gt=0)
    logit_budget: int = key(2**25, "logits (tokens x vocabulary) held at once by the log-prob computation", gt=0)


@dataclass(slots=True, kw_only=True)
class EvalConfig:
    every: int | None = key(10, "evaluate after every so many steps; null: only at start and end", gt=0)
    every_rollouts: int | None = key(None, "also after the step that crosses each multiple of this", gt=0)
    prompts: int = key(512, "held-out prompts", gt=0)
    samples: int = key(1, "completions per prompt", gt=0)
    temperature: float = key(1.0, "0 is greedy", ge=0)
    top_p: float = key(1.0, "nucleus mass", gt=0, le=1)
    seed: int = key(
        0, "seed of the evaluation samples; apart from the run's seed, so that runs are compared alike", ge=0
    )


@dataclass(slots=True, kw_only=True)
class CheckpointConfig:
    every: int | None = key(None, "save after every so many steps; null: only at the end", gt=0)
    keep: int = key(2, "newest checkpoints kept", gt=0)


@dataclass(slots=True, kw_only=True)
class LogConfig:
    rollouts: bool = key(False, "write every group, with texts and verdicts, to rollouts.jsonl")
    report: bool = key(True, "write report.html at the end of the run")


@dataclass(slots=True, kw_only=True)
class RunConfig:
    method: str = key("grpo", "a name from `rollwise methods`")
    task: str = key("sort_digits", "what is trained on")
    task_args: dict[str, Any] = key({}, "the task's own settings")  # noqa: RUF009
    model: str = key("starter", "a folder or hub name of a causal language model; starter: the bundled one of the task")
    output: str | None = key(None, "run folder; null: runs/<task>-<method>-seed<seed>")
    seed: int = key(0, "every random number of the run derives from it", ge=0)
    threads: int = key(1, "CPU threads; more than 1 pays only on idle cores", gt=0)
    device: str = key("cpu", "cpu, cuda, cuda:N or mps")
    dtype: Literal["float32", "bfloat16"] = key("float32", "precision of matrix products; weights stay float32")
    prompts_per_step: int = key(32, "groups a batch is meant to hold", gt=0)
    group_size: int = key(8, "rollouts per prompt", gt=0)
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    allocation: AllocationConfig = field(default_factory=AllocationConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    advantage: AdvantageConfig = field(default_factory=AdvantageConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    log: LogConfig = field(default_factory=LogConfig)


# Names that users of other trainers type, and ours. Only whole-key synonyms: same meaning, same unit.
ALIASES = {
    "num_generations": "group_size",
    "rollout.n": "group_size",
    "max_completion_length": "sampling.max_completion_length",
    "max_prompt_length": "sampling.max_prompt_length",
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "learning_rate": "learner.lr",
    "epsilon": "objective.clip_low",
    "epsilon_high": "objective.clip_high",
    "clip_low": "objective.clip_low",
    "clip_high": "objective.clip_high",
    "beta": "objective.kl_coef",
    "kl_coef": "objective.kl_coef",
    "max_grad_norm": "learner.max_grad_norm",
}

Tree = dict[str, Any]


def read_yaml(path: Path) -> Tree:
    """A recipe file as a nested mapping."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({_reason(error)}); give a YAML file") from None
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        where = getattr(error, "problem_mark", None)
        at = f" line {where.line + 1}" if where else ""
        raise UserError(f"{path}{at}: not valid YAML ({getattr(error, 'problem', None) or 'unreadable'})") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise UserError(f"{path}: holds a {type(data).__name__}; a recipe is a mapping of keys to values")
    return data


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def parse_override(text: str) -> Tree:
    """`a.b=c` as a nested mapping; the value is read as YAML."""
    import yaml

    name, sep, value = text.partition("=")
    if not sep or not name.strip():
        raise UserError(f"--set {text}: give it as key=value, for example --set learner.lr=1e-5")
    try:
        parsed = yaml.safe_load(value)
    except (yaml.YAMLError, RecursionError, ValueError):
        raise UserError(f"--set {text}: the value is not valid YAML") from None
    return nest(name.strip(), parsed)


def nest(dotted: str, value: Any) -> Tree:
    """`nest('a.b', 1)` is `{'a': {'b': 1}}`; aliases are translated."""
    tree: Any = value
    for part in reversed(ALIASES.get(dotted, dotted).split(".")):
        tree = {part: tree}
    return typing.cast(Tree, tree)


def merge(base: Tree, over: Tree) -> Tree:
    """`over` laid on `base`, mapping by mapping; neither is changed."""
    out = dict(base)
    for name, value in over.items():
        here = out.get(name)
        out[name] = merge(here, value) if isinstance(here, dict) and isinstance(value, dict) else value
    return out


def expand_aliases(tree: Tree, source: str) -> Tree:
    """Top-level synonyms and dotted keys of a file turned into our nested keys."""
    out: Tree = {}
    known = {f.name for f in dataclasses.fields(RunConfig)}
    for name, value in tree.items():
        if not isinstance(name, str):
            raise UserError(f"{source}: key {name!r} is not text; {nearest(str(name), known)}")
        if name in ALIASES or "." in name:
            nested = nest(name, value)
        elif name == "rollout" and isinstance(value, dict) and set(value) == {"n"}:
            nested = nest("rollout.n", value["n"])
        else:
            nested = {name: value}
        clash = _first_clash(out, nested)
        if clash:
            raise UserError(f"{source}: '{clash}' is given twice; keep one of the two")
        out = merge(out, nested)
    return out


def _first_clash(a: Tree, b: Tree, prefix: str = "") -> str | None:
    for name in a.keys() & b.keys():
        if isinstance(a[name], dict) and isinstance(b[name], dict):
            found = _first_clash(a[name], b[name], f"{prefix}{name}.")
            if found:
                return found
        else:
            return f"{prefix}{name}"
    return None


def build(tree: Mapping[str, Any], source: str = "config", *, together: bool = True) -> RunConfig:
    """The typed config of a nested mapping. Raises UserError naming the first key that is wrong; `together` also
    checks settings against each other, which only a complete config can pass."""
    config: RunConfig = _build(RunConfig, tree, "", source)
    if together:
        _check_together(config, source)
    return config


def _build(cls: type, tree: Any, prefix: str, source: str) -> Any:
    if not isinstance(tree, Mapping):
        raise UserError(f"{source}: '{prefix[:-1]}' is {_show(tree)}; it is a section of keys")
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    values: Tree = {}
    for name, value in tree.items():
        if name not in fields:
            raise UserError(f"{source}: unknown key '{prefix}{name}'; {nearest(str(name), fields)}")
        if dataclasses.is_dataclass(hints[name]):
            values[name] = _build(typing.cast(type, hints[name]), value, f"{prefix}{name}.", source)
        else:
            values[name] = _convert(value, hints[name], fields[name].metadata, f"{prefix}{name}", source)
    return cls(**values)


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _convert(value: Any, hint: Any, meta: Mapping[str, Any], name: str, source: str) -> Any:
    """`value` as the type of its field, bounds checked."""
    optional = typing.get_origin(hint) is types.UnionType
    options = [a for a in typing.get_args(hint) if a is not type(None)] if optional else [hint]
    if value is None and optional:
        return None
    want = options[0]
    if typing.get_origin(want) is Literal:
        allowed = typing.get_args(want)
        if value not in allowed or isinstance(value, bool):
            shown = ", ".join(map(str, allowed))
            raise UserError(f"{source}: {name} is {_show(value)}; one of {shown}")
        return value
    base = typing.get_origin(want) or want
    if base is float and isinstance(value, str):  # YAML 1.1 reads 1e-5 as text
        with contextlib.suppress(ValueError):
            value = float(value)
    if base is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if base is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, base) or (isinstance(value, bool) and base is not bool):
        kinds = {int: "a whole number", float: "a number", str: "text", bool: "true or false", dict: "a mapping"}
        null = " or null" if optional else ""
        raise UserError(f"{source}: {name} is {_show(value)}; it is {kinds[base]}{null}")
    if base in (int, float):
        _check_bounds(value, meta, name, source)
    return value


def _check_bounds(value: float, meta: Mapping[str, Any], name: str, source: str) -> None:
    if not math.isfinite(value):
        raise UserError(f"{source}: {name} is {value}; a finite number")
    for bound, holds, words in (
        ("gt", lambda v, b: v > b, "above"),
        ("ge", lambda v, b: v >= b, "at least"),
        ("le", lambda v, b: v <= b, "at most"),
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
    if learner.schedule != "constant" and learner.schedule_updates is None:
        raise UserError(f"{source}: learner.schedule is {learner.schedule}; give learner.schedule_updates as well")
    if learner.schedule_updates is not None and learner.schedule_updates <= learner.warmup_updates:
        raise UserError(
            f"{source}: learner.schedule_updates is {learner.schedule_updates}; above learner.warmup_updates"
        )
    if config.group_size < 2:
        raise UserError(
            f"{source}: group_size is {config.group_size}; a group needs at least 2 rollouts to have variance"
        )
    if replay.capacity is not None and replay.capacity_batches is not None:
        raise UserError(f"{source}: replay.capacity and replay.capacity_batches are both set; keep one")
    if replay.max_age is not None and replay.max_age < replay.min_age:
        raise UserError(f"{source}: replay.max_age is {replay.max_age}; at least replay.min_age ({replay.min_age})")
    if allocation.on_limit == "replay" and replay.kind != "recent":
        raise UserError(
            f"{source}: allocation.on_limit is replay with replay.kind {replay.kind}; set replay.kind=recent"
        )
    if allocation.max_rollouts is not None and allocation.max_rollouts < config.group_size:
        raise UserError(
            f"{source}: allocation.max_rollouts is {allocation.max_rollouts}; at least group_size ({config.group_size})"
        )
    per_round = config.prompts_per_step * config.group_size
    smallest = config.group_size if allocation.kind == "dynamic" else per_round
    if config.budget.rollouts is not None and config.budget.rollouts < smallest:
        raise UserError(f"{source}: budget.rollouts is {config.budget.rollouts}; the first step needs {smallest}")
    if config.task_args and not all(isinstance(k, str) for k in config.task_args):
        raise UserError(f"{source}: task_args has a key that is not text")


def to_tree(config: RunConfig) -> Tree:
    """The config as a nested mapping, every key present. `build(to_tree(c)) == c`."""
    return dataclasses.asdict(config)


def dump_yaml(config: RunConfig) -> str:
    import yaml

    return yaml.safe_dump(to_tree(config), sort_keys=False, allow_unicode=True)


def leaves(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{'a': {'b': 1}}` as `{'a.b': 1}`."""
    out: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping) and value and name != "task_args":
            out.update(leaves(value, f"{prefix}{name}."))
        else:
            out[f"{prefix}{name}"] = value
    return out
