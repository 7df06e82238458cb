"""The contract of replay: it composes a step's batch from fresh and stored groups, and stores what is worth keeping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from rollwise.records import Group, Placed, Rollout
from rollwise.state import Part

PolicyLogprobs = Callable[[Sequence[Rollout]], list[np.ndarray]]
"""Log-probs float32 [T] of each rollout's completion under the current policy."""


class Replay(Part, Protocol):
    """`compose` before the update, `store` after it, once a step each, in that order. Needs neither loop nor model:
    docs/methods.md has an example. Steps count from 1 and only go up."""

    def compose(self, fresh: Sequence[Group], slots: int, step: int, policy: PolicyLogprobs) -> list[Placed]:
        """The groups to train on, as seats: `role` says fresh or replay, `age` the steps since birth, `uses` how often
        it served before, `credits` what it teaches where that was frozen at birth.

        fresh: this step's groups, scored; slots: groups the batch is meant to hold; policy: asked by parts that compare
        stored rollouts with the current policy, such as `replay.order: kl`, and by others never. Draws from what
        earlier steps stored, never from `fresh` itself, except that a part may leave fresh rollouts out; no stored
        rollout is placed twice in one step.
        """
        ...

    def stored(self) -> list[tuple[int, Group]]:
        """What is stored, whole groups or parts of them, each with the step since when."""
        ...

    def store(self, fresh: Sequence[Placed], step: int) -> None:
        """Take in this step's fresh groups, all of them, dead ones too: what is kept is for the part to say.

        Each with the trainer's log-probs of the step where there are any (`Group.remembering`; without them the
        sampler's stand for the behaviour policy), and its credits, which `RolloutReplay` reads and others do not.
        """
        ...


def fresh_placed(groups: Sequence[Group], step: int) -> list[Placed]:
    """Seats for groups of this step, without credits. One carried over by the allocation is as old as it is."""
    from rollwise.records import Role

    return [Placed(group=g, role=Role.fresh, age=step - g.birth_step) for g in groups]
