"""The contract of a curriculum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rollwise.records import Group, Prompt


class Source(Protocol):
    """Prompts by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Prompt: ...


class Curriculum(Protocol):
    """Draws prompts; learns from the groups they became."""

    def draw(self, count: int) -> list[Prompt]:
        """The next `count` prompts, their `occurrence` set so that no two draws share a group uid."""
        ...

    def observe(self, groups: Sequence[Group]) -> None:
        """Groups generated this step, fresh ones only: replayed groups say nothing about the current policy."""
        ...

    def metrics(self) -> dict[str, float]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ValueError for unknown or missing keys."""
        ...


def check_keys(state: dict[str, Any], expected: set[str], part: str) -> None:
    """A saved state must hold exactly the expected keys: anything else was saved by something else."""
    if set(state) != expected:
        raise ValueError(f"state of {part}: expected keys {sorted(expected)}, found {sorted(state)}")
