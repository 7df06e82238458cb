"""SIGKILL anywhere: every method goes on as if it had not happened, and no save is ever half believed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.kills import cases, differing
from tests.saves import content, right

ROOT = Path(__file__).parents[1]


def module(name: str, *argv: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, last line and all output of a test program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", name, *argv],
        capture_output=True,
        text=True,
        timeout=1500,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")},
    )
    lines = done.stdout.splitlines()
    assert lines, done.stderr
    return done.returncode, json.loads(lines[-1]), done.stdout + done.stderr


def test_every_method_killed_and_resumed_is_the_run_left_alone() -> None:
    code, totals, out = module("tests.kills", "--kills", "2", "--seed", "1")
    assert code == 0, out[-4000:]
    assert totals["runs"] == len(cases())
    assert totals["kills"] > totals["runs"], "most runs are killed more than once"


def test_killed_saves_leave_what_was_saved() -> None:
    code, totals, out = module("tests.saves", "--kills", "60", "--seed", "1")
    assert code == 0, out
    assert totals["kills"] == 60 and totals["inside"] > 5, "some kills fell into a save"
    assert (totals["unusable"], totals["wrong"], totals["lost"]) == (0, 0, 0)


def test_a_difference_would_be_seen(tmp_path: Path) -> None:
    a = {"x": [1, {"y": np.arange(3)}], "b": b"ab"}
    assert list(differing(a, {"x": [1, {"y": np.arange(3)}], "b": b"ab"})) == []
    assert list(differing(a, {"x": [1, {"y": np.array([0, 1, 3])}], "b": b"ac"})) == [".x[1].y", ".b"]
    assert list(differing(a, {"x": [1, {"y": np.arange(3.0)}], "b": b"ab"})) == [".x[1].y"]
    assert list(differing(a, {"x": [1]})) == [""]
    assert list(differing({"a": 1}, {"a": 1.5})) == [".a"]
    from rollwise import checkpoint
    from tests.saves import write_model

    saved = checkpoint.save(tmp_path, 4, content(4), lambda path: write_model(4, path), keep=1)
    assert right(saved)
    wrong = checkpoint.save(tmp_path, 5, content(4), lambda path: write_model(5, path), keep=1)
    assert not right(wrong)
