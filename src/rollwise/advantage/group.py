"""Advantages of a rollout relative to its group: GRPO, Dr. GRPO, LitePPO and RLOO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from rollwise.advantage.base import Signals, seated, to_judge
from rollwise.advantage.tokens import kl_penalties
from rollwise.records import INFORMATIVE_TOL, Credit, Placed


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


def leave_one_out(reward_G: Sequence[float]) -> np.ndarray:
    """RLOO's advantage (arXiv 2402.14740), float64 [G]: the reward minus the mean of the others'.

    Rewards that differ by no more than 1e-6 give exactly 0. Raises ValueError for a group of one, which has no others,
    and for a reward that is not finite.
    """
    size = len(reward_G)
    if size < 2:
        raise ValueError(f"leave-one-out needs a group of at least 2, got {size}")
    return group_advantage(reward_G, scale="none") * (size / (size - 1))


class GroupAdvantage:
    """GRPO's advantage of each seat from its stored rewards.

    scale std, none: each seat on its own, so a replayed group has the advantages it had at birth. batch: LitePPO
    (arXiv 2508.08221), `(r - mean of the group) / (std + eps)` with the deviation of all rewards of the batch; replayed
    seats take part in it.
    """

    def __init__(self, *, scale: Literal["std", "none", "batch"], ddof: int, eps: float) -> None:
        self.scale, self.ddof, self.eps = scale, ddof, eps

    def __call__(self, placed: Sequence[Placed], signals: Signals) -> list[tuple[Credit, ...]]:
        seats = [members for members in to_judge(placed) if members]
        own: Literal["std", "none"] = "std" if self.scale == "std" else "none"
        divisor = self._batch_divisor([r.reward for members in seats for _, r in members])
        found = {}
        for members in seats:
            rewards = [r.reward for _, r in members]
            for (place, _), a in zip(members, self._of(rewards, own), strict=True):
                found[place] = Credit(advantage=float(a) / divisor)
        return seated(placed, found)

    def _of(self, rewards: list[float], own: Literal["std", "none"]) -> np.ndarray:
        return group_advantage(rewards, scale=own, ddof=self.ddof, eps=self.eps)

    def _batch_divisor(self, rewards: list[float]) -> float:
        if self.scale != "batch" or len(rewards) < 2:
            return 1.0
        return float(np.std(np.asarray(rewards, dtype=np.float64), ddof=self.ddof)) + self.eps


class LeaveOneOut:
    """RLOO (arXiv 2402.14740): a rollout's reward minus the mean of the others of its seat.

    With `kl_in_reward` the reward is that of the paper, less `kl_in_reward` times the sum of the k1 estimates of its
    tokens; a group of equal scores can teach then. A seat of which failing verifiers left only one member gets 0.
    """

    def __init__(self, *, kl_in_reward: float) -> None:
        self.kl_in_reward = kl_in_reward

    def __call__(self, placed: Sequence[Placed], signals: Signals) -> list[tuple[Credit, ...]]:
        lengths = [r.length for seat in placed for r in seat.group.rollouts]
        penalty = kl_penalties(signals, self.kl_in_reward, lengths)
        found = {}
        for members in to_judge(placed):
            if len(members) < 2:
                continue
            rewards = [r.reward - float(penalty[place].sum()) for place, r in members]
            for (place, _), a in zip(members, leave_one_out(rewards).tolist(), strict=True):
                found[place] = Credit(advantage=a)
        return seated(placed, found)
