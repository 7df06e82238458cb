"""Saved state of parts with memory."""

from __future__ import annotations

from typing import Any, Protocol


class Part(Protocol):
    """What every part with memory offers besides its own act. `load_state_dict(state_dict())` changes nothing."""

    def metrics(self) -> dict[str, float]: ...

    def state_dict(self) -> dict[str, Any]:
        """JSON values and numpy arrays."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ValueError for unknown or missing keys."""
        ...


def check_keys(state: dict[str, Any], expected: set[str], part: str) -> None:
    """A saved state must hold exactly the expected keys: anything else was saved by something else."""
    if set(state) != expected:
        raise ValueError(f"state of {part}: expected keys {sorted(expected)}, found {sorted(state)}")
