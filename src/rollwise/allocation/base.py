"""The contract of an allocation: it plans rounds of generation until the step's batch is settled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rollwise.records import Group, Prompt, Request, Settled
from rollwise.state import Part


class Prompts(Protocol):
    """Where an allocation gets its prompts: the curriculum."""

    @property
    def remaining(self) -> int:
        """Prompts left in the running epoch; 0 only where no prompt is left at all."""
        ...

    def draw(self, count: int) -> list[Prompt]:
        """The next prompts, across the end of an epoch if need be; fewer only where none is left at all."""
        ...

    @property
    def era(self) -> tuple[int, int]:
        """Another value as soon as an epoch is over, whether drawn to its end or left by a stage."""
        ...

    def next_epoch(self) -> None:
        """Leave out what remains of the running epoch."""
        ...


class Allocation(Part, Protocol):
    """One step is: `plan` and `observe` in turn until `plan` returns nothing, then `settle`."""

    def plan(self, prompts: Prompts, room: int) -> list[Request]:
        """The next round's requests; empty when the step needs no more. `room` is the number of rollouts the budget
        still allows, and is never exceeded. A first call that returns nothing means the room is too small for a step,
        or that no prompt is left.
        """
        ...

    def observe(self, groups: Sequence[Group]) -> None:
        """The verified groups of the round just planned, in its order."""
        ...

    def settle(self) -> Settled:
        """What the step has come to. Ends the step."""
        ...

    def stored(self) -> list[tuple[int, Group]]:
        """The groups held for a later step, each with the step since when."""
        ...

    @property
    def least(self) -> int:
        """Rollouts the next step needs at least."""
        ...
