"""Rows: what every reader hands on. A row is a dict of its columns, addressed by its number from 0 in the source."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from rollwise.data.pictures import kind_of
from rollwise.errors import UserError

Row = dict[str, Any]

MAX_DEPTH = 32  # nesting of lists and objects in one row
MAX_ROW = 2**24  # bytes of one row of text
MAX_FILE = 2**32  # bytes of one file of text, decompressed


class Rows(Protocol):
    """A table. The same number is always the same row, whatever is read in between."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Row: ...

    def __iter__(self) -> Iterator[Row]:
        """All rows in order, at less cost than one by one."""
        ...

    def where(self, index: int) -> str:
        """The file, and the line or row in it, for an error line."""
        ...

    def folder(self, index: int) -> Path | None:
        """Where relative paths of the row start; None where the row comes from no local folder."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory held."""
        ...


class ListedRows:
    """Rows held as Python objects, each with the words for its place."""

    def __init__(
        self, file: Path, rows: Sequence[Row], places: Sequence[str], nbytes: int, folder: Path | None
    ) -> None:
        self._file, self._rows, self._places = file, rows, places
        self.nbytes, self._folder = nbytes, folder

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Row:
        return dict(self._rows[index])

    def __iter__(self) -> Iterator[Row]:
        return (dict(row) for row in self._rows)

    def where(self, index: int) -> str:
        return f"{self._file} {self._places[index]}"

    def folder(self, index: int) -> Path | None:
        return self._folder


class Chain:
    """Several tables, one after the other; rows are numbered on."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        self._parts = list(parts)
        self._starts: list[int] = []
        total = 0
        for part in self._parts:
            self._starts.append(total)
            total += len(part)
        self._total = total
        self.nbytes = sum(part.nbytes for part in self._parts)

    def __len__(self) -> int:
        return self._total

    def _place(self, index: int) -> tuple[Rows, int]:
        if not 0 <= index < self._total:
            raise IndexError(f"row {index} of {self._total}")
        at = bisect_right(self._starts, index) - 1
        return self._parts[at], index - self._starts[at]

    def __getitem__(self, index: int) -> Row:
        part, inner = self._place(index)
        return part[inner]

    def __iter__(self) -> Iterator[Row]:
        for part in self._parts:
            yield from part

    def where(self, index: int) -> str:
        part, inner = self._place(index)
        return part.where(inner)

    def folder(self, index: int) -> Path | None:
        part, inner = self._place(index)
        return part.folder(inner)


def chained(parts: Sequence[Rows]) -> Rows:
    return parts[0] if len(parts) == 1 else Chain(parts)


def checked_depth(row: Row, where: str) -> Row:
    """The row, unless it is nested deeper than anything that is data. Raises UserError."""
    level: list[Any] = [v for v in row.values() if isinstance(v, dict | list)]
    depth = 1
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise UserError(f"{where}: nested more than {MAX_DEPTH} levels deep; a row is a flat object of columns")
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return row


def is_empty(value: Any) -> bool:
    """Whether a cell holds nothing: null, NaN, blank text, or a list or object of nothing but such."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, dict):
        return all(is_empty(v) for v in value.values())
    if isinstance(value, list | tuple):
        return all(is_empty(v) for v in value)
    return False


def as_json(value: Any) -> Any:
    """The value as JSON can hold it: times as ISO text, decimals as text, bytes as the text they are in UTF-8, or else
    as base64 (pictures always), NaN and infinity as null."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): as_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(v) for v in value]
    if isinstance(value, bytes):
        return _of_bytes(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    return str(value)


def _of_bytes(value: bytes) -> str:
    if kind_of(value[:16]) is None:
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            pass
    return base64.b64encode(value).decode("ascii")
