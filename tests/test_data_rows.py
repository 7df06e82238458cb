"""Reading files: every format gives the same rows, and a fault is one line that says where."""

from __future__ import annotations

import gzip
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.data import hub_name, open_rows
from rollwise.data.jsonl import JsonLines
from rollwise.data.rows import MAX_DEPTH, MAX_ROW
from rollwise.errors import UserError

ROWS: list[dict[str, Any]] = [
    {"question": "What is 1 + 2?", "answer": "3"},
    {"question": "a \u2028 line separator and é", "answer": "025"},
    {"question": "third", "answer": None},
]


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(r, ensure_ascii=False) for r in rows).encode()


def parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(ROWS), path)


def saved(path: Path) -> None:
    import datasets

    datasets.Dataset.from_list(ROWS).save_to_disk(str(path))


def table(path: Path, mark: str) -> None:
    cells = [["question", "answer"], *([r["question"], r["answer"] or ""] for r in ROWS)]
    path.write_text("\n".join(mark.join(c) for c in cells) + "\n", encoding="utf-8")


WRITERS: dict[str, Callable[[Path], Any]] = {
    "a.jsonl": lambda p: p.write_bytes(lines(ROWS)),  # no line feed at the end
    "b.jsonl": lambda p: p.write_bytes(b"\xef\xbb\xbf" + lines(ROWS) + b"\n\n"),
    "crlf.jsonl": lambda p: p.write_bytes(lines(ROWS).replace(b"\n", b"\r\n")),
    "c.json": lambda p: p.write_bytes(lines(ROWS)),
    "d.json": lambda p: p.write_text(json.dumps(ROWS, indent=2)),
    "e.json": lambda p: p.write_text(json.dumps({"version": 1, "data": ROWS}, indent=1)),
    "f.jsonl.gz": lambda p: p.write_bytes(gzip.compress(lines(ROWS))),
    "g.csv": lambda p: table(p, ","),
    "h.tsv": lambda p: table(p, "\t"),
    "i.parquet": parquet,
    "j.txt": lambda p: p.write_bytes(lines(ROWS)),
    "saved": saved,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    rows = open_rows(str(tmp_path / name))
    assert list(rows) == ROWS == [rows[i] for i in range(len(rows))]
    assert str(tmp_path) in rows.where(2) and rows.nbytes > 0
    assert rows.folder(0) in (tmp_path, tmp_path / name)


def test_lines_are_counted_as_an_editor_does(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'\n\n{"a": 1}\n\n{"a": 2}')
    rows = open_rows(str(tmp_path / "a.jsonl"))
    assert [rows.where(i).split()[-1] for i in range(2)] == ["3", "5"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none(), min_size=1), min_size=1))
def test_lines_of_any_text_come_back(rows: list[dict[str, Any]]) -> None:
    data = "\n".join(json.dumps(r, ensure_ascii=True) for r in rows).encode()
    assert list(JsonLines(Path("x.jsonl"), data)) == rows


def test_a_folder_is_its_files_by_split(tmp_path: Path) -> None:
    (tmp_path / "train-00000.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "train-00001.jsonl").write_text('{"a": 2}\n')
    (tmp_path / "test.jsonl").write_text('{"a": 3}\n')
    (tmp_path / "val.jsonl").write_text('{"a": 4}\n')
    assert [r["a"] for r in open_rows(str(tmp_path))] == [1, 2]
    assert [r["a"] for r in open_rows(str(tmp_path), "test")] == [3]
    assert [r["a"] for r in open_rows(str(tmp_path), "validation")] == [4]
    assert [r["a"] for r in open_rows([str(tmp_path), str(tmp_path / "test.jsonl")])] == [1, 2, 3]
    assert open_rows(str(tmp_path)).where(1).endswith("train-00001.jsonl line 1")
    with pytest.raises(UserError, match="has no split 'dave'; it has test, train, validation"):
        open_rows(str(tmp_path), "dave")


def test_a_saved_data_set_of_several_splits(tmp_path: Path) -> None:
    import datasets

    both = {"train": datasets.Dataset.from_list(ROWS), "test": datasets.Dataset.from_list(ROWS[:1])}
    datasets.DatasetDict(both).save_to_disk(str(tmp_path / "both"))
    assert len(open_rows(str(tmp_path / "both"))) == 3
    assert list(open_rows(str(tmp_path / "both"), "test")) == ROWS[:1]


def test_a_saved_data_set_names_no_file_outside(tmp_path: Path) -> None:
    saved(tmp_path / "s")
    state = {"_data_files": [{"filename": "../../secret.arrow"}]}
    (tmp_path / "s" / "state.json").write_text(json.dumps(state))
    with pytest.raises(UserError, match="no file in it"):
        open_rows(str(tmp_path / "s"))


def deep(levels: int) -> bytes:
    return b'{"a": ' + b"[" * levels + b"]" * levels + b"}"


BAD: list[tuple[str, bytes, str]] = [
    ("a.jsonl", b'{"a": 1}\n{"a": \n', "line 2: not JSON"),
    ("a.jsonl", b'{"a": 1}\n[1, 2]\n', "line 2: a list and not an object"),
    ("a.jsonl", b'{"a": 1}\nnull\n', "line 2: null and not an object"),
    ("a.jsonl", b'{"a": 1}\n{"a": "\xff"}\n', "line 2: not UTF-8 text"),
    ("a.jsonl", b'{"a": 1}\n{"a": ' + b"9" * 5000 + b"}\n", "line 2: not JSON (a number of too many digits)"),
    ("a.jsonl", '{"a": 1}'.encode("utf-16"), "not UTF-8 text but UTF-16"),
    ("a.jsonl", b'{"a": 1}\n' + deep(MAX_DEPTH), f"line 2: nested more than {MAX_DEPTH} levels"),
    ("a.jsonl", b'{"a": 1}\n' + deep(200_000), "line 2: not JSON that can be read (nested too deep)"),
    ("a.jsonl", b'{"a": 1}\n{"a": "' + b"x" * (20 << 20) + b'"}', f"a row has at most {MAX_ROW:,}"),
    ("a.json", b"[1, 2]", "row 0: a number and not an object"),
    ("a.json", b'[{"a": 1}, ', "not JSON"),
    ("a.jsonl", b"", "holds no rows"),
    ("a.jsonl", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n", "a Git LFS pointer"),
    ("a.parquet", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n", "a Git LFS pointer"),
    ("a.jsonl", b"/annex/objects/MD5-s1--2\n", "a git-annex pointer"),
    ("a.parquet", b"PAR1 and no more", "not a whole Parquet file"),
    ("a.arrow", b"ARROW1 and no more", "not a whole Arrow file"),
    ("a.jsonl.gz", gzip.compress(b'{"a": 1}')[:-6], "not a whole gzip file"),
    ("a.jsonl.gz", b"no gzip at all", "not a whole gzip file"),
    ("a.csv", b"a,b\n1,2,3\n", "line 2: 3 cells; the first line names 2"),
    ("a.csv", b"a,a\n1,2\n", "two columns have one name"),
    ("a.csv", b"a,b\n1,\xff\n", "line 2: not UTF-8 text"),
    ("a.xlsx", b"PK\x03\x04", "not a format that is read"),
]


@pytest.mark.parametrize(("name", "data", "says"), BAD, ids=[f"{n}-{s[:40]}" for n, _, s in BAD])
def test_a_fault_is_one_line(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError) as error:
        list(open_rows(str(tmp_path / name)))
    text = str(error.value)
    assert text.startswith(str(tmp_path / name)) and says in text
    assert "\n" not in text and len(text) < 400


def test_a_line_just_short_enough_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"a": "' + b"x" * (MAX_ROW - 20) + b'"}\n' + deep(MAX_DEPTH - 2))
    assert len(list(open_rows(str(tmp_path / "a.jsonl")))) == 2


def test_files_over_the_limits_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollwise.data.jsonl.MAX_FILE", 100)
    monkeypatch.setattr("rollwise.data.tables.MAX_TABLE", 100)
    (tmp_path / "a.jsonl").write_bytes(lines(ROWS))
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(b'{"a": "' + b"x" * 10_000 + b'"}'))
    parquet(tmp_path / "a.parquet")
    for name in ("a.jsonl", "bomb.jsonl.gz", "a.parquet"):
        with pytest.raises(UserError, match="over 100 bytes of"):
            open_rows(str(tmp_path / name))


def test_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="No such file"):
        open_rows(str(tmp_path / "none.jsonl"))
    with pytest.raises(UserError, match=r"/dev/zero: cannot be read \(not a file\)"):
        open_rows("/dev/zero")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no file of rows"):
        open_rows(str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"needs the package pyarrow: pip install 'rollwise\[data\]'"):
        open_rows(str(tmp_path / "a.parquet"))


@pytest.mark.parametrize(
    ("spec", "name", "config", "split"),
    [
        ("openai/gsm8k", "openai/gsm8k", None, None),
        ("openai/gsm8k:main", "openai/gsm8k", "main", None),
        ("openai/gsm8k:main@test", "openai/gsm8k", "main", "test"),
        ("HuggingFaceH4/MATH-500@test", "HuggingFaceH4/MATH-500", None, "test"),
    ],
)
def test_hub_names(spec: str, name: str, config: str | None, split: str | None) -> None:
    match = hub_name(spec)
    assert match is not None and (match["name"], match["config"], match["split"]) == (name, config, split)


@pytest.mark.parametrize("spec", ["data/train.jsonl", "./a/b", "/a/b", "a/b/c", "train", "data/rows.jsonl.gz", "a/b c"])
def test_paths_are_no_hub_names(spec: str) -> None:
    assert hub_name(spec) is None


def fake_hub(monkeypatch: pytest.MonkeyPatch, load: Callable[..., Any], version: str = "5.0.0") -> None:
    module: Any = types.ModuleType("datasets")
    module.__version__, module.load_dataset = version, load
    monkeypatch.setitem(sys.modules, "datasets", module)


def test_a_hub_data_set_is_read_through_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    table, asked = datasets.Dataset.from_list(ROWS), []

    def load(name: str, config: str | None, *, split: str) -> Any:
        asked.append((name, config, split))
        return table

    fake_hub(monkeypatch, load)
    rows = open_rows("openai/gsm8k:main@test")
    assert list(rows) == ROWS and rows.folder(0) is None
    open_rows("openai/gsm8k", "validation")
    open_rows("openai/gsm8k")
    assert asked == [
        ("openai/gsm8k", "main", "test"),
        ("openai/gsm8k", None, "validation"),
        ("openai/gsm8k", None, "train"),
    ]


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str, config: str | None, *, split: str) -> Any:
        raise ConnectionError("no\nnetwork")

    fake_hub(monkeypatch, load)
    with pytest.raises(UserError, match=r"no such file or folder, and as a name of the .* hub .* \(no network\)"):
        open_rows("owner/name")
    fake_hub(monkeypatch, load, version="3.6.0")
    with pytest.raises(UserError, match="may run code of a data set; install 4 or newer"):
        open_rows("owner/name")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"pip install 'rollwise\[data\]'"):
        open_rows("owner/name")
