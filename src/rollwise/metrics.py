"""Numbers of one step, made from its records. TRL's short names where it has one."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rollwise.records import Batch, Group, Placed, Purpose, Role, StopReason, mean

PER_TASK = ("reward", "accuracy", "frac_reward_zero_std", "mean_length", "rollouts", "tokens")
SOURCES = 12  # of one data set that have numbers of their own
UNFIT = re.compile(r"[^A-Za-z0-9_.-]")
LONGEST_NAME = 60


def asked(groups: Sequence[Group]) -> list[Group]:
    """The groups of a step as far as its prompts were first asked in it: those generated whole, and pilots, each as one
    group with the commit that followed it in the same step. A commit to a pilot of an earlier step is in none: its
    prompt was chosen for a mixed pilot, and says nothing of how many prompts are mixed."""
    commits = {g.uid: g for g in groups if g.purpose is Purpose.commit}
    return [
        dataclasses.replace(g, rollouts=(*g.rollouts, *commits[g.uid].rollouts)) if g.uid in commits else g
        for g in groups
        if g.purpose is not Purpose.commit
    ]


def of_groups(groups: Sequence[Group]) -> dict[str, float]:
    """Of the fresh groups of a step, before replay. reward, accuracy, completions/*, verifier/infra_error and entropy
    are over all rollouts generated in it; reward and accuracy over those with a verdict, NaN where none has one.
    reward_std, frac_reward_zero_std, dead/* and informative* are over the groups
    `asked` in it; 0 where there are none.

    These speak of reward variance whatever estimates the advantages: REINFORCE++ and a critic
    can learn from a group without it, which the ledger then counts as trained.

    `entropy` is the mean of -log p over the sampled tokens: an unbiased estimate under the sampling distribution.
    `informative_accuracy` is the share of groups with both right and wrong members: with a shaped reward a group can
    have reward variance and no right answer.
    """
    members = [r for g in groups for r in g.rollouts]
    scored = [r for r in members if r.scored]
    first = asked(groups)
    dead = [g for g in first if not g.informative]
    tokens = sum(r.length for r in members)
    return {
        "reward": mean([r.reward for r in scored]) if scored or not members else math.nan,
        "reward_std": mean([_std(g.scored_rewards()) for g in first]),
        "accuracy": mean([float(r.correct) for r in scored]) if scored or not members else math.nan,
        "frac_reward_zero_std": _share(len(dead), len(first)),
        "dead/all_right": _share(sum(g.pass_rate == 1 for g in dead), len(first)),
        "dead/all_wrong": _share(sum(g.pass_rate < 1 for g in dead), len(first)),
        "dead/unjudged": _share(sum(math.isnan(g.pass_rate) for g in dead), len(first)),
        "informative": _share(len(first) - len(dead), len(first)),
        "informative_accuracy": _share(sum(0 < g.pass_rate < 1 for g in first), len(first)),
        "completions/mean_length": mean([float(r.length) for r in members]),
        "completions/clipped_ratio": mean([float(r.stop is StopReason.length) for r in members]),
        "verifier/infra_error": _share(len(members) - len(scored), len(members)),
        "entropy": -sum(float(r.logprobs.sum()) for r in members) / tokens if tokens else 0.0,
    }


def by_source(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """The groups of each source that rows of one data set name (`data_source`, else the verifier that judges them), the
    commonest first, at most SOURCES of them; empty where there is one only. Names are made fit to stand in a key."""
    named = [(_source(g.prompt.meta), g) for g in groups]
    counts = Counter(name for name, _ in named)
    if len(counts) < 2:
        return {}
    ordered = sorted(counts, key=lambda name: (-counts[name], name))[:SOURCES]
    return {name: [g for own, g in named if own == name] for name in ordered}


def _source(meta: Mapping[str, Any]) -> str:
    name = meta.get("data_source")
    text = name if isinstance(name, str) and name.strip() else str(meta.get("verifier", ""))
    return UNFIT.sub("_", text.strip())[:LONGEST_NAME] or "other"


def of_tasks(groups: Sequence[Group], tasks: Sequence[str]) -> dict[str, float]:
    """task/<name>/... of the fresh groups of each task that has any. Rollouts and tokens are those generated in this
    step: over the tasks and steps they add up to the ledger's. Without `tasks` those of each source, if several."""
    out: dict[str, float] = {}
    parts = {task: [g for g in groups if g.prompt.task == task] for task in tasks} if tasks else by_source(groups)
    for task, own in parts.items():
        if not own:
            continue
        of = of_groups(own)
        of["mean_length"] = of["completions/mean_length"]
        of["rollouts"] = float(sum(g.size for g in own))
        of["tokens"] = float(sum(g.tokens for g in own))
        out |= {f"task/{task}/{name}": of[name] for name in PER_TASK}
    return out


UNJUDGED = 0.1  # share of the rollouts without a verdict from which a step says so


def unjudged(groups: Sequence[Group]) -> str:
    """How many rollouts have no verdict, and the first reason; empty below a share of UNJUDGED."""
    members = [r for g in groups for r in g.rollouts]
    without = [r for r in members if not r.scored]
    if not without or len(without) < UNJUDGED * len(members):
        return ""
    detail = without[0].verdict.detail if without[0].verdict else ""
    told = f"verifier gave no verdict for {len(without):,} of {len(members):,} rollouts"
    return f"{told}: {detail}" if detail else told


def of_batch(placed: Sequence[Placed], batch: Batch, wanted: int) -> dict[str, float]:
    """Of the composed batch. replay/share is over its rows; replay/filled is the share of the `wanted` groups of a full
    batch that have reward variance. slots_empty counts the wanted groups that the step's own left open, slots_filled
    those of them that took a replayed group with variance. replay/groups counts seats, a single replayed rollout as
    one; single rollouts fill no slot."""
    old = [p for p in placed if p.role is Role.replay]
    replayed = sum(r.role is Role.replay for r in batch.rows)
    alive = [p for p in placed if p.group.informative]
    empty = max(0, wanted - sum(p.role is not Role.replay for p in alive))
    return {
        "batch/groups": float(len(placed)),
        "replay/groups": float(len(old)),
        "replay/rollouts": float(replayed),
        "replay/share": _share(replayed, len(batch.rows)),
        "replay/filled": _share(len(alive), wanted),
        "replay/slots_empty": float(empty),
        "replay/slots_filled": float(min(empty, sum(p.role is Role.replay for p in alive))),
        "replay/age_mean": mean([float(p.age) for p in old]),
        "replay/age_max": float(max((p.age for p in old), default=0)),
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _std(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    centre = sum(values) / len(values)
    return math.sqrt(sum((v - centre) ** 2 for v in values) / (len(values) - 1))
