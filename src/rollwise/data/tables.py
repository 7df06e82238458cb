"""Tables in columns: Parquet, Arrow and `save_to_disk` folders, held as Arrow memory; CSV and TSV as text."""

from __future__ import annotations

import csv
import importlib
import io
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rollwise.data.jsonl import read_bytes
from rollwise.data.rows import MAX_ROW, ListedRows, Row, Rows
from rollwise.errors import UserError, show

MAX_TABLE = 2**34  # bytes of a Parquet file, decompressed
BATCH = 1024  # rows turned into Python objects at once


def optional(module: str, why: str) -> Any:
    """A module of the extra `data`. Raises UserError where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(f"{why} needs the package {module.split('.')[0]}: pip install 'rollwise[data]'") from None


class ArrowRows:
    """Rows of an Arrow table. Columns stay as they are; a row becomes Python objects when it is asked for."""

    def __init__(self, name: str, table: Any, folder: Path | None) -> None:
        self._name, self._folder = name, folder
        if twice := [n for n, count in Counter(table.column_names).items() if count > 1]:
            raise UserError(f"{name}: two columns have one name ({show(twice[0])}); rename one of them")
        self._batches = table.to_batches()
        self._starts: list[int] = []
        self._total = 0
        for batch in self._batches:
            self._starts.append(self._total)
            self._total += batch.num_rows
        self.nbytes: int = table.nbytes

    def __len__(self) -> int:
        return self._total

    def __getitem__(self, index: int) -> Row:
        if not 0 <= index < self._total:
            raise IndexError(f"row {index} of {self._total}")
        at = bisect_right(self._starts, index) - 1
        return self._rows(self._batches[at].slice(index - self._starts[at], 1))[0]

    def __iter__(self) -> Iterator[Row]:
        for batch in self._batches:
            for start in range(0, batch.num_rows, BATCH):
                yield from self._rows(batch.slice(start, BATCH))

    def _rows(self, batch: Any) -> list[Row]:
        try:
            return batch.to_pylist()  # type: ignore[no-any-return]
        except (ValueError, OverflowError) as error:  # bytes that are no UTF-8 in a column of text
            raise UserError(f"{self._name}: a row cannot be read ({' '.join(str(error).split())[:120]})") from None

    def where(self, index: int) -> str:
        return f"{self._name} row {index}"

    def folder(self, index: int) -> Path | None:
        return self._folder


def read_parquet(file: Path) -> Rows:
    parquet = optional("pyarrow.parquet", f"{file}: Parquet")

    def load() -> Any:
        source = parquet.ParquetFile(file)
        groups = source.metadata
        if sum(groups.row_group(i).total_byte_size for i in range(groups.num_row_groups)) > MAX_TABLE:
            raise UserError(f"{file}: over {MAX_TABLE:,} bytes of columns; split it")
        return source.read()

    return ArrowRows(str(file), _whole(load, file, "Parquet"), file.parent)


def read_arrow(file: Path, folder: Path | None = None) -> Rows:
    """An Arrow stream or file, mapped into memory."""
    arrow = optional("pyarrow", f"{file}: Arrow")

    def load() -> Any:
        mapped = arrow.memory_map(str(file))
        if mapped.read(6) == b"ARROW1":
            return arrow.ipc.open_file(mapped).read_all()
        mapped.seek(0)
        return arrow.ipc.open_stream(mapped).read_all()

    return ArrowRows(str(file), _whole(load, file, "Arrow"), folder or file.parent)


def saved_files(folder: Path) -> list[Path]:
    """The Arrow files of one `save_to_disk` folder, in the order its state.json gives. Raises UserError."""
    try:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        names = [str(entry["filename"]) for entry in state["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{folder}: not a whole save_to_disk folder (its state.json names no data files)") from None
    if state.get("_indices_files"):
        raise UserError(f"{folder}: its rows are picked by an index file; flatten_indices() and save it again")
    for name in names:
        if Path(name).name != name or not (folder / name).is_file():
            raise UserError(f"{folder}: state.json names {name}, which is no file in it")
    return [folder / name for name in names]


def _whole(load: Any, file: Path, kind: str) -> Any:
    arrow = optional("pyarrow", f"{file}: {kind}")
    try:
        return load()
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{file}: not a whole {kind} file ({' '.join(str(error).split())[:160]})") from None


def read_csv(file: Path, delimiter: str) -> Rows:
    """Cells are text as they stand, `025` included; an empty one is null. The first line names the columns."""
    data = read_bytes(file)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{file} line {line}: not UTF-8 text; save the file as UTF-8") from None
    limit = csv.field_size_limit(MAX_ROW)
    try:
        rows, places = _csv_rows(file, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    finally:
        csv.field_size_limit(limit)
    return ListedRows(file, rows, places, 3 * len(data), file.parent)


def _csv_rows(file: Path, reader: Any) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    places: list[str] = []
    names: list[str] | None = None
    line = 1
    try:
        for cells in reader:
            if names is None:
                names = cells
                if len(set(names)) != len(names):
                    raise UserError(f"{file} line 1: two columns have one name; the first line names the columns")
            elif cells:
                if len(cells) != len(names):
                    raise UserError(
                        f"{file} line {line}: {len(cells)} cells; the first line names {len(names)} columns"
                    )
                rows.append({n: c if c != "" else None for n, c in zip(names, cells, strict=True)})
                places.append(f"line {line}")
            line = reader.line_num + 1
    except csv.Error as error:
        raise UserError(f"{file} line {line}: not a table of text ({error})") from None
    return rows, places
