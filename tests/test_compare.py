"""Statistics with goldens, the measuring of canned runs, and the runner with a stand-in for training."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fake_runs import evaluation, events, write_run
from hypothesis import given
from hypothesis import strategies as st

from rollwise.compare import compare, output
from rollwise.compare.measure import Comparison, table
from rollwise.compare.runner import eval_cadence, kept, last_line, plan
from rollwise.compare.statistics import (
    final_mean,
    first_of_two,
    interval,
    paired,
    reached,
    round_targets,
    t_quantile,
)
from rollwise.compare.views import View, common_steps
from rollwise.console import PlainConsole
from rollwise.errors import UserError
from rollwise.report.events import Run, read_run

FAKE = [sys.executable, str(Path(__file__).with_name("fake_runs.py"))]
values = st.floats(-10, 10)


@pytest.mark.parametrize(
    ("df", "t"),
    [
        (1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (6, 2.447), (7, 2.365), (8, 2.306), (9, 2.262),
        (10, 2.228), (15, 2.131), (20, 2.086), (29, 2.045), (30, 2.042), (60, 2.000), (120, 1.980), (10000, 1.960),
    ],
)  # fmt: skip
def test_t_quantile(df: int, t: float) -> None:
    assert round(t_quantile(df), 3) == t


def test_t_quantile_falls_and_refuses() -> None:
    row = [t_quantile(df) for df in range(1, 60)]
    assert row == sorted(row, reverse=True)
    with pytest.raises(ValueError, match="at least 1"):
        t_quantile(0)


def test_interval() -> None:
    got = interval([1.0, 2.0, 3.0])
    assert (got.mean, got.n) == (2.0, 3) and math.isclose(got.half, 4.302652729911275 / math.sqrt(3), rel_tol=1e-9)
    assert interval([1.0]).half != interval([1.0]).half and interval([1.0]).mean == 1.0
    assert math.isnan(interval([]).mean) and interval([math.nan, 2.0]).n == 1
    assert interval([2.0, 2.0]).half == 0


def test_paired_difference_of_six_seeds() -> None:
    grpo = dict(enumerate([0.520, 0.518, 0.517, 0.524, 0.518, 0.552]))
    popo = dict(enumerate([0.599, 0.596, 0.582, 0.619, 0.575, 0.582]))
    gap = paired(popo, grpo)
    assert (round(gap.mean, 4), round(gap.half, 4), gap.agreeing, gap.n) == (0.0673, 0.0236, 6, 6)
    assert not gap.includes_zero


@given(
    st.dictionaries(st.integers(0, 20), values, min_size=1), st.dictionaries(st.integers(0, 20), values), st.randoms()
)
def test_pairing_ignores_order_and_is_antisymmetric(a: dict[int, float], b: dict[int, float], r: random.Random) -> None:
    shuffled = list(a.items())
    r.shuffle(shuffled)
    one, two, back = paired(a, b), paired(dict(shuffled), b), paired(b, a)
    assert repr(one) == repr(two)
    assert one.n == back.n == len(a.keys() & b.keys())
    if one.n:
        assert one.mean == -back.mean and one.agreeing == back.agreeing <= one.n
    if one.n > 1:
        assert math.isclose(one.half, back.half, rel_tol=1e-9, abs_tol=1e-12) and one.half >= 0


@given(st.lists(values, min_size=2), st.randoms())
def test_interval_ignores_order(sample: list[float], r: random.Random) -> None:
    mixed = sample[:]
    r.shuffle(mixed)
    assert interval(sample).mean == interval(mixed).mean
    assert math.isclose(interval(sample).half, interval(mixed).half, rel_tol=1e-9, abs_tol=1e-12)


@given(st.dictionaries(st.integers(0, 9), values, min_size=2), st.floats(-5, 5))
def test_a_shift_common_to_a_seed_cancels(a: dict[int, float], shift: float) -> None:
    moved = {s: v + shift for s, v in a.items()}
    assert math.isclose(paired(moved, a).mean, shift, abs_tol=1e-9)
    assert paired(moved, a).half < 1e-7


def test_final_mean_handles_fewer() -> None:
    assert final_mean([9.0, 1.0, 2.0, 3.0]) == 2.0
    assert final_mean([1.0, 2.0]) == 1.5 and math.isnan(final_mean([]))


def test_first_of_two_consecutive() -> None:
    points = [(0.0, 0.1), (1.0, 0.5), (2.0, 0.4), (3.0, 0.5), (4.0, 0.6)]
    assert first_of_two(points, 0.5) == 3.0
    assert first_of_two(points, 0.6) is None  # the last alone is not enough
    assert first_of_two(points, 0.1) == 0.0 and first_of_two([], 0.1) is None


def test_median_counts_those_that_never_arrive() -> None:
    assert reached([10.0, None, 30.0]).median == 30.0
    assert reached([10.0, 20.0]).median == 15.0
    assert reached([10.0, None]).median == math.inf and reached([10.0, None]).reached == 1
    assert reached([None, None]).median == math.inf and math.isnan(reached([]).median)


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_a_failure_never_improves_the_median(places: list[float]) -> None:
    assert reached([*places, None]).median >= reached([*places, max(places)]).median


def test_default_targets() -> None:
    assert round_targets(0.363, 0.58) == [0.4, 0.45, 0.5, 0.55]
    assert round_targets(0.5, 0.5) == [] and round_targets(math.nan, 0.5) == []


@given(st.floats(0, 1), st.floats(0, 1))
def test_default_targets_lie_between(start: float, best: float) -> None:
    targets = round_targets(start, best)
    assert len(targets) <= 5 and targets == sorted(set(targets))
    assert all(start < t <= best + 1e-9 for t in targets)


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
    assert "eval.every_rollouts=2500" in text and eval_cadence(41000) == 2500 and eval_cadence(5) == 1
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
