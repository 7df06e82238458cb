"""Saved state of parts with memory."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol


class Saved(Protocol):
    """What is saved with a checkpoint. `load_state_dict(state_dict())` changes nothing."""

    def state_dict(self) -> dict[str, Any]:
        """JSON values and numpy arrays."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ValueError for unknown or missing keys."""
        ...


class Part(Saved, Protocol):
    """What every part with memory offers besides its own act."""

    def metrics(self) -> dict[str, float]: ...


def check_keys(state: dict[str, Any], expected: set[str], part: str) -> None:
    """A saved state must hold exactly the expected keys: anything else was saved by something else."""
    if set(state) != expected:
        raise ValueError(f"state of {part}: expected keys {sorted(expected)}, found {sorted(state)}")


def as_now(part: Part) -> Callable[[], None]:
    """A call that puts the part back to the state it has now."""
    state = copy.deepcopy(part.state_dict())
    return lambda: part.load_state_dict(copy.deepcopy(state))
