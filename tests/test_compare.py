"""The measuring of canned runs, and the runner with a stand-in for training."""

from __future__ import annotations

import fcntl
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rollwise.compare import compare, output
from rollwise.compare.measure import Comparison, table
from rollwise.compare.runner import eval_cadence, kept, last_line, plan
from rollwise.compare.statistics import final_mean
from rollwise.compare.views import View, common_steps
from rollwise.console import PlainConsole
from rollwise.errors import UserError
from rollwise.report.events import Run, read_run
from tests.fake_runs import evaluation, events, write_run

FAKE = [sys.executable, str(Path(__file__).with_name("fake_runs.py"))]


def canned(root: Path, methods: dict[str, int], seeds: range = range(3), **more: Any) -> dict[str, dict[int, Run]]:
    return {
        m: {s: read_run(write_run(root / f"{m}-seed{s}", events(m, s, budget, **more))) for s in seeds}
        for m, budget in methods.items()
    }


def test_view_is_the_prefix(tmp_path: Path) -> None:
    run = canned(tmp_path, {"dapo": 41000}, range(1))["dapo"][0]
    view = View(run, 20000)
    assert view.totals() | {"tokens": 0.0} == {
        "rollouts": 19456.0, "per_step": 1024.0, "steps": 19.0, "updates": 76.0, "rounds_per_step": 4.0, "tokens": 0.0,
    }  # fmt: skip
    assert all(e.rollouts <= 20000 for e in view.evals("rollouts"))
    assert view.evals("rollouts")[0].step == 0 and all(e.step > 0 for e in view.last("rollouts"))
    assert math.isclose(view.final(), final_mean([e.accuracy for e in view.evals("rollouts")[-3:]]))
    assert {e.step for e in view.evals("steps")} == {0, 10}
    assert (
        View(run, 10).end is None and math.isnan(View(run, 10).totals()["steps"]) and math.isnan(View(run, 10).final())
    )


def test_the_end_evaluation_counts_only_on_a_cadence(tmp_path: Path) -> None:
    run = canned(tmp_path, {"grpo": 41400}, range(1))["grpo"][0]
    assert run.evals[-1].on == ("end",)
    assert run.evals[-1] not in View(run, 50000).evals("rollouts") + View(run, 50000).evals("steps")


def test_a_run_without_the_cadence_gives_all_it_has(tmp_path: Path) -> None:
    runs = canned(tmp_path, {"grpo": 12000}, range(1), every_rollouts=None)
    assert len(View(runs["grpo"][0], 12000).evals("rollouts")) == 6
    result = table(runs, methods=["grpo"], seeds=[0], rollouts=12000)
    assert any("eval.every_rollouts" in note for note in result.notes)


def test_common_steps(tmp_path: Path) -> None:
    runs = canned(tmp_path, {"grpo": 20000, "dapo": 41000}, range(1))
    views = [View(r, 10**9) for by_seed in runs.values() for r in by_seed.values()]
    assert common_steps(views) == [10, 20, 30, 40] and common_steps([]) == []


def measured(tmp_path: Path) -> Comparison:
    runs = canned(tmp_path, {"grpo": 41000, "popo": 41000, "dapo": 82000})
    return table(runs, methods=["grpo", "popo", "dapo"], seeds=range(3), rollouts=41000, more={"dapo": 2}, out=tmp_path)


def test_table_rows(tmp_path: Path) -> None:
    result = measured(tmp_path)
    assert [(row.label, row.budget) for row in result.rows] == [
        ("grpo", 41000), ("popo", 41000), ("dapo", 41000), ("dapo ×2", 82000),
    ]  # fmt: skip
    grpo, popo, dapo, double = result.rows
    assert grpo.gap is None and popo.gap is not None and popo.gap.n == 3
    assert math.isclose(popo.gap.mean, popo.final.mean - grpo.final.mean, abs_tol=1e-12)
    assert dapo.totals["steps"] == 40 and double.totals["steps"] == 80 and dapo.totals["rounds_per_step"] == 4
    assert result.step == 80 and [row.label for row in result.step_rows] == ["grpo", "popo", "dapo"]
    assert result.step_rows[0].rollouts == 20480 and result.step_rows[2].rollouts == 81920
    assert 3 <= len(result.targets) <= 5 and min(result.targets) > 0.363
    assert any("longer run" in note for note in result.notes) and result.exit_status == 0


def test_table_is_the_same_in_any_order_of_seeds(tmp_path: Path) -> None:
    runs = canned(tmp_path, {"grpo": 12000, "popo": 12000})
    turned = {m: dict(reversed(by_seed.items())) for m, by_seed in runs.items()}
    one = table(runs, methods=["grpo", "popo"], seeds=[0, 1, 2], rollouts=12000)
    two = table(turned, methods=["grpo", "popo"], seeds=[0, 1, 2], rollouts=12000)
    assert json.dumps(output.to_json(one)) == json.dumps(output.to_json(two))


def test_words_are_honest(tmp_path: Path) -> None:
    runs = canned(tmp_path, {"grpo": 12000, "other": 12000})
    text = "\n".join(
        output.text(table(runs, methods=["grpo", "other"], seeds=[0, 1, 2], rollouts=12000, targets=[0.99]))
    )
    assert "(includes 0)" in text and "not reached (0 of 3)" in text
    for word in ("winner", "best", "beats", "significant", "outperform"):
        assert word not in text


def test_one_seed_has_no_interval(tmp_path: Path) -> None:
    runs = canned(tmp_path, {"grpo": 12000, "popo": 12000}, range(1))
    result = table(runs, methods=["grpo", "popo"], seeds=[0], rollouts=12000)
    text = "\n".join(output.text(result))
    assert "±" not in text and "(1 seed)" in text and "may be chance" in text
    assert output.to_json(result)["rows"][1]["difference"]["includes_zero"] is None


def test_a_longer_run_with_a_schedule_is_refused(tmp_path: Path) -> None:
    runs = canned(tmp_path, {"grpo": 24000}, range(1), schedule="cosine")
    with pytest.raises(UserError, match="schedule is cosine"):
        table(runs, methods=["grpo"], seeds=[0], rollouts=12000, more={"grpo": 2})


def test_nothing_at_all_still_prints(tmp_path: Path) -> None:
    result = table({}, methods=["grpo", "popo"], seeds=[0], rollouts=1000, out=tmp_path)
    output.write(result)
    assert "missing" in "\n".join(output.text(result)) and (tmp_path / "comparison.html").exists()


def test_files(tmp_path: Path) -> None:
    result = measured(tmp_path)
    output.write(result)
    data = json.loads((tmp_path / "comparison.json").read_text())
    assert data["rows"][3]["label"] == "dapo ×2" and data["equal_steps"]["step"] == 80
    assert len(data["rows"][0]["final_by_seed"]) == 3
    assert "| grpo | 41,000 | 3 of 3 |" in (tmp_path / "comparison.md").read_text()
    page = (tmp_path / "comparison.html").read_text()
    assert "Rollouts to a held-out accuracy" in page and "Held-out accuracy by generated rollouts" in page


def test_plan(tmp_path: Path) -> None:
    jobs = plan(["grpo", "dapo"], [0, 1], ["--set", "learner.lr=1e-4"], tmp_path, 41000, {"dapo": 2})
    assert [(j.name, j.budget) for j in jobs] == [
        ("dapo-seed0", 82000), ("dapo-seed1", 82000), ("grpo-seed0", 41000), ("grpo-seed1", 41000),
    ]  # fmt: skip
    text = " ".join(jobs[0].arguments)
    for part in ("method=dapo", "seed=0", f"output={tmp_path}/dapo-seed0", "budget.rollouts=82000", "--quiet"):
        assert part in text
    assert "eval.every_rollouts=2562" in text and eval_cadence(5) == 1
    assert eval_cadence(41000, 256) == 2560, "ten rounds: falls together with every ten steps"
    own = plan(["grpo"], [0], ["--set", "eval.every_rollouts=512"], tmp_path, 41000)[0]
    assert "eval.every_rollouts=2500" not in own.arguments


def test_plan_reads_the_recipe(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("learner: {schedule: linear, schedule_updates: 9}\neval.every_rollouts: 100\n")
    jobs = plan(["grpo"], [0], [str(recipe)], tmp_path / "out", 41000)
    assert not any(a.startswith("eval.every_rollouts") for a in jobs[0].arguments)
    with pytest.raises(UserError, match="schedule is linear"):
        plan(["grpo"], [0], [str(recipe)], tmp_path / "out", 41000, {"grpo": 2})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"methods": []}, "no method"),
        ({"seeds": []}, "no seed"),
        ({"methods": ["a", "a"]}, "given twice"),
        ({"seeds": [1, 1]}, "given twice"),
        ({"seeds": [-1]}, "negative"),
        ({"methods": ["../a"]}, "not the name"),
        ({"rollouts": 0}, "above 0"),
        ({"more": {"x": 2.0}}, "not compared"),
        ({"more": {"grpo": 0.5}}, "at least 1"),
        ({"more": {"grpo": math.nan}}, "at least 1"),
        ({"base_args": ["--set", "seed=3"]}, "set by the comparison"),
        ({"base_args": ["--set=budget.rollouts=3"]}, "set by the comparison"),
    ],
)
def test_plan_refuses(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    call: dict[str, Any] = {"methods": ["grpo"], "seeds": [0], "base_args": [], "out": tmp_path, "rollouts": 1000}
    with pytest.raises(UserError, match=words):
        plan(**call | change)


def test_paths_survive_the_override_syntax(tmp_path: Path) -> None:
    from rollwise.config import parse_override

    for name in ("a: b", "1e5", "#x", "null", "[a", "ü 'q' \"r\""):
        job = plan(["grpo"], [0], [], tmp_path / name, 1000)[0]
        text = next(a for a in job.arguments if a.startswith("output="))
        assert parse_override(text) == {"output": str(job.folder)}


def console() -> PlainConsole:
    import io

    return PlainConsole(io.StringIO())


def said(to: PlainConsole) -> str:
    import io

    assert isinstance(to.stream, io.StringIO)
    return to.stream.getvalue()


def test_runs_and_a_failure_and_going_on(tmp_path: Path) -> None:
    out, first = tmp_path / "out", console()
    base = ["--fail", "popo/1"]
    result = compare(["grpo", "popo"], [0, 1], base, out, 12000, {"popo": 2}, 2, None, first, FAKE)
    assert result.exit_status == 1 and [f.name for f in result.failures] == ["popo-seed1"]
    assert result.failures[0].reason == r"exit status 3: OutOfMemory: \x1b[31mno room for <b>logits</b>"
    assert result.rows[1].final.n == 1 and result.rows[0].final.n == 2
    text = said(first)
    assert "popo-seed1: failed" in text and "Missing: popo-seed1" in text and "grpo-seed0: finished in" in text
    assert "\x1b" not in text and "<b>logits" not in (out / "comparison.html").read_text()
    stamp = (out / "grpo-seed0" / "events.jsonl").stat().st_mtime_ns

    again = console()  # the same command: finished runs stay, the failed one is tried once more
    result = compare(["grpo", "popo"], [0, 1], base, out, 12000, {"popo": 2}, 1, [0.4], again, FAKE)
    assert said(again).count("used again") == 3 and result.targets == (0.4,)
    assert (out / "grpo-seed0" / "events.jsonl").stat().st_mtime_ns == stamp

    with pytest.raises(UserError, match="started differently"):
        compare(["grpo"], [0], base, out, 13000, None, 1, None, console(), FAKE)


def test_a_changed_recipe_is_a_different_run(tmp_path: Path) -> None:
    recipe, out = tmp_path / "r.yaml", tmp_path / "out"
    recipe.write_text("learner: {lr: 0.1}\n")
    compare(["grpo"], [0], [str(recipe)], out, 3000, None, 1, None, console(), FAKE)
    assert len(kept(plan(["grpo"], [0], [str(recipe)], out, 3000))) == 1
    recipe.write_text("learner: {lr: 0.2}\n")
    with pytest.raises(UserError, match="started differently"):
        compare(["grpo"], [0], [str(recipe)], out, 3000, None, 1, None, console(), FAKE)


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "grpo-seed0", events("grpo", 0, 3000))
    with pytest.raises(UserError, match="started differently"):
        compare(["grpo"], [0], [], tmp_path, 3000, None, 1, None, console(), FAKE)
    assert (folder / "events.jsonl").exists()


def test_a_run_that_is_still_going_is_left_alone(tmp_path: Path) -> None:
    """Its comparison may have been killed while it goes on: starting it again would delete its folder."""
    job = plan(["grpo"], [0], [], tmp_path, 3000)[0]
    job.folder.mkdir()
    job.record.parent.mkdir()
    job.record.write_text(json.dumps(job.started_with()))
    (job.folder / "precious").write_text("")
    with (job.folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="still being written by another process"):
            compare(["grpo"], [0], [], tmp_path, 3000, None, 1, None, console(), FAKE)
        assert (job.folder / "precious").exists()
    compare(["grpo"], [0], [], tmp_path, 3000, None, 1, None, console(), FAKE)
    assert not (job.folder / "precious").exists(), "an unfinished run that nobody writes is started again"


def test_bad_calls(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="target 2"):
        compare(["grpo"], [0], [], tmp_path, 3000, None, 1, [2.0], console(), FAKE)
    with pytest.raises(UserError, match="0 jobs"):
        compare(["grpo"], [0], [], tmp_path, 3000, None, 0, None, console(), FAKE)
    with pytest.raises(UserError, match="cannot start"):
        compare(["grpo"], [0], [], tmp_path, 3000, None, 1, None, console(), [str(tmp_path / "no such")])


def test_a_run_that_ends_without_a_stop_is_missing(tmp_path: Path) -> None:
    script = tmp_path / "t.py"
    script.write_text("print('bye')\n")
    result = compare(["grpo"], [0], [], tmp_path / "o", 3000, None, 1, None, console(), [sys.executable, str(script)])
    assert result.exit_status == 1 and "no such run folder" in result.failures[0].reason


def test_last_line(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    assert "cannot be read" in last_line(log)
    log.write_bytes(b"\n \n")
    assert "empty" in last_line(log)
    log.write_bytes(b"a\nb\xff\x1b\n\n")
    assert last_line(log) == "b\ufffd\\x1b"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_ends_the_children(tmp_path: Path, number: int) -> None:
    out = tmp_path / "out"
    code = (
        "import sys; from pathlib import Path; from rollwise.compare import compare; from rollwise.console import *\n"
        f"compare(['grpo', 'popo'], [0], ['--slow', 'popo'], Path({str(out)!r}), 12000, None, 2, None, "
        f"open_console(), {FAKE!r})"
    )
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    record = out / "logs" / "grpo-seed0.json"
    while not (out / "popo-seed0" / "started").exists() or "finished" not in record.read_text():
        assert process.poll() is None and time.monotonic() - began < 30
        time.sleep(0.05)
    process.send_signal(number)
    text, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    assert "interrupted" in text and "Traceback" not in errors
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=False).stdout
    assert os.fspath(out) not in listing

    later = console()  # the interrupted run starts afresh, the finished one is kept
    with pytest.raises(UserError, match="started differently"):
        compare(["grpo", "popo"], [0], [], out, 12000, None, 1, None, later, FAKE)
    jobs = plan(["grpo", "popo"], [0], ["--slow", "popo"], out, 12000)
    assert list(kept(jobs)) == ["grpo-seed0"]


def test_reading_evaluations_given_twice(tmp_path: Path) -> None:
    lines = events("grpo", 0, 3000)
    at = next(i for i, line in enumerate(lines) if line["event"] == "eval" and line["step"] == 10)
    lines[at]["on"] = ["steps"]
    lines.insert(at + 1, evaluation(10, 2560, 0.4, ["rollouts"]))
    run = read_run(write_run(tmp_path / "a", lines))
    assert [e.on for e in run.evals if e.step == 10] == [("steps", "rollouts")]
