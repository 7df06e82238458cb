"""docs/methods.md: its commands run, and what it tells to look at is there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from rollwise.cli.main import main
from rollwise.config.keys import dotted

PAGE = (Path(__file__).parents[1] / "docs" / "methods.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"\n## [^\n]*: `([a-z-]+)`\n(.*?)(?=\n## )", PAGE, re.S))
SMALL = [
    "prompts_per_step=6",
    "budget.steps=4",
    "eval.prompts=4",
    "eval.samples=1",
    "eval.every=null",
    "learner.updates_per_batch=2",
    "task_args.max_digits=8",
]
ACT: dict[str, list[str]] = {"per": ["replay.warmup_steps=1"], "srpo": ["task_args.train_size=12"]}


@pytest.mark.parametrize("method", ["popo", "pilot-commit", "per", "srpo"])
def test_the_command_runs_and_its_numbers_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"^rollwise (train .*)$", SECTIONS[method], re.M)
    words = shlex.split(command)
    own = [part for name in (*SMALL, *ACT.get(method, ())) for part in ("--set", name)]
    assert main([*words, *own]) == 0
    folder = tmp_path / "runs" / method
    assert "<h2>Policy</h2>" in (folder / "report.html").read_text()
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    found = {name for e in events if e["event"] == "step" for name in e["metrics"]}
    (look,) = re.findall(r"\nLook at (.*?)\.\s", SECTIONS[method], re.S)
    named = re.findall(r"`([^`]+)`", look)
    assert len(named) >= 3
    assert [n for n in named if n not in found and n != "curriculum/stage"] == []


def test_every_key_it_names_is_one() -> None:
    known = {*dotted(), "task_args.train_size", "curriculum.stages"}
    names: list[Any] = re.findall(r"^\| `([a-z_.]+)`", PAGE, re.M)
    assert len(names) > 15 and [n for n in names if n not in known] == []


def test_replay_without_the_loop() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    names: dict[str, Any] = {}
    exec(code, names)
    shown = re.findall(r"# seen: (.*)", code)[0]
    assert repr(names["seen"]) == shown
