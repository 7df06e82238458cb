"""From what a user names to rows: a file, a folder of files, a `save_to_disk` folder, a Geometry3K release folder, or
a data set of the Hugging Face hub.

    train.jsonl   rows.json   rows.jsonl.gz   train.parquet   rows.csv   rows.tsv   rows.arrow
    folder/               its files; train*, test*, validation* are splits of their own, the rest is train
    owner/name            hub name; owner/name:config, owner/name@split, owner/name:config@split
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rollwise.data.jsonl import parsed, read_bytes, read_json
from rollwise.data.rows import ListedRows, Row, Rows, chained
from rollwise.data.tables import ArrowRows, optional, read_arrow, read_csv, read_parquet, saved_files
from rollwise.errors import UserError

READERS: dict[str, Callable[[Path], Rows]] = {
    ".jsonl": read_json,
    ".json": read_json,
    ".ndjson": read_json,
    ".parquet": read_parquet,
    ".pq": read_parquet,
    ".arrow": read_arrow,
    ".csv": lambda file: read_csv(file, ","),
    ".tsv": lambda file: read_csv(file, "\t"),
}
HEADS = {b"PAR1": read_parquet, b"ARROW1": read_arrow, b"{": read_json, b"[": read_json}  # of files named otherwise
FORMATS = "JSONL, JSON, CSV or TSV (each also .gz), Parquet, Arrow"
HUB = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(:(?P<config>[\w.+-]+))?(@(?P<split>[\w.+-]+))?")
SPLITS = {"train": "train", "test": "test", "validation": "validation", "valid": "validation", "val": "validation"}
SPLITS["dev"] = "validation"
NOT_ROWS = {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"}
POINTERS = {
    b"version https://git-lfs": "a Git LFS pointer, not the data; fetch it with `git lfs pull`",
    b"/annex/objects/": "a git-annex pointer, not the data; fetch it with `git annex get`",
}


def hub_name(spec: str) -> re.Match[str] | None:
    """The parts of a hub name, or None where `spec` is a local path."""
    match = HUB.fullmatch(spec)
    if match is None or Path(spec).expanduser().exists() or _suffix(Path(spec)) in READERS or spec.endswith(".gz"):
        return None
    return match


def open_rows(spec: str | Sequence[str], split: str | None = None) -> Rows:
    """The rows of a path or hub name, or of several, one after the other. `split` is one of a source that has several;
    None takes train. Raises UserError."""
    if not isinstance(spec, str):
        return chained([open_rows(one, split) for one in spec])
    match = hub_name(spec)
    if match is not None:
        return _hub(match, split)
    path = Path(spec).expanduser()
    try:
        rows = _folder(path, split) if path.is_dir() else _file(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}); give {FORMATS}") from None
    if not len(rows):
        raise UserError(f"{path}: holds no rows")
    return rows


def _suffix(path: Path) -> str:
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


def _file(path: Path) -> Rows:
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: cannot be read (not a file); give {FORMATS}")
    with path.open("rb") as stream:
        head = stream.read(64)
    for mark, what in POINTERS.items():
        if head.startswith(mark):
            raise UserError(f"{path}: {what}")
    by_head = (reader for mark, reader in HEADS.items() if head.lstrip().startswith(mark))
    reader = READERS.get(_suffix(path)) or next(by_head, None)
    if reader is None:
        raise UserError(f"{path}: not a format that is read; give {FORMATS}")
    return reader(path)


def _folder(path: Path, split: str | None) -> Rows:
    if (path / "dataset_dict.json").is_file():
        known = parsed(read_bytes(path / "dataset_dict.json"), str(path / "dataset_dict.json"))
        names = [str(n) for n in known.get("splits", [])] if isinstance(known, dict) else []
        return _folder(path / _chosen(names, split, str(path)), None)
    if (path / "state.json").is_file():
        return chained([read_arrow(file, path) for file in saved_files(path)])
    if any(path.glob("*/data.json")):
        return _geometry3k(path)
    files = sorted(f for f in path.iterdir() if f.is_file() and _suffix(f) in READERS and f.name not in NOT_ROWS)
    if files:
        by_split: dict[str, list[Path]] = {}
        for file in files:
            by_split.setdefault(_split_of(file), []).append(file)
        return chained([_file(f) for f in by_split[_chosen(list(by_split), split, str(path))]])
    inner = sorted(d.name for d in path.iterdir() if d.is_dir() and d.name in SPLITS)
    if inner:
        return _folder(path / _chosen(inner, split, str(path)), None)
    raise UserError(f"{path}: holds no file of rows; give {FORMATS}")


def _split_of(file: Path) -> str:
    return SPLITS.get(re.split(r"[-_.]", file.name.lower(), maxsplit=1)[0], "train")


def _chosen(names: Sequence[str], split: str | None, where: str) -> str:
    """The split asked for; without one train, or the only one there is."""
    wanted = split or ("train" if "train" in names or len(names) != 1 else names[0])
    for name in names:
        if name == wanted or (name in SPLITS and SPLITS[name] == SPLITS.get(wanted)):
            return name
    raise UserError(f"{where}: has no split '{wanted}'; it has {', '.join(sorted(names)) or 'none'}")


def _geometry3k(path: Path) -> Rows:
    """One folder a problem, as in the release of Geometry3K (arXiv 2105.04165): data.json, and the diagram as PNG."""
    numbered = sorted(path.glob("*/data.json"), key=lambda f: (len(f.parent.name), f.parent.name))
    rows: list[Row] = []
    for file in numbered:
        row: Any = parsed(read_bytes(file), str(file))
        if not isinstance(row, dict):
            raise UserError(f"{file}: not an object of columns")
        text = next((row[k] for k in ("annotat_text", "compact_text", "problem_text") if row.get(k)), None)
        picture = file.parent / "img_diagram.png"
        own = {"problem": text, "data_source": row.get("data_source", "geometry3k")}
        rows.append({**row, **own, "images": [f"{file.parent.name}/{picture.name}"]})
    nbytes = sum(len(json.dumps(row)) for row in rows) * 4
    return ListedRows(path, rows, [f"{f.parent.name}/data.json" for f in numbered], nbytes, path)


def _hub(match: re.Match[str], split: str | None) -> Rows:
    """A data set of the hub through the `datasets` library, which runs no code of a data set from version 4 on."""
    name, config = match["name"], match["config"]
    datasets = optional("datasets", f"{match[0]}: no such file or folder; as a name of the Hugging Face hub it")
    if int(datasets.__version__.split(".")[0]) < 4:
        raise UserError(f"{match[0]}: datasets {datasets.__version__} may run code of a data set; install 4 or newer")
    wanted = match["split"] or split or "train"
    try:
        table = datasets.load_dataset(name, config, split=wanted).data.table
    except Exception as error:  # the library, the network and the files behind it raise what they like
        reason = " ".join(str(error).split())[:160]
        raise UserError(
            f"{match[0]}: no such file or folder, and as a name of the Hugging Face hub it cannot be read ({reason})"
        ) from None
    return ArrowRows(match[0], table, None)
