"""Hand-made records for tests of single parts."""

from __future__ import annotations

import numpy as np

from rollwise.records import Group, Prompt, Rollout, Sampling, StopReason, Verdict, VerdictKind


def group(uid: int, *, alive: bool = True, step: int = 1) -> Group:
    """A group of two: one right and one wrong, or two of equal reward."""
    rewards = (1.0, 0.0) if alive else (0.1, 0.1)

    def member(i: int, reward: float) -> Rollout:
        kind = VerdictKind.correct if reward == 1 else VerdictKind.wrong
        return Rollout(
            group_uid=str(uid),
            member=i,
            prompt_ids=np.array([1, 2], dtype=np.int32),
            completion_ids=np.array([3, uid], dtype=np.int32),
            logprobs=np.array([-0.5, -0.25], dtype=np.float32),
            sampling=Sampling(),
            stop=StopReason.eos,
            text="",
            birth_step=step,
            verdict=Verdict(kind=kind, score=reward),
            reward=reward,
        )

    return Group(
        uid=str(uid), prompt=Prompt(uid=str(uid), text="x"), rollouts=tuple(member(i, r) for i, r in enumerate(rewards))
    )
