"""The two ways of having no memory: the batch as generated, or without its dead groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rollwise.records import Group, Placed
from rollwise.replay.base import PolicyLogprobs, fresh_placed
from rollwise.state import check_keys


class NoReplay:
    """Fresh groups only. With `drop_dead`, groups without reward variance leave the batch and nothing takes their
    place (POPO's ablation GRPO-filter, arXiv 2606.01281); otherwise they stay and count in the reduction.
    """

    def __init__(self, *, drop_dead: bool) -> None:
        self.drop_dead = drop_dead

    def compose(self, fresh: Sequence[Group], slots: int, step: int, policy: PolicyLogprobs) -> list[Placed]:
        return fresh_placed([g for g in fresh if g.informative or not self.drop_dead], step)

    def store(self, fresh: Sequence[Placed], step: int) -> None:
        """Nothing is kept."""

    def stored(self) -> list[tuple[int, Group]]:
        return []

    def metrics(self) -> dict[str, float]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, set(), "replay")
