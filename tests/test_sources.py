"""Numbers of each source within one data set."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from rollwise.cli.main import main
from rollwise.evaluate import evaluation
from rollwise.metrics import SOURCES, by_source, of_tasks
from rollwise.records import Group, Prompt, Sampling
from tests.samples import group

HOW = Sampling(temperature=1.0, top_p=1.0, max_completion_length=8)


def of(meta: dict[str, object], uid: int, *, alive: bool = True) -> Group:
    return dataclasses.replace(group(uid, alive=alive), prompt=Prompt(uid=str(uid), text="q", task="data", meta=meta))


def mixed() -> list[Group]:
    return [
        of({"data_source": "openai/gsm8k", "verifier": "gsm8k"}, 1),
        of({"data_source": "math", "verifier": "math"}, 2, alive=False),
        of({"data_source": "openai/gsm8k", "verifier": "gsm8k"}, 3, alive=False),
        of({"verifier": "exact"}, 4),
    ]


def test_each_source_has_its_numbers_the_commonest_first() -> None:
    found = by_source(mixed())
    assert list(found) == ["openai_gsm8k", "exact", "math"]
    metrics = of_tasks(mixed(), ())
    assert metrics["task/openai_gsm8k/accuracy"] == 0.25 and metrics["task/math/accuracy"] == 0.0
    results = evaluation(mixed(), sampling=HOW, samples=2).results
    assert results["task/openai_gsm8k/accuracy"] == 0.25 and results["task/exact/pass@2"] == 1.0


def test_one_source_is_the_whole_and_tasks_come_before_sources() -> None:
    assert of_tasks(mixed()[:1], ()) == {} and by_source([]) == {}
    assert {k.split("/")[1] for k in of_tasks(mixed(), ("data", "other"))} == {"data"}


def test_at_most_twelve() -> None:
    groups = [of({"data_source": f"s{min(i, 19):02}"}, i) for i in range(21)]
    found = by_source(groups)
    assert len(found) == SOURCES and next(iter(found)) == "s19"


def test_eval_of_a_file_of_two_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"question": f"{i}+2=", "answer": str(i + 2), "data_source": ("a/b", "c")[i % 2]} for i in range(6)]
    file = tmp_path / "sums.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    command = ["eval", "starter", "--task", "chain_sum", "--data", str(file), "--template", "none"]
    out = tmp_path / "out.json"
    assert main([*command, "--verifier", "exact", "--samples", "1", "--no-greedy", "--output", str(out)]) == 0
    assert "task/a_b/accuracy" in out.read_text() and "task/c/accuracy" in out.read_text()
