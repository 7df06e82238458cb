"""The contract of a curriculum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rollwise.records import Group, Prompt
from rollwise.state import Part


class Source(Protocol):
    """Prompts by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Prompt: ...


class Curriculum(Part, Protocol):
    """Draws prompts; learns from the groups they became."""

    def draw(self, count: int) -> list[Prompt]:
        """The next `count` prompts, their `occurrence` set so that no two draws share a group uid."""
        ...

    def observe(self, groups: Sequence[Group]) -> None:
        """Groups generated this step, fresh ones only: replayed groups say nothing about the current policy."""
        ...
