"""Advantages from rewards. Pure functions in double precision, no torch.

Only scored members enter the statistics; a member whose verifier failed gets advantage 0 and is not trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np

from rollwise.records import INFORMATIVE_TOL, Credit, Group, Placed


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


def group_advantage(
    reward_G: Sequence[float],
    *,
    scale: Literal["std", "none"] = "std",
    ddof: int = 1,
    eps: float = 1e-6,
) -> np.ndarray:
    """GRPO's advantage (arXiv 2402.03300, section 4.1.2), float64 [G]: `(r - mean) / (std + eps)`.

    `scale: none` leaves out the division (Dr. GRPO, arXiv 2503.20783). Rewards that differ by no more than 1e-6 give
    exactly 0. The variance is computed in two passes: in one pass `E[x^2] - E[x]^2` cancels.

    Raises ValueError for an empty group or a reward that is not finite.
    """
    reward = np.asarray(reward_G, dtype=np.float64)
    if reward.size == 0 or not np.isfinite(reward).all():
        raise ValueError(f"rewards of a group must be finite and not empty, got {list(reward_G)}")
    if reward.max() - reward.min() <= INFORMATIVE_TOL:
        return np.zeros_like(reward)
    centred = reward - reward.mean()
    if scale == "none":
        return centred  # type: ignore[no-any-return]
    std = np.sqrt((centred**2).sum() / (reward.size - ddof))
    return centred / (std + eps)  # type: ignore[no-any-return]


class GroupAdvantage:
    """Each seat on its own, from its stored rewards: a replayed group has the advantages it had at birth."""

    def __init__(self, *, scale: Literal["std", "none"], ddof: int, eps: float) -> None:
        self.scale, self.ddof, self.eps = scale, ddof, eps

    def __call__(self, placed: Sequence[Placed], signals: Signals) -> list[tuple[Credit, ...]]:
        return [tuple(Credit(advantage=a) for a in self._of(seat.group)) for seat in placed]

    def _of(self, group: Group) -> list[float]:
        """Advantage of each member, 0 for members that were not scored."""
        rewards = group.scored_rewards()
        if not rewards:
            return [0.0] * group.size
        scored = iter(group_advantage(rewards, scale=self.scale, ddof=self.ddof, eps=self.eps).tolist())
        return [next(scored) if r.scored else 0.0 for r in group.rollouts]
