"""What becomes of rollouts that were cut at max_completion_length, whatever estimates the advantages.

zero: advantage 0, and still counted in the loss's reduction (SRPO, arXiv 2504.14286). mask: left out of the loss and of
its reduction (overlong filtering, DAPO, arXiv 2503.14476, section 3.4). Ours: they stay in the statistics of their
group or batch, since the reward they got is a fact about the prompt; under `zero` a critic still learns from them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from rollwise.advantage.base import Estimator, Signals
from rollwise.records import Credit, Placed, Rollout, StopReason


class Overlong:
    """An estimator that passes on another's credits, but for those of cut rollouts."""

    def __init__(self, inner: Estimator, mode: Literal["zero", "mask"]) -> None:
        self.inner, self.mode = inner, mode

    def __call__(self, placed: Sequence[Placed], signals: Signals) -> list[tuple[Credit, ...]]:
        credits = self.inner(placed, signals)
        return [
            tuple(self._of(r, c) for r, c in zip(seat.group.rollouts, own, strict=True))
            for seat, own in zip(placed, credits, strict=True)
        ]

    def _of(self, rollout: Rollout, credit: Credit) -> Credit:
        if rollout.stop is not StopReason.length or not rollout.scored:
            return credit
        if self.mode == "mask":
            return Credit(advantage=0.0, counts=False)
        return dataclasses.replace(credit, advantage=0.0, cut=True)
