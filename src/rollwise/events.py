"""The event log of a run: one JSON object a line, append-only, without clock times.

Two runs with one seed write the same bytes. Clock times go to a file of their own. Kinds of events: `run` (settings),
`step` (`StepRecord`), `eval`, `config` (settings changed at a resume) and `stop` (reason and final ledger).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollwise.errors import UserError

EVENTS = "events.jsonl"
CLOCK = "clock.jsonl"
ROLLOUTS = "rollouts.jsonl"
SCHEMA = 1
BLOCK = 1 << 20  # bytes read at a time


def clean(value: Any) -> Any:
    """JSON without NaN or infinity: those become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: clean(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [clean(v) for v in value]
    return value


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a log: what came before it."""

    bytes: int = 0
    sha256: str = hashlib.sha256().hexdigest()

    def fault(self, path: Path) -> str | None:
        """None where the file at `path` begins with it, else what is wrong with the file."""
        if (path.stat().st_size if path.is_file() else 0) < self.bytes:
            return f"{path.name} is shorter than it was then"
        if self.bytes and _digest(path, self.bytes).hexdigest() != self.sha256:
            return f"{path.name} was changed since, before the place it had come to"
        return None


class EventLog:
    """Appends to one JSONL file. A line is on its way to the disk when `write` returns."""

    def __init__(self, path: Path, *, at: Mark | None = None) -> None:
        """Opens for appending; with `at`, whatever follows that place is dropped first (a resume). A line that was cut
        off is dropped."""
        self.path = path
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise UserError(f"{path}: is no file; move it away")
        size = path.stat().st_size if path.exists() else 0
        end = _whole_lines(path, size if at is None else min(size, at.bytes))
        if end < size:
            os.truncate(path, end)
        self._digest = _digest(path, end) if end else hashlib.sha256()
        # Half a surrogate pair, which no UTF-8 can hold, becomes the escape that JSON has for it.
        self._file = path.open("a", encoding="utf-8", errors="backslashreplace")

    def write(self, event: dict[str, Any]) -> None:
        line = json.dumps(clean(event), separators=(",", ":"), ensure_ascii=False) + "\n"
        with self._named():
            self._file.write(line)
            self._file.flush()
        self._digest.update(line.encode("utf-8", "backslashreplace"))

    def sync(self) -> None:
        """On the disk when this returns, also after a power cut."""
        os.fsync(self._file.fileno())

    @property
    def lost(self) -> bool:
        """Whether its name is no longer that of the file that is written."""
        try:
            return not os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        except OSError:
            return True

    @property
    def mark(self) -> Mark:
        """The place a checkpoint remembers."""
        return Mark(self._file.tell(), self._digest.hexdigest())

    def close(self) -> None:
        with self._named():  # what could not be written is tried once more
            self._file.close()

    @contextmanager
    def _named(self) -> Iterator[None]:
        """A full disk is told of without a name."""
        try:
            yield
        except OSError as error:
            error.filename = str(self.path)
            raise


def _whole_lines(path: Path, size: int) -> int:
    """Where the last of the lines ends that are whole within the first `size` bytes."""
    if not size:
        return 0
    with path.open("rb") as file:
        while size:
            start = max(0, size - BLOCK)
            file.seek(start)
            at = file.read(size - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            size = start
    return 0


def _digest(path: Path, size: int) -> hashlib._Hash:
    """SHA-256 of the first `size` bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while size > 0 and (block := file.read(min(BLOCK, size))):
            digest.update(block)
            size -= len(block)
    return digest
