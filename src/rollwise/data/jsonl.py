"""JSON in its two shapes: Lines (one object a line, whatever the file is called), and one list of objects."""

from __future__ import annotations

import gzip
import json
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rollwise.data.rows import MAX_FILE, MAX_ROW, ListedRows, Row, Rows, checked_depth
from rollwise.errors import UserError

BOMS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
ROW_LISTS = ("data", "rows", "instances", "examples")  # names a file gives its list of rows


class JsonLines:
    """One object a line. The file's bytes are held, and a line is read when it is asked for. A line ends with a line
    feed and nothing else: U+2028 inside a string is text."""

    def __init__(self, file: Path, data: bytes) -> None:
        self._file, self._data = file, data
        self._starts, self._numbers = array("Q"), array("Q")
        self._index()
        self.nbytes = len(data) + 16 * len(self._starts)

    def _index(self) -> None:
        data, at, number = self._data, 3 if self._data.startswith(b"\xef\xbb\xbf") else 0, 0
        while at < len(data):
            number += 1
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            if end - at > MAX_ROW:
                raise UserError(
                    f"{self._file} line {number}: {end - at:,} bytes; a row has at most {MAX_ROW:,}, one object a line"
                )
            if not data[at:end].isspace() and end > at:
                self._starts.append(at)
                self._numbers.append(number)
            at = end + 1

    def __len__(self) -> int:
        return len(self._starts)

    def raw(self, index: int) -> bytes:
        """The line as it stands in the file, without its line feed."""
        start = self._starts[index]
        end = self._data.find(b"\n", start)
        return self._data[start : end if end >= 0 else len(self._data)]

    def __getitem__(self, index: int) -> Row:
        where = self.where(index)
        row = parsed(self.raw(index), where)
        if not isinstance(row, dict):
            raise UserError(f"{where}: {_article(row)} and not an object; one JSON object of columns a line")
        return checked_depth(row, where)

    def __iter__(self) -> Iterator[Row]:
        return (self[i] for i in range(len(self)))

    def where(self, index: int) -> str:
        return f"{self._file} line {self._numbers[index]}"

    def folder(self, index: int) -> Path | None:
        return self._file.parent


def read_json(file: Path) -> Rows:
    """The rows of a JSON file of either shape, gzipped or not. Raises UserError."""
    data = read_bytes(file)
    body = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if body.startswith(b"["):
        return _listed(file, body)
    if body.startswith(b"{") and not _first_line_is_whole(body):
        return _listed(file, body)
    return JsonLines(file, data)


def _first_line_is_whole(body: bytes) -> bool:
    """Whether the first line is an object by itself; otherwise the file is one object over several lines."""
    line = body.partition(b"\n")[0].rstrip()
    return len(line) > MAX_ROW or line.endswith(b"}") or b"\n" not in body.strip()


def _listed(file: Path, body: bytes) -> Rows:
    value = parsed(body, str(file))
    if isinstance(value, dict):
        lists = [v for k, v in value.items() if k in ROW_LISTS and isinstance(v, list)]
        value = lists[0] if lists else [value]
    for i, row in enumerate(value):
        if not isinstance(row, dict):
            raise UserError(f"{file} row {i}: {_article(row)} and not an object of columns")
        checked_depth(row, f"{file} row {i}")
    # Python objects take about four times the text they were read from.
    return ListedRows(file, value, [f"row {i}" for i in range(len(value))], 4 * len(body), file.parent)


def parsed(data: bytes, where: str) -> Any:
    """The JSON value of some bytes. Raises UserError that says where, and what it is not."""
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from None
    except RecursionError:
        raise UserError(f"{where}: not JSON that can be read (nested too deep)") from None
    except ValueError as error:
        reason = "a number of too many digits"
        if isinstance(error, json.JSONDecodeError):
            reason = error.msg + (f" on its line {error.lineno}" if error.lineno > 1 else "")
        raise UserError(f"{where}: not JSON ({reason}); one JSON object of columns a line") from None


def read_bytes(file: Path) -> bytes:
    """The whole file, decompressed, up to a limit. Raises UserError."""
    try:
        data = _decompressed(file) if file.suffix == ".gz" else _plain(file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{file}: not a whole gzip file ({error})") from None
    for bom, name in BOMS.items():
        if data.startswith(bom):
            raise UserError(f"{file}: cannot be read (not UTF-8 text but {name}); save the file as UTF-8")
    return data


def _plain(file: Path) -> bytes:
    if file.stat().st_size > MAX_FILE:
        raise UserError(f"{file}: over {MAX_FILE:,} bytes of text; split it, or write it as Parquet")
    return file.read_bytes()


def _decompressed(file: Path) -> bytes:
    with gzip.open(file) as stream:
        data = stream.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise UserError(f"{file}: over {MAX_FILE:,} bytes of text; split it, or write it as Parquet")
    return data


def _article(value: Any) -> str:
    names = {list: "a list", str: "text", int: "a number", float: "a number", bool: "true or false"}
    return names.get(type(value), "null")
