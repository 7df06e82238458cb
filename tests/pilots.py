"""Hand-made data, verdicts and steps for tests of the pilot allocation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rollwise.allocation.base import Prompts
from rollwise.allocation.bounds import Bounds
from rollwise.allocation.buffer import PilotBuffer
from rollwise.allocation.pilot import Pilot
from rollwise.records import (
    Group,
    Outcome,
    Prompt,
    Purpose,
    Request,
    Rollout,
    Sampling,
    Settled,
    StopReason,
    Verdict,
    VerdictKind,
)

IDS = np.array([1, 2], dtype=np.int32)
LOGP = np.array([-0.5, -0.25], dtype=np.float32)
Judge = Callable[[Prompt, int], str]  # (prompt, member) -> "right", "wrong" or "none"


class Numbers:
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Prompt:
        return Prompt(uid=f"n:{index}", text=str(index))


def member(prompt: Prompt, i: int, found: str, step: int) -> Rollout:
    kind = {"right": VerdictKind.correct, "wrong": VerdictKind.wrong, "none": VerdictKind.infra_error}[found]
    score = float(found == "right")
    return Rollout(
        group_uid=prompt.group_uid,
        member=i,
        prompt_ids=IDS,
        completion_ids=IDS,
        logprobs=LOGP,
        sampling=Sampling(),
        stop=StopReason.eos,
        text="",
        birth_step=step,
        verdict=Verdict(kind=kind, score=score),
        reward=float("nan") if found == "none" else score,
    )


def answered(requests: Sequence[Request], judge: Judge, step: int) -> list[Group]:
    return [
        Group(
            uid=r.prompt.group_uid,
            prompt=r.prompt,
            rollouts=tuple(
                member(r.prompt, m, judge(r.prompt, m), step) for m in range(r.first_member, r.first_member + r.count)
            ),
            purpose=r.purpose,
        )
        for r in requests
    ]


def pilot(**settings_: Any) -> Pilot:
    over = {
        "prompts": 2, "group_size": 6, "pilot_prompts": 5, "pilot_rollouts": 2, "p_lower": 0.125, "p_upper": 0.75,
        "train_on": "group",
        "max_rounds": 10, "max_rollouts": None, "on_limit": "partial",
        "capacity": None, "max_age": 4, "pick": "random", "seed": 0, **settings_,
    }  # fmt: skip
    bounds = Bounds(**{k: over.pop(k) for k in ("max_rounds", "max_rollouts", "on_limit")})
    buffer = PilotBuffer(**{k: over.pop(k) for k in ("capacity", "max_age", "pick", "seed")})
    return Pilot(**over, buffer=buffer, bounds=bounds)


def mixed(prompt: Prompt, i: int) -> str:
    return "right" if i % 2 else "wrong"


def all_of(found: str) -> Judge:
    return lambda prompt, i: found


def one_step(
    allocation: Pilot, source: Prompts, judge: Judge, step: int, room: int = 10**9
) -> tuple[list[list[Request]], Settled]:
    rounds = []
    while requests := allocation.plan(source, room):
        rounds.append(requests)
        room -= sum(r.count for r in requests)
        allocation.observe(answered(requests, judge, step))
    return rounds, allocation.settle()


def of(requests: Sequence[Request], purpose: Purpose) -> list[Request]:
    return [r for r in requests if r.purpose is purpose]


def rollouts(requests: Sequence[Request]) -> int:
    return sum(r.count for r in requests)


def lost(settled: Settled, outcome: Outcome) -> list[Group]:
    return [g for o, g in settled.outcomes if o is outcome]
