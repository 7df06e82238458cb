"""The contract of replay: it composes a step's batch from fresh and stored groups, and stores what is worth keeping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from rollwise.records import Group, Placed, Prompt, Rollout
from rollwise.state import Part

PolicyLogprobs = Callable[[Sequence[Rollout]], list[np.ndarray]]
"""Log-probs float32 [T] of each rollout's completion under the current policy."""


class Replay(Part, Protocol):
    """`compose` before the update, `store` after it, once a step each."""

    def compose(self, fresh: Sequence[Group], slots: int, step: int, policy: PolicyLogprobs) -> list[Placed]:
        """The groups to train on. Draws from what earlier steps stored, never from `fresh` itself, except that a part
        may leave fresh rollouts out; no stored rollout is placed twice in one step.
        """
        ...

    def store(self, fresh: Sequence[Placed], step: int) -> None:
        """Take in this step's fresh groups, all of them, now with the trainer's birth log-probs and their credits."""
        ...


def fresh_placed(groups: Sequence[Group], step: int) -> list[Placed]:
    """Seats for groups of this step. One carried over by the allocation is as old as it is."""
    from rollwise.records import Role

    return [Placed(group=g, role=Role.fresh, age=step - g.birth_step) for g in groups]


def of_images(prompts: Iterable[Prompt]) -> dict[str, float]:
    """Bytes of the images that stored prompts keep in memory, each counted once however many share it; nothing where
    there are none."""
    held = {id(image.data): len(image.data) for prompt in prompts for image in prompt.images}
    return {"replay/image_bytes": float(sum(held.values()))} if held else {}
