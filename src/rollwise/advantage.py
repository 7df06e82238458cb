"""Advantages of a group's members from their rewards. Pure functions in double precision, no torch.

Only scored members enter the statistics; a member whose verifier failed gets advantage 0 and is not trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from rollwise.records import INFORMATIVE_TOL, Group


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


def of_group(group: Group, *, scale: Literal["std", "none"], ddof: int, eps: float) -> list[float]:
    """Advantage of each member, 0 for members that were not scored. A function of the stored rewards only, so a
    replayed group has the advantages it had at birth."""
    rewards = group.scored_rewards()
    if not rewards:
        return [0.0] * group.size
    scored = iter(group_advantage(rewards, scale=scale, ddof=ddof, eps=eps).tolist())
    return [next(scored) if r.scored else 0.0 for r in group.rollouts]
