"""Generalised advantage estimation (arXiv 1506.02438) from a critic's values: PPO's advantage.

Differs, or fills in: a completion cut at the length limit ends like any other, with value 0 after its last token.
Equal advantages are whitened to exactly 0. Replayed seats get the current critic's values on their stored rewards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rollwise.advantage.base import Signals, seated, to_judge
from rollwise.advantage.reinforce import at_the_end
from rollwise.advantage.tokens import discounted_sums, kl_penalties, whiten
from rollwise.records import Credit, Placed


def generalized_advantages(
    rewards: Sequence[np.ndarray], values: Sequence[np.ndarray], *, gamma: float, gae_lambda: float
) -> list[np.ndarray]:
    """`A_t = d_t + gamma lambda A_{t+1}` with `d_t = r_t + gamma V_{t+1} - V_t`, float64 [T] each, not whitened.

    rewards, values: of each token of each sequence, [T] each; the value is that before the token.
    """
    errors = [
        np.asarray(r, dtype=np.float64) + gamma * np.append(v[1:], np.zeros(min(1, len(v)))) - v
        for r, v in zip(rewards, values, strict=True)
    ]
    return discounted_sums(errors, gamma * gae_lambda)


class GeneralizedAdvantage:
    """Advantages of each token, whitened over the batch's tokens if asked for, and the returns a critic should predict:
    advantage before whitening plus value. The reward is at the last token, less `kl_in_reward` times the k1 estimate
    at each."""

    def __init__(self, *, gamma: float, gae_lambda: float, whiten: bool, kl_in_reward: float) -> None:
        self.gamma, self.gae_lambda, self.whiten, self.kl_in_reward = gamma, gae_lambda, whiten, kl_in_reward

    def __call__(self, placed: Sequence[Placed], signals: Signals) -> list[tuple[Credit, ...]]:
        members = [pair for seat in to_judge(placed) for pair in seat]
        lengths = [r.length for seat in placed for r in seat.group.rollouts]
        penalty = kl_penalties(signals, self.kl_in_reward, lengths)
        known = signals.values()
        values = [known[place] for place, _ in members]
        rewards = [at_the_end(r.reward, penalty[place]) for place, r in members]
        raw = generalized_advantages(
            rewards, [v.astype(np.float64) for v in values], gamma=self.gamma, gae_lambda=self.gae_lambda
        )
        shown = whiten(raw) if self.whiten else raw
        found = {
            place: Credit(advantage=a, returns=b + v, values=v)
            for (place, _), a, b, v in zip(members, shown, raw, values, strict=True)
        }
        return seated(placed, found)
