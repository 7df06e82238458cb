"""The event log of a run: one JSON object a line, append-only, without clock times.

Two runs with one seed write the same bytes. Clock times go to a file of their own. Kinds of events: `run` (settings),
`step` (`StepRecord`), `eval`, `config` (settings changed at a resume) and `stop` (reason and final ledger).
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from rollwise.errors import UserError

EVENTS = "events.jsonl"
CLOCK = "clock.jsonl"
ROLLOUTS = "rollouts.jsonl"
SCHEMA = 1


def clean(value: Any) -> Any:
    """JSON without NaN or infinity: those become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: clean(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [clean(v) for v in value]
    return value


class EventLog:
    """Appends to one JSONL file. A line is on its way to the disk when `write` returns."""

    def __init__(self, path: Path, *, at: int | None = None) -> None:
        """Opens for appending; with `at`, whatever follows that byte is dropped first (a resume)."""
        self.path = path
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise UserError(f"{path}: is no file; move it away")
        if at is not None and path.exists() and path.stat().st_size > at:
            os.truncate(path, at)
        # Half a surrogate pair, which no UTF-8 can hold, becomes the escape that JSON has for it.
        self._file = path.open("a", encoding="utf-8", errors="backslashreplace")

    def write(self, event: dict[str, Any]) -> None:
        self._file.write(json.dumps(clean(event), separators=(",", ":"), ensure_ascii=False) + "\n")
        self._file.flush()

    def sync(self) -> None:
        """On the disk when this returns, also after a power cut."""
        os.fsync(self._file.fileno())

    @property
    def size(self) -> int:
        """Bytes written so far; the place a checkpoint remembers."""
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
