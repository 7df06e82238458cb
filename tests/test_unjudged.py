"""Where no completion gets a verdict nothing is called wrong, and the run says why."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from rollwise.cli.main import main
from rollwise.console import PlainConsole
from rollwise.evaluate import summarise
from rollwise.metrics import of_groups, unjudged
from rollwise.records import Group, Prompt, Rollout, StepRecord, Verdict, VerdictKind
from rollwise.report.page import write_report
from rollwise.verify.scoring import infra_error, rewarded
from tests.conftest import Finished
from tests.models import tiny_model
from tests.pilots import member

Train = Callable[..., Finished]
RIGHT = Verdict(kind=VerdictKind.correct, score=1.0)
WRONG = Verdict(kind=VerdictKind.wrong, score=0.0)
FAILED = infra_error("f: ZeroDivisionError: division by zero")


def group(uid: str, *verdicts: Verdict) -> Group:
    prompt = Prompt(uid=uid, text=uid)
    members: list[Rollout] = [rewarded(member(prompt, i, "wrong", 1), v) for i, v in enumerate(verdicts)]
    return Group(uid=prompt.group_uid, prompt=prompt, rollouts=tuple(members))


def test_groups_without_a_verdict_are_not_all_wrong() -> None:
    found = of_groups(
        [group("a", FAILED, FAILED), group("b", WRONG, WRONG), group("c", RIGHT), group("d", RIGHT, WRONG)]
    )
    shares = [found[f"dead/{name}"] for name in ("all_right", "all_wrong", "unjudged")]
    assert shares == [0.25, 0.25, 0.25] and sum(shares) == found["frac_reward_zero_std"]
    none = of_groups([group("a", FAILED, FAILED)])
    assert none["dead/all_wrong"] == 0 and none["dead/unjudged"] == 1
    assert math.isnan(none["reward"]) and math.isnan(none["accuracy"])
    assert of_groups([])["reward"] == 0


def test_an_evaluation_without_a_verdict_has_no_accuracy() -> None:
    results = summarise([group("a", FAILED, FAILED)], 2)
    assert all(math.isnan(results[name]) for name in ("accuracy", "reward", "pass@1", "pass@2"))
    assert results["infra_error"] == 1
    partly = summarise([group("a", FAILED, RIGHT), group("b", FAILED, FAILED)], 2)
    assert partly["accuracy"] == partly["pass@1"] == 1 and math.isnan(partly["pass@2"])


def test_the_note_counts_them_and_gives_the_first_reason() -> None:
    said = "verifier gave no verdict for 2 of 4 rollouts: f: ZeroDivisionError: division by zero"
    assert unjudged([group("a", FAILED, RIGHT), group("b", RIGHT, infra_error("other"))]) == said
    assert unjudged([group("a", *[RIGHT] * 11, FAILED)]) == unjudged([]) == ""


def test_a_run_whose_rewards_all_fail_says_why(train: Train, tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text("def f(completion: str):\n    return 1 / 0\n")
    settings = {"budget.steps": 1, "reward.function": f"{tmp_path / 'r.py'}:f", "eval.every": 1}
    done = train("grpo", settings)
    (step,) = done.steps
    count = step["ledger"]["generated"]["rollouts"]
    want = f"verifier gave no verdict for {count} of {count} rollouts: f: ZeroDivisionError: division by zero"
    assert want in step["notes"]
    assert step["metrics"]["reward"] is None and step["metrics"]["dead/unjudged"] == 1
    assert step["metrics"]["dead/all_wrong"] == 0
    assert all(e["results"]["accuracy"] is None and "no verdict for" in e["note"] for e in done.evals)
    stream = io.StringIO()
    console = PlainConsole(stream)
    console.started({"budget": {"steps": 1}})
    console.step(StepRecord.from_json(step))
    console.evaluated(done.evals[-1])
    shown = stream.getvalue()
    assert want in shown and "reward -" in shown and "all wrong 0 %, none judged 100 %" in shown
    assert "held-out accuracy - (none judged)" in shown
    write_report([done.folder], tmp_path / "report.html")
    assert "none judged" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("data", [False, True])
def test_rollwise_eval_of_what_nothing_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.py").write_text("import os\ndef f(completion: str):\n    os.chdir('/')\n    return 1 / 0\n")
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"nums": [1, 2, 3], "target": 6}\n')
    model = str(tiny_model(tmp_path / "model", "Qwen3")) if data else "starter"
    argv = ["eval", model, "--samples", "1", "--set", f"reward={tmp_path / 'r.py'}:f"]
    argv += ["--data", str(rows), "--verifier", "countdown"] if data else ["--task", "countdown", "--prompts", "2"]
    argv += ["--set", "sampling.max_completion_length=4", "--output", "out.json"]
    for more in ([], ["--json"]):
        monkeypatch.chdir(tmp_path)
        assert main([*argv, *more]) == 0, capsys.readouterr().err
        out = capsys.readouterr().out
        assert "nan" not in out.lower().replace("countdown", "")
        written = (tmp_path / "out.json").read_text()
        assert "NaN" not in written and json.loads(written)
