"""The contract of a curriculum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rollwise.records import Group, Prompt
from rollwise.state import Part


class Source(Protocol):
    """Prompts by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Prompt: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Where one stage of a run ends and the next begins."""

    note: str  # a sentence on what ended it
    reset: tuple[str, ...] = ()  # what other parts hold that is to begin anew


class Curriculum(Part, Protocol):
    """Draws prompts; learns from the groups they became."""

    @property
    def remaining(self) -> int:
        """Prompts left in the running epoch; 0 only where no prompt is left at all."""
        ...

    def draw(self, count: int) -> list[Prompt]:
        """The next `count` prompts, `occurrence` set so that no two draws share a group uid, and `row` to their place
        in the data. Goes on into the next epoch; fewer only where no prompt is left at all."""
        ...

    @property
    def era(self) -> tuple[int, int]:
        """Stage and epoch: another value as soon as an epoch is over, whether drawn to its end or left by a stage."""
        ...

    def has(self, prompt: Prompt) -> bool:
        """Whether the prompt, read back from a checkpoint, is one that this curriculum draws."""
        ...

    def next_epoch(self) -> None:
        """Leave out what remains of the running epoch."""
        ...

    def observe(self, groups: Sequence[Group]) -> None:
        """Groups generated this step, fresh ones only: replayed groups say nothing about the current policy. Called
        once a step."""
        ...

    @property
    def turn(self) -> Turn | None:
        """What the last `observe` brought to an end, if anything."""
        ...
