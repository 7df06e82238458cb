"""Fixed allocation: one round of `prompts` prompts with `group_size` rollouts each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rollwise.allocation.base import Prompts
from rollwise.records import Group, Request, Settled
from rollwise.state import check_keys


class Fixed:
    """The same number of rollouts for every prompt and step."""

    def __init__(self, *, prompts: int, group_size: int) -> None:
        self.prompts = prompts
        self.group_size = group_size
        self._groups: list[Group] | None = None

    @property
    def least(self) -> int:
        return self.prompts * self.group_size

    def plan(self, prompts: Prompts, room: int) -> list[Request]:
        if self._groups is not None or room < self.least:
            return []
        return [Request(prompt=p, count=self.group_size) for p in prompts.draw(self.prompts)]

    def observe(self, groups: Sequence[Group]) -> None:
        self._groups = list(groups)

    def settle(self) -> Settled:
        groups, self._groups = self._groups or [], None
        return Settled(groups=tuple(groups), slots=self.prompts, wanted=self.prompts)

    def stored(self) -> list[tuple[int, Group]]:
        return []

    def metrics(self) -> dict[str, float]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, set(), "allocation")
