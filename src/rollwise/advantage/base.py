"""The contract of an advantage estimator, and how it finds the members it must judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from rollwise.records import Credit, Placed, Rollout


class Signals(Protocol):
    """What the learner can say of the rollouts of a batch, seat by seat and member by member. Computed when asked."""

    def logprobs(self) -> list[np.ndarray]:
        """Under the proximal policy, float32 [T] each."""
        ...

    def reference_logprobs(self) -> list[np.ndarray]:
        """Under the frozen reference, float32 [T] each. Needs one."""
        ...

    def values(self) -> list[np.ndarray]:
        """The critic's value before each completion token, float32 [T] each. Needs a critic."""
        ...


class Estimator(Protocol):
    """Credit of every member of every seat of a batch. A pure function of its arguments."""

    def __call__(self, placed: Sequence[Placed], signals: Signals) -> list[tuple[Credit, ...]]: ...


def to_judge(placed: Sequence[Placed]) -> list[list[tuple[int, Rollout]]]:
    """Seat by seat, the members to be judged with their places in the signals: those with a verdict, in seats whose
    credits were not frozen at birth."""
    out, place = [], 0
    for seat in placed:
        numbered = list(enumerate(seat.group.rollouts, place))
        out.append([(i, r) for i, r in numbered if r.scored and seat.credits is None])
        place += len(numbered)
    return out


def seated(placed: Sequence[Placed], found: Mapping[int, Credit]) -> list[tuple[Credit, ...]]:
    """Credits seat by seat from credits by place: frozen ones as they are, advantage 0 where none was found."""
    out, place, none = [], 0, Credit(advantage=0.0)
    for seat in placed:
        places = range(place, place + seat.group.size)
        out.append(seat.credits or tuple(found.get(i, none) for i in places))
        place += seat.group.size
    return out
