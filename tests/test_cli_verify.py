"""`rollwise verify`: bulk scoring, bad lines, order, bounded memory, comparison with what is wanted."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwise.audit import lines
from rollwise.audit.lines import raw_lines, read_lines, score
from rollwise.cli.main import main
from rollwise.records import Verdict, VerdictKind
from rollwise.verify.scoring import Completion


def write(path: Path, rows: Sequence[Any]) -> str:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows), encoding="utf-8")
    return str(path)


def verify(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[dict[str, Any]], str]:
    status = main(["verify", *argv])
    out, err = capsys.readouterr()
    return status, [json.loads(line) for line in out.splitlines()], err


COUNTDOWN = {"task": "countdown", "gold": {"numbers": [3, 4], "target": 12}}


def test_every_public_case_is_as_wanted(capsys: pytest.CaptureFixture[str], public_cases: Path) -> None:
    status, rows, err = verify(capsys, str(public_cases / "verifier.jsonl"), "--expect")
    assert status == 0, err
    assert len(rows) == 33 and all(r["verdict"] == r["want"] for r in rows)
    assert "0 of 33 not as wanted" in err


def test_several_workers_say_the_same(capsys: pytest.CaptureFixture[str], public_cases: Path) -> None:
    file = str(public_cases / "verifier.jsonl")
    one, four = (verify(capsys, file, *more)[1] for more in ([], ["--workers", "4"]))
    drop = [{k: v for k, v in row.items() if k != "seconds"} for row in one]
    assert drop == [{k: v for k, v in row.items() if k != "seconds"} for row in four]
    assert [row["line"] for row in one] == list(range(1, len(one) + 1))


def test_a_wrong_want_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {**COUNTDOWN, "completion": "<answer>3*4</answer>"}
    file = write(tmp_path / "a.jsonl", [{**row, "want": "correct"}, {**row, "want": "wrong"}, {**row, "want": "right"}])
    status, rows, err = verify(capsys, file, "--expect")
    assert status == 1
    assert [r["verdict"] for r in rows] == ["correct"] * 3
    assert "line 2: want wrong, got correct" in err and "line 3: want right" in err and "line 1:" not in err
    assert "2 of 3 not as wanted" in err


def test_scoring_does_not_read_want(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {**COUNTDOWN, "completion": "<answer>3+4</answer>", "want": "correct"}
    status, rows, _ = verify(capsys, write(tmp_path / "a.jsonl", [row]))
    assert status == 0 and rows[0]["verdict"] == "wrong" and "want" not in rows[0]
    assert set(rows[0]) == {"line", "verdict", "score", "detail", "seconds"}


def test_expect_with_nothing_to_compare_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {**COUNTDOWN, "completion": ""}
    status, _, err = verify(capsys, write(tmp_path / "a.jsonl", [row]), "--expect")
    assert status == 2 and "no line has 'want'" in err


BAD = [
    ("{", "not JSON"),
    ("[1]", "a list and not an object"),
    ('{"task": "countdown", "gold": NaN, "completion": ""}', "not JSON"),
    ("[" * 100_000, "not JSON"),
    ({"gold": "1", "completion": "1"}, "no 'task'"),
    ({"task": "math", "completion": "1"}, "no 'gold'"),
    ({"task": "math", "gold": "1"}, "no 'completion'"),
    ({"task": "math", "gold": "1", "completion": ["1"]}, "'completion' is ['1'], not text"),
    ({"task": "maths", "gold": "1", "completion": "1"}, "unknown task 'maths'; did you mean 'math'?"),
    ({"task": "math", "gold": "1", "completion": "1", "stop": "tired"}, "'stop' is 'tired'; eos or length"),
    ('{"task": "math", "gold": ' + "9" * 5000 + ', "completion": ""}', "not JSON"),
    ({"task": "math", "gold": "1", "completion": "x" * 4_300_000}, "over 4 MB"),
]


def test_bad_lines_stop_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = {**COUNTDOWN, "completion": "<answer>3*4</answer>"}
    file = write(tmp_path / "a.jsonl", [line for text, _ in BAD for line in (text, good)])
    status, rows, err = verify(capsys, file)
    assert status == 1
    assert [r["verdict"] for r in rows] == [None, "correct"] * len(BAD)
    for row, (_, reason) in zip(rows[::2], BAD, strict=True):
        assert reason in row["error"], row
    assert f"{len(BAD)} correct" in err and f"{len(BAD)} bad lines" in err


def test_bytes_that_are_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = json.dumps({**COUNTDOWN, "completion": "<answer>3*4</answer>"}).encode()
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + good + b"\r\n\n \n\xff\xfe\n" + good)  # a BOM, no last newline
    status, rows, _ = verify(capsys, str(tmp_path / "a.jsonl"))
    assert status == 1
    assert [(r["line"], r["verdict"]) for r in rows] == [(1, "correct"), (4, None), (5, "correct")]


def test_line_separators_inside_text_are_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = json.dumps({**COUNTDOWN, "completion": "a\u2028b\x85<answer>3*4</answer>"}, ensure_ascii=False)
    status, rows, _ = verify(capsys, write(tmp_path / "a.jsonl", [line]))
    assert status == 0 and len(rows) == 1


def test_a_verifier_that_fails_is_no_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "make_verifier", lambda name: Always(VerdictKind.infra_error))
    row = {**COUNTDOWN, "completion": ""}
    assert verify(capsys, write(tmp_path / "a.jsonl", [row]))[0] == 1
    assert verify(capsys, write(tmp_path / "b.jsonl", [{**row, "want": "infra_error"}]), "--expect")[0] == 0


def test_output_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "a.jsonl", [{**COUNTDOWN, "completion": "<answer>3*4</answer>"}])
    status, rows, _ = verify(capsys, file, "--output", str(tmp_path / "out.jsonl"))
    assert (status, rows) == (0, [])
    assert json.loads((tmp_path / "out.jsonl").read_text())["verdict"] == "correct"


@pytest.mark.parametrize(
    "argv,words",
    [
        (["none.jsonl"], "none.jsonl: cannot be read (No such file or directory)"),
        (["."], "cannot be read (not a file)"),
        (["a.jsonl", "--output", "a.jsonl"], "the file that is read"),
        (["a.jsonl", "--output", "no/folder/x"], "cannot be written"),
        (["a.jsonl", "--workers", "0"], "0 is not between 1 and 256"),
    ],
)
def test_a_users_mistakes_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argv: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text("{}\n")
    status, rows, err = verify(capsys, *argv)
    assert status == 2 and rows == [] and words in err and err.count("\n") == 1
    assert Path("a.jsonl").read_text() == "{}\n"


PROGRAM = "```python\ndef f(x): return 2 * x\n```"
TESTS = ["assert f(1) == 2", "assert f(2) == 4"]


def test_code_rows_carry_tests_of_any_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shapes: list[dict[str, Any]] = [
        {"tests": TESTS},
        {"tests": "\n".join(TESTS)},
        {"gold": TESTS},
        {"gold": None, "test_list": TESTS},
        {"gold": {"form": "asserts", "tests": TESTS, "setup": ""}},
        {"gold": "the reference, not tests", "tests": TESTS},
        {"tests": {"inputs": ["1\n"], "outputs": ["2\n"]}},  # wrong: it prints nothing
        {"gold": "no tests at all"},  # infra_error: nothing to judge by
        {"completion": PROGRAM},  # a bad line
    ]
    status, rows, err = verify(
        capsys, write(tmp_path / "a.jsonl", [{"task": "code", "completion": PROGRAM, **s} for s in shapes])
    )
    if err.startswith("rollwise: error: code jail"):
        pytest.skip(f"no jail on this machine: {err}")
    assert status == 1
    assert [r["verdict"] for r in rows] == ["correct"] * 6 + ["wrong", "infra_error", None]
    assert rows[-2]["detail"].startswith("gold: ") and rows[-1]["error"] == "no 'gold' and no 'tests'"


def test_standard_input_is_answered_line_by_line() -> None:
    """Not at the end: the first verdict comes while the input is still open."""
    argv = [sys.executable, "-m", "rollwise", "verify", "-"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin and process.stdout and process.stderr
        for text, want in (("3*4", "correct"), ("3+4", "wrong")):
            process.stdin.write(json.dumps({**COUNTDOWN, "completion": f"<answer>{text}</answer>"}).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["verdict"] == want
        process.stdin.close()
        assert process.stderr.read().startswith(b"2 lines: 1 correct, 1 wrong")
        assert process.wait(60) == 0


class Always:
    """A verifier of one opinion."""

    name = "always"

    def __init__(self, kind: VerdictKind = VerdictKind.wrong) -> None:
        self.kind = kind

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        return [Verdict(kind=self.kind, score=0.0) for _ in completions]

    def restated(self, completion: Completion) -> str | None:
        return None


class Endless(io.RawIOBase):
    """A stream of many long lines that exist nowhere at once."""

    def __init__(self, line: bytes, count: int) -> None:
        self.line, self.left = line, count

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.left:
            return 0
        self.left -= 1
        buffer[: len(self.line)] = self.line
        return len(self.line)


@pytest.mark.parametrize("workers", [1, 2])
def test_ten_thousand_lines_in_the_memory_of_a_few(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    monkeypatch.setattr(lines, "make_verifier", lambda name: Always())
    line = json.dumps({**COUNTDOWN, "completion": "x" * 8000}).encode() + b"\n"  # 80 MB in all
    stream = io.BufferedReader(Endless(line, 10_000), 2**14)
    tracemalloc.start()
    try:
        count = sum(s.verdict is not None for s in score(read_lines(stream), workers))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 10_000
    assert peak < 4 * 2**20


@given(st.lists(st.binary(max_size=12), max_size=8), st.integers(1, 6))
def test_lines_are_found_whatever_their_length(pieces: list[bytes], limit: int) -> None:
    data = b"\n".join(p.replace(b"\n", b"").replace(b"\xef", b"") for p in pieces)
    found = list(raw_lines(io.BytesIO(data), limit))
    want = [(i, t.rstrip(b"\r")) for i, t in enumerate(data.split(b"\n"), 1)]
    want = [(i, t) for i, t in want if t.strip() or len(t) > limit]
    assert [i for i, _ in found] == [i for i, _ in want]
    assert all(a == (b if len(b) <= limit else None) for (_, a), (_, b) in zip(found, want, strict=True))
