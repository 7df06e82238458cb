"""REINFORCE++ (arXiv 2501.03262): token returns, whitened over the batch; no group statistic, or only its mean.

Differs, or fills in: the variance is over N - 1 and equal returns give exactly 0. All seats of the batch take part in
the whitening, replayed ones too, unless their credits were frozen. Since whitening is over the batch, a group of equal
rewards gets advantages as well: it teaches the policy how that prompt compares with the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rollwise.advantage.base import Signals, seated, to_judge
from rollwise.advantage.group import group_advantage
from rollwise.advantage.tokens import discounted_sums, kl_penalties, whiten
from rollwise.records import Credit, Placed


class ReinforcePlusPlus:
    """Plain: the return of token t is `sum over s >= t of gamma^(s-t) (r_s - kl_in_reward k1_s)`, with the reward at
    the last token. With `baseline`: the reward minus its group's mean at every token, without discount or KL (the
    paper puts a KL term into the loss there).
    """

    def __init__(self, *, gamma: float, kl_in_reward: float, baseline: bool) -> None:
        self.gamma, self.kl_in_reward, self.baseline = gamma, kl_in_reward, baseline

    def __call__(self, placed: Sequence[Placed], signals: Signals) -> list[tuple[Credit, ...]]:
        seats = [members for members in to_judge(placed) if members]
        places = [place for members in seats for place, _ in members]
        if self.baseline:
            returns = [
                np.full(r.length, a)
                for members in seats
                for (_, r), a in zip(
                    members, group_advantage([r.reward for _, r in members], scale="none").tolist(), strict=True
                )
            ]
        else:
            lengths = [r.length for seat in placed for r in seat.group.rollouts]
            penalty = kl_penalties(signals, self.kl_in_reward, lengths)
            returns = discounted_sums(
                [at_the_end(r.reward, penalty[place]) for members in seats for place, r in members], self.gamma
            )
        advantages = whiten(returns)
        return seated(placed, {place: Credit(advantage=a) for place, a in zip(places, advantages, strict=True)})


def at_the_end(reward: float, penalty_T: np.ndarray) -> np.ndarray:
    """Token rewards [T]: minus the penalty everywhere, and the reward at the last token."""
    rewards = -np.asarray(penalty_T, dtype=np.float64)
    if len(rewards):
        rewards[-1] += reward
    return rewards
