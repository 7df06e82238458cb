"""Evaluations that end with their time: what they say of the prompts they had, and what they leave alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollwise import checkpoint, run
from rollwise.cli.main import main
from rollwise.compare.views import View
from rollwise.config import build, merge
from rollwise.console import Console
from rollwise.evaluate import evaluate
from rollwise.records import Prompt, Rollout, Sampling, Verdict, VerdictKind
from rollwise.report.events import read_run
from rollwise.sampling.torch_sampler import TorchSampler
from tests.conftest import Finished
from tests.samples import group

Train = Callable[..., Any]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock on which every call of the sampler takes ten seconds, and nothing else any time."""
    now = [1000.0]
    monkeypatch.setattr("rollwise.evaluate.time.monotonic", lambda: now[0])
    original = TorchSampler.generate

    def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        now[0] += 10
        return original(self, *args, **kwargs)

    monkeypatch.setattr(TorchSampler, "generate", generate)
    return now


SHORT = {"eval.seconds": 15, "eval.prompts": 9, "eval.samples": 2, "sampling.max_rows": 8, "eval.every": 2}


def test_an_evaluation_of_a_run_ends_with_its_time(train: Train, slow: list[float]) -> None:
    """Two rounds of four prompts; no number of it stands among those of whole evaluations."""
    cut = train("grpo", {**SHORT, "budget.steps": 4, "checkpoint.best": "accuracy"})
    assert [(e["ended"], e["prompts"], e["missing"]) for e in cut.evals] == [("eval.seconds", 8, 1)] * 3
    for event in cut.evals:
        assert set(event["results"].values()) == {None} and 0 <= event["partial"]["accuracy"] <= 1
        found = f"accuracy of those {event['partial']['accuracy']:.3f}"
        assert event["note"] == f"ended by eval.seconds: 8 of 9 prompts done, {found}"
    assert cut.stop["reason"] == "budget.steps" and cut.stop["step"] == 4
    assert cut.ledger["evaluation"]["rollouts"] == 3 * 8 * 2
    assert checkpoint.load(cut.folder / "checkpoints" / "step_4")["best"] is None
    read = read_run(cut.folder)
    assert all(math.isnan(e.accuracy) for e in read.evals)
    assert View(read, 10**9).evals("steps") == []


def test_a_limit_that_is_not_reached_changes_nothing_but_the_rounds(train: Train) -> None:
    settings = {**SHORT, "eval.seconds": 1e6, "budget.steps": 4}
    limited = train("popo", settings, name="limited")
    free = train("popo", {**settings, "eval.seconds": None}, name="free")
    assert limited.weights() == free.weights() and limited.metric("reward") == free.metric("reward")
    assert [e["results"] for e in limited.evals] == [pytest.approx(e["results"]) for e in free.evals]
    assert "ended" not in limited.bytes.decode()
    train("popo", {**settings, "budget.steps": 2}, name="part")
    part = free.folder.parent / "part"
    run.resume(part, lambda stored: build(merge(stored, {"budget": {"steps": 4}, "eval": {"seconds": 9e5}})), Console())
    again = Finished(part)
    assert again.steps == limited.steps and again.evals == limited.evals and again.weights() == limited.weights()


def test_tasks_take_turns_and_the_order_is_kept() -> None:
    asked: list[list[str]] = []

    class Sampler:
        def generate(self, requests: Any, *_: Any, **__: Any) -> list[list[Rollout]]:
            asked.append([r.prompt.uid for r in requests])
            return [list(group(1).rollouts) for _ in requests]

    prompts = [Prompt(uid=f"{task}{i}", text="x", task=task) for task, n in (("a", 3), ("b", 2)) for i in range(n)]
    ask: dict[str, Any] = {"sampling": Sampling(), "samples": 2, "seed": 0}
    right = Verdict(kind=VerdictKind.correct, score=1.0)
    whole = evaluate(Sampler(), prompts, lambda c: [right] * len(c), **ask, seconds=1e6, at_once=4)
    assert asked == [["a0", "b0"], ["a1", "b1"], ["a2"]]
    assert [g.prompt.uid for g in whole.groups] == ["a0", "a1", "a2", "b0", "b1"] and not whole.note
    none = evaluate(Sampler(), prompts, lambda c: [], **ask, seconds=0.0, at_once=4)
    assert none.prompts == 0 and none.missing == 5 and all(math.isnan(v) for v in none.results.values())
    assert none.note == "ended by eval.seconds: 0 of 5 prompts done"


EVAL = ["eval", "starter", "--prompts", "9", "--samples", "2", "--set", "sampling.max_rows=8"]


def test_rollwise_eval_names_the_limit_and_what_is_missing(slow: list[float], capsys: Any) -> None:
    assert main([*EVAL, "--set", "eval.seconds=15", "--json"]) == 0
    out, err = capsys.readouterr()
    tree = json.loads(out)
    assert "note: sort_digits, sampled: ended by eval.seconds: 8 of 9 prompts done" in err
    assert "note: sort_digits, greedy: ended by eval.seconds: 0 of 9 prompts done" in err
    assert tree["sampled"]["prompts"] == 8 and "8 of 9 prompts done" in tree["sampled"]["ended"]
    assert tree["greedy"]["prompts"] == 0 and tree["greedy"]["results"]["accuracy"] is None
    assert main([*EVAL, "--set", "eval.seconds=1e6", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "ended" not in out + err and json.loads(out)["sampled"]["prompts"] == 9


def test_a_benchmark_that_was_ended_is_not_compared(tmp_path: Path, slow: list[float], capsys: Any) -> None:
    rows = tmp_path / "sums.jsonl"
    rows.write_text("".join(json.dumps({"question": f"{i}+1=", "answer": f"{i + 1}"}) + "\n" for i in range(9)))
    ask = ["eval", "starter", "--task", "chain_sum", "--data", str(rows), "--template", "none", "--verifier", "exact"]
    ask += ["--samples", "2", "--set", "sampling.max_rows=8", "--no-greedy"]
    assert main([*ask, "--output", str(tmp_path / "whole.json")]) == 0
    limited = ["--set", "eval.seconds=15", "--output", str(tmp_path / "cut.json")]
    assert main([*ask, *limited, "--baseline", str(tmp_path / "whole.json")]) == 0
    out, err = capsys.readouterr()
    assert "sums, sampled: ended by eval.seconds: 8 of 9 prompts done" in out and "AES" not in out
    assert "not compared with the baseline" in err
    cut = json.loads((tmp_path / "cut.json").read_text())["benchmarks"]["sums"]
    assert len(cut["sampled"]["each"]) == 8 and cut["sampled"]["ended"].startswith("ended by eval.seconds")
    assert main([*ask, "--baseline", str(tmp_path / "cut.json")]) == 2
    assert "its 'sums' asked other prompts" in capsys.readouterr().err


def test_grading_ends_with_its_time_and_accounts_for_every_row(tmp_path: Path, slow: list[float], capsys: Any) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"nums": [i, 3, 5], "target": i + 8}) + "\n" for i in range(2, 9)))
    out = tmp_path / "graded.jsonl"
    ask = ["data", "grade", str(rows), "--model", "starter", "--samples", "2", "--set", "sampling.max_rows=6"]
    assert main([*ask, "--seconds", "15", "--output", str(out)]) == 0
    graded = [json.loads(line)["measured"] for line in out.read_text().splitlines()]
    assert [g["samples"] for g in graded] == [2] * 6 + [0]
    assert graded[6]["grade"] is None and graded[6]["trouble"] == "not asked: ended by --seconds"
    assert "not graded, 1: not asked: ended by --seconds" in capsys.readouterr().out
    assert main([*ask, "--seconds", "0", "--output", str(out)]) == 2
