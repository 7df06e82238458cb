"""Data sets and verdicts made by hand, for tests of curricula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rollwise.records import Group, Prompt, Purpose, Rollout, Sampling, StopReason, Verdict, VerdictKind

KINDS = {"+": VerdictKind.correct, "-": VerdictKind.wrong, "?": VerdictKind.infra_error}


class Numbers:
    """A data set of numbered prompts."""

    def __init__(self, size: int, task: str = "n") -> None:
        self.size = size
        self.task = task

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Prompt:
        return Prompt(uid=f"{self.task}:{index}", text=str(index), task=self.task)


def judged(prompt: Prompt, marks: str, *, purpose: Purpose = Purpose.whole, rewards: Sequence[float] = ()) -> Group:
    """The prompt's group with a verdict for each mark: + correct, - wrong, ? none. Rewards follow unless given."""

    def member(i: int, mark: str) -> Rollout:
        reward = rewards[i] if rewards else float(mark == "+")
        return Rollout(
            group_uid=prompt.group_uid,
            member=i,
            prompt_ids=np.array([1], dtype=np.int32),
            completion_ids=np.full(i + 1, 3, dtype=np.int32),
            logprobs=np.full(i + 1, -0.5, dtype=np.float32),
            sampling=Sampling(),
            stop=StopReason.eos,
            text="",
            birth_step=1,
            verdict=Verdict(kind=KINDS[mark], score=reward),
            reward=reward,
        )

    rollouts = tuple(member(i, mark) for i, mark in enumerate(marks))
    return Group(uid=prompt.group_uid, prompt=prompt, rollouts=rollouts, purpose=purpose)


def same(a: Any, b: Any) -> bool:
    """Whether two saved states are equal, arrays and their types included."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return bool(a == b)
