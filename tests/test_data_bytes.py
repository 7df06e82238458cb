"""Tables that hold text as bytes or a name twice, and pictures that claim a size nobody could decode."""

from __future__ import annotations

import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from rollwise.cli.main import main
from rollwise.data.golds import raw_gold
from rollwise.data.pictures import MAX_PIXELS, picture, size_of
from rollwise.data.rows import as_json
from rollwise.errors import UserError
from rollwise.vision.images import MOST_PIXELS


def png(width: int, height: int) -> bytes:
    """The file of a picture whose rows are not all there: whoever decodes it fails."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def cleaned(tmp_path: Path, file: Path) -> tuple[list[Any], list[Any]]:
    out, report = tmp_path / "out.jsonl", tmp_path / "report.jsonl"
    assert main(["data", "clean", str(file), "--output", str(out), "--report", str(report)]) == 0
    return [json.loads(line) for line in out.read_text().splitlines()], [
        json.loads(line) for line in report.read_text().splitlines()
    ]


def test_a_gold_that_is_bytes_is_the_text_in_them(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    questions = ["What is 1 + 1?", "What is 1 + 2?", "What is 1 + 3?"]
    golds = pa.array([b"2", "\u00bd".encode(), b"\xff4"], pa.binary())
    pq.write_table(pa.table({"question": questions, "answer": golds}), tmp_path / "a.parquet")
    kept, report = cleaned(tmp_path, tmp_path / "a.parquet")
    assert [row["answer"] for row in kept] == ["2", "\u00bd"]
    dropped = next(line for line in report if line["row"] == 2)
    assert "bytes that are no UTF-8 text" in dropped["reason"]


def test_bytes_as_json() -> None:
    assert as_json({"a": [b"2", b"\xff"]}) == {"a": ["2", "/w=="]}
    assert as_json(b"GIF89a") == "R0lGODlh"  # a picture, though its bytes are text as well


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_two_columns_of_one_name(tmp_path: Path, suffix: str) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from rollwise.data import open_rows

    table = pa.Table.from_arrays([pa.array(["1 + 1"]), pa.array(["2"]), pa.array(["3"])], ["question", "a", "a"])
    file = tmp_path / f"x.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, file)
    else:
        with pa.ipc.new_file(str(file), table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(UserError, match="two columns have one name \\('a'\\); rename one"):
        open_rows(str(file))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_the_size_a_picture_claims(kind: str) -> None:
    images = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    images.new("RGB", (37, 21)).save(stream, kind)
    assert size_of(stream.getvalue()) in ((37, 21), None if kind == "WEBP" else (37, 21))
    for end in range(0, 64):
        size_of(stream.getvalue()[:end])


def test_a_picture_too_large_to_decode_is_its_rows_fault(tmp_path: Path) -> None:
    assert MAX_PIXELS == MOST_PIXELS
    large, small = tmp_path / "large.png", tmp_path / "small.png"
    large.write_bytes(png(60_000, 60_000))
    small.write_bytes(png(8, 8))
    for given in (large.read_bytes(), "large.png"):
        with pytest.raises(ValueError, match="60,000 x 60,000 pixels, more than 67,108,864"):
            picture(given, tmp_path)
    rows = [
        {"question": f"How many dots are in picture {i}?", "answer": "4", "image": n}
        for i, n in enumerate(("small.png", "large.png"))
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    kept, report = cleaned(tmp_path, tmp_path / "rows.jsonl")
    assert [row["image"] for row in kept] == ["small.png"]
    assert any("60,000 x 60,000" in line.get("reason", "") for line in report)


def test_the_gold_of_a_list_of_bytes() -> None:
    from rollwise.data.columns import Columns

    columns = Columns(prompt="q", gold="a")
    assert raw_gold({"q": "x", "a": [b"2"]}, columns) == "2"
