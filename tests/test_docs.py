"""The examples of docs/rewards.md and docs/evaluation.md do what the pages say."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from rollwise.cli.main import main, parser
from rollwise.config import build
from rollwise.reflection import patterns

DOCS = Path(__file__).parents[1] / "docs"
REWARDS, EVALUATION = ((DOCS / name).read_text(encoding="utf-8") for name in ("rewards.md", "evaluation.md"))
SMALL = ["--set", "eval.prompts=4", "--set", "log.report=false"]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.S)


def commands(text: str) -> list[list[str]]:
    return [shlex.split(line, comments=True)[1:] for line in text.splitlines() if line.startswith("rollwise ")]


def test_the_reward_function_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(REWARDS, "python")
    (tmp_path / "brevity.py").write_text(code)
    ((command,),) = (commands(text) for text in blocks(REWARDS, "sh"))
    assert main([*command, *SMALL]) == 0
    events = [json.loads(line) for line in (tmp_path / "runs/brevity/events.jsonl").read_text().splitlines()]
    steps = [e["metrics"] for e in events if e["event"] == "step"]
    stored = yaml.safe_load((tmp_path / "runs/brevity/config.yaml").read_text())["reward"]["function"]
    assert stored == f"{tmp_path / 'brevity.py'}:score"  # found again from any folder
    assert len(steps) == 2 and all(0 < s["rewards/score/mean"] <= s["accuracy"] for s in steps)


def test_the_recipe_form_is_understood() -> None:
    (recipe,) = re.findall(r"`(reward: \{functions: .*?\}\})`", REWARDS)
    config = build({**yaml.safe_load(recipe), "budget": {"steps": 1}})
    assert config.reward.functions == {"brevity.py:score": 1.0, "form.py:tags": 0.2}


def test_the_evaluation_example_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (rows,) = blocks(EVALUATION, "json")
    (tmp_path / "sums.jsonl").write_text(rows)
    before, train, after = commands(blocks(EVALUATION, "sh")[1])
    assert main(before) == 0
    assert json.loads((tmp_path / "before.json").read_text())["mean"]["sampled"]["accuracy"] > 0
    assert main([*train, *SMALL]) == 0
    capsys.readouterr()
    assert main(after) == 0
    out = capsys.readouterr().out
    assert re.search(r"\n  sums +4 +\d\.\d{3}", out) and "difference" in out and "AES = 1 x relative saving" in out


def test_the_other_commands_and_the_words_are_those_of_the_code() -> None:
    for words in commands(blocks(EVALUATION, "sh")[0]):
        parser().parse_args(words)
    (settings,) = blocks(EVALUATION, "yaml")
    shown = build({**yaml.safe_load(settings), "budget": {"steps": 1}}).log.reflection
    assert patterns(shown) == patterns(build({"budget": {"steps": 1}}).log.reflection)
