"""Files that a user names to be written: what stands there already is neither lost nor replaced by mistake."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rollwise.cli.main import main
from rollwise.errors import UserError
from rollwise.outputs import same_place, whole
from rollwise.report.page import write_text

ROW = '{"problem": "What is 2+2?", "answer": "4"}\n'


def put(file: Path) -> None:
    with whole(file) as stream:
        stream.write(b"new")


def text(file: Path) -> None:
    write_text(file, "new")


def clean(file: Path) -> None:
    rows = file.parent / "rows.jsonl"
    rows.write_text(ROW)
    assert main(["data", "clean", str(rows), "--output", str(file.parent / "kept"), "--report", str(file)]) == 0
    rows.unlink()
    (file.parent / "kept").unlink()


WRITERS = pytest.mark.parametrize("write", [put, text, clean])


@WRITERS
def test_a_device_stays_a_device(write: Callable[[Path], None], tmp_path: Path) -> None:
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        device.open("wb").close()
    except OSError:
        pytest.skip("no right to make a device node here")
    write(device)
    assert stat.S_ISCHR(device.lstat().st_mode) and os.listdir(tmp_path) == ["null"]


@WRITERS
def test_a_pipe_is_written_to(write: Callable[[Path], None], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write(pipe)
    reader.join(30)
    assert read and read[0] and stat.S_ISFIFO(pipe.lstat().st_mode)


@WRITERS
def test_a_link_stays_a_link(write: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write(link)
    assert link.is_symlink() and target.read_text() != "old" and stat.S_IMODE(target.stat().st_mode) == 0o640
    target.unlink()
    write(link)
    assert link.is_symlink() and target.is_file() and os.listdir(target.parent) == ["target"]


def test_names_beside_it_are_left_alone(tmp_path: Path) -> None:
    """A file that happens to be called as a half-written one could be, or a link laid there by somebody else."""
    victim = tmp_path / "victim"
    victim.write_text("kept")
    for name in ("out.part", ".out.part", "out.tmp"):
        (tmp_path / name).symlink_to(victim)
    put(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"new" and victim.read_text() == "kept"
    assert len(os.listdir(tmp_path)) == 5


def test_nothing_is_left_of_what_was_not_finished(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("old")
    with pytest.raises(ZeroDivisionError), whole(file) as stream:
        stream.write(b"half")
        raise ZeroDivisionError
    assert file.read_text() == "old" and os.listdir(tmp_path) == ["out"]


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for file, said in (
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "out", "cannot be written"),
        (tmp_path / "loop", "cannot be written"),
        (tmp_path / ("x" * 300), "cannot be written"),
    ):
        with pytest.raises(UserError, match=said):
            put(file)


def test_one_file_for_two_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, out, link = tmp_path / "rows.jsonl", tmp_path / "out", tmp_path / "link"
    rows.write_text(ROW)
    link.symlink_to(out)
    for report in (out, link):
        assert main(["data", "clean", str(rows), "--output", str(out), "--report", str(report)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert not out.exists()
    assert not same_place(os.devnull, os.devnull)
    assert main(["data", "clean", str(rows), "--output", str(out), "--report", os.devnull]) == 0
    assert json.loads(out.read_text()) == json.loads(ROW) and stat.S_ISCHR(os.stat(os.devnull).st_mode)
