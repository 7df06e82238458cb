"""Reading run folders and the page made of them."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwise.errors import UserError
from rollwise.records import Outcome
from rollwise.report.curves import accuracy_line, binned, families, over_seeds
from rollwise.report.events import Step, read_run, saved_rollouts
from rollwise.report.page import page, run_sections, write_report, write_text
from rollwise.report.samples import sample_groups
from rollwise.report.summary import OUTCOMES, ledger_table, outcome_words, refill_sentence
from rollwise.report.svg import Axis, Line, area_chart, bar_chart, line_chart, log_ticks, ticks
from rollwise.report.tables import Table
from rollwise.report.wording import brief, clean, count, share
from tests.fake_runs import events, fake_run, group, write_run

HOSTILE = "</pre><script>alert(1)</script>\"'&\u202e\x1b[31m\x00\ud800"


def test_read_run(tmp_path: Path) -> None:
    run = read_run(fake_run(tmp_path / "a", "popo", 3, 12000))
    assert (run.method, run.seed, run.last_step, run.rollouts) == ("popo", 3, 46, 11776)
    assert run.stop is not None and run.stop.reason == "budget.rollouts"
    assert run.evals[0].on == ("start",) and math.isclose(run.evals[0].accuracy, 0.363)
    assert math.isnan(run.steps[0].metrics["replay/age_mean"])  # null in the file
    assert run.notes == ()


def test_a_run_still_going_and_a_torn_line(tmp_path: Path) -> None:
    lines = events("popo", 0, 12000)
    folder = write_run(tmp_path / "a", lines[:20])
    assert read_run(folder).stop is None
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"event":"step","step":99,"upd\xc3')
    run = read_run(folder)
    assert run.last_step < 99 and "never finished" in run.notes[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{nonsense}", "not JSON"),
        ("[1]", "every line is an object"),
        ('{"step": 1}', "'event' is missing"),
        ('{"event": "eval", "step": 1}', "'rollouts' is missing"),
        ('{"event": "step", "step": "x", "ledger": {}}', "not an event"),
        ("[" * 100000, "not JSON"),
    ],
)
def test_broken_lines_are_named(tmp_path: Path, line: str, words: str) -> None:
    folder = fake_run(tmp_path / "a")
    path = folder / "events.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], line, *lines[4:]]) + "\n")
    with pytest.raises(UserError, match=re.escape(words)) as error:
        read_run(folder)
    assert "events.jsonl line 5:" in str(error.value) and "\n" not in str(error.value)


def test_not_a_run_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such run folder"):
        read_run(tmp_path / "none")
    with pytest.raises(UserError, match="not a run folder"):
        read_run(tmp_path)
    (tmp_path / "events.jsonl").touch()
    with pytest.raises(UserError, match="holds no 'run' event"):
        read_run(tmp_path)


def test_resumed_run_keeps_the_later_account(tmp_path: Path) -> None:
    lines = events("grpo", 0, 12000)
    early = [line for line in lines if line.get("step", 0) <= 25 and line["event"] != "stop"]
    again = [line for line in lines if line.get("step", 0) > 20]
    run = read_run(write_run(tmp_path / "a", [*early, *again]))
    assert [s.step for s in run.steps] == list(range(1, 47))
    assert [e.step for e in run.evals] == sorted({e.step for e in run.evals})
    assert run.stop is not None and "resumed" in run.notes[0]


def test_unknown_events_and_schema(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = events("grpo", 0, 5000)
    lines[0]["schema"] = 2
    lines.insert(2, {"event": "weather"})
    lines.insert(3, {"event": "config", "config": {"method": "grpo", "extra": 1}})
    run = read_run(write_run(tmp_path / "a", lines))
    assert len(run.notes) == 2 and run.config["extra"] == 1


def test_ledger_lines(tmp_path: Path) -> None:
    text = "\n".join(ledger_table(read_run(fake_run(tmp_path / "a", "popo", 0, 41000))))
    for words in ("trained", "all right", "all wrong", "replayed, besides", "evaluation, besides", "estimated"):
        assert words in text
    assert "160 steps, 640 optimizer updates, 160 generation rounds." in text
    assert "Stopped by budget.rollouts" in text and "surplus" not in text
    assert set(OUTCOMES) == {o.value for o in Outcome}


def test_refill_wording() -> None:
    assert "No batch" in refill_sentence({})
    ledger = {"generated": {"rollouts": 1000}, "refill": {"rollouts": 1500.2, "unknown": 1}}
    text = refill_sentence(ledger)
    assert "an estimated 1,500 more rollouts, 2.5 times the total; 1 slot of steps" in text


def piloted(folder: Path, **pilot: Any) -> Any:
    lines = events("pilot-commit", 0, 5000)
    lines[0]["config"] |= {"allocation": {"kind": "pilot", "pilot": pilot}}
    return read_run(write_run(folder, lines))


def test_pilots_outside_their_band_have_signal(tmp_path: Path) -> None:
    run, plain = piloted(tmp_path / "a"), read_run(fake_run(tmp_path / "b", "grpo"))
    text = "\n".join(ledger_table(run))
    assert "pilot above its band" in text and "pilot below its band" in text and "no signal" not in text
    assert outcome_words([plain]) == OUTCOMES
    both = outcome_words([run, plain])["dropped_easy"]
    assert both == "no signal: all right, or pilot above its band"
    assert outcome_words([piloted(tmp_path / "c", train_on="commit")])["dropped_easy"] == both
    assert "pilot above its band" in page("t", run_sections([run]))


def test_saved_are_the_slots_that_replay_filled(tmp_path: Path) -> None:
    lines = events("popo", 0, 5000)
    assert saved_rollouts(read_run(write_run(tmp_path / "a", lines))) == 0
    steps = [line for line in lines if line["event"] == "step"]
    for i, line in enumerate(steps):
        line["ledger"]["refill"]["rollouts"] = 100.0 * (i + 1)
        line["metrics"] |= {"replay/slots_empty": 10.0, "replay/slots_filled": 4.0}
    run = read_run(write_run(tmp_path / "b", lines))
    assert saved_rollouts(run) == pytest.approx(40 * len(steps))
    words = f"Replay filled slots that would have cost an estimated {40 * len(steps)} of those."
    assert words in " ".join("\n".join(ledger_table(run)).split())


def with_metrics(folder: Path, metrics: dict[str, Any], config: dict[str, Any] | None = None) -> str:
    """The page of a run whose steps have these numbers; a function makes one of the number of the step."""
    lines = events("grpo", 0, 5000)
    lines[0]["config"] |= config or {}
    for number, line in enumerate((line for line in lines if line["event"] == "step"), 1):
        line["metrics"] |= {k: v(number) if callable(v) else v for k, v in metrics.items()}
    return page("t", run_sections([read_run(write_run(folder, lines))]))


def test_figures_of_parts_are_there_where_the_run_has_the_part(tmp_path: Path) -> None:
    parts = {
        "curriculum/dropped": (lambda step: float(step), "Prompts left out of it"),
        "mopps/predicted": (0.5, "Success rate predicted for the drawn"),
        "task/a/mopps/seen": (9.0, "Prompts with evidence, a"),
        "task/a/accuracy": (0.5, "Accuracy of training rollouts, a"),
        "curriculum/stage": (lambda step: 1.0 + (step > 3), "stage 2 at step 4"),
        "pilot/kept": (0.5, "Pilots within their band"),
        "pilot/waiting": (2.0, "Pilots that wait for their commit"),
        "value/loss": (0.5, "Value loss"),
        "value/explained_variance": (-0.5, "Explained variance of the returns"),
        "replay/reservoir_share": (0.25, "Share of them from the reservoir"),
        "replay/bytes": (4e4, "Stored rollouts: ids, log-probs, texts"),
        "allocation/bytes": (1e4, "Bytes of what waits"),
    }
    whole = with_metrics(
        tmp_path / "a",
        {**{name: value for name, (value, _) in parts.items()}, "pilot/prompts": 8.0, "replay/share": 0.5},
    )
    without = with_metrics(tmp_path / "b", {})
    for words in (title for _, title in parts.values()):
        assert words in whole and words not in without
    assert Page(whole).reach == []


def test_a_weight_is_shown_where_it_is_applied(tmp_path: Path) -> None:
    weights = {"weight/mean": 1.1, "weight/p99": 3.0, "weight/max": 5.0, "weight/applied_mean": 1.05}

    def shown(name: str, objective: dict[str, Any], kind: str = "fixed") -> str:
        return with_metrics(tmp_path / name, weights, {"objective": objective, "allocation": {"kind": kind}})

    assert "Importance weights" not in shown("clipped", {"kind": "clipped"})
    assert "Importance weights" not in shown("cispo", {"kind": "cispo", "behaviour_weight": False})
    plain = shown("decoupled", {"kind": "decoupled", "weight_cap": None})
    assert "weight of replayed tokens" in plain and "capped at" not in plain
    capped = shown("pilots", {"kind": "decoupled", "weight_cap": 2.0}, "pilot")
    assert "weight of older tokens" in capped and "mean, capped at 2.0" in capped
    assert "weight of replayed tokens" in shown("gspo", {"kind": "sequence", "behaviour_weight": True})
    assert "ratio of replayed tokens before the update" in shown("behaviour", {"kind": "behaviour"})


def test_empty_ledger_prints(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "a", events("grpo", 0, 5000)[:1]))
    assert "No stop event" in "\n".join(ledger_table(run))


class Page(HTMLParser):
    """Checks nesting and collects what could reach out of the page."""

    void = frozenset({"meta", "br", "link", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.reach: list[str] = []
        self.ids: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids += [v or "" for k, v in attrs if k == "id"]
        self.reach += [k for k, _ in attrs if k in ("src", "href", "srcset", "data", "action") or k.startswith("on")]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.void:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def hostile_run(folder: Path) -> Path:
    lines = events("popo", 0, 12000)
    lines[0] |= {"method": HOSTILE, "task": HOSTILE, "model": HOSTILE}
    lines[0]["config"] |= {"method": HOSTILE, HOSTILE: HOSTILE}
    lines[3]["notes"] = [HOSTILE]
    lines[-1]["reason"] = lines[-1]["detail"] = HOSTILE
    for line in lines:
        if line["event"] == "eval":
            line["results"][HOSTILE] = 0.5
            line["on"].append(HOSTILE)
            line["sampling"][HOSTILE] = HOSTILE
    write_run(folder, lines)
    groups = [group(i, HOSTILE, HOSTILE) for i in range(1, 9)]
    groups[0]["prompt"]["messages"] = [{"role": HOSTILE, "content": HOSTILE}]
    groups[0]["rollouts"][0]["verdict"] = {"kind": HOSTILE, "score": 0, "detail": HOSTILE}
    text = "".join(json.dumps(g) + "\n" for g in groups) + "broken\n"
    (folder / "rollouts.jsonl").write_text(text)
    return folder


def test_page_is_whole_and_reaches_nowhere(tmp_path: Path) -> None:
    folders = [fake_run(tmp_path / f"{m}-{s}", m, s, 20000) for m in ("grpo", "popo", "dapo") for s in range(2)]
    folders.append(hostile_run(tmp_path / "<script>x"))
    out = tmp_path / "deep" / "report.html"
    write_report(folders, out)
    text = out.read_text(encoding="utf-8")
    read = Page(text)
    assert read.reach == [] and "script" not in read.tags and "url(" not in text and "http://" not in text
    assert len(read.ids) == len(set(read.ids))
    assert not any(char in text for char in "\x1b\x00\u202e")
    for words in ("prefers-color-scheme", "generated rollouts", "all right", "all wrong", "<desc", "Every rollout"):
        assert words in text
    assert [p.name for p in out.parent.iterdir()] == ["report.html"]  # no temporary file left
    assert text.count("&lt;script&gt;alert(1)") > 20


def test_page_is_deterministic_and_alone(tmp_path: Path) -> None:
    folder = fake_run(tmp_path / "a", "popo", 0, 12000)
    write_report([folder], tmp_path / "1.html")
    write_report([folder], tmp_path / "2.html")
    assert (tmp_path / "1.html").read_bytes() == (tmp_path / "2.html").read_bytes()
    assert b"Importance weights" in (tmp_path / "1.html").read_bytes()


def test_tasks_and_signs_of_reflection_have_curves_where_there_are_any(tmp_path: Path) -> None:
    lines = events("popo", 0, 12000)
    write_run(tmp_path / "plain", lines)
    write_report([tmp_path / "plain"], tmp_path / "plain.html")
    plain = (tmp_path / "plain.html").read_text()
    for n, line in enumerate(lines):
        if line["event"] == "step":
            line["metrics"] |= {"reflection/recheck/share": 0.01 * n, "reflection/hesitation/share": 0.0}
        if line["event"] == "eval":
            line["results"] |= {f"task/{HOSTILE}/accuracy": 0.5, "task/b/accuracy": 0.4, "reflection/recheck/share": 0}
    write_run(tmp_path / "rich", lines)
    write_report([tmp_path / "rich"], tmp_path / "rich.html")
    text = (tmp_path / "rich.html").read_text()
    assert Page(text).reach == []
    for words, times in (("Responses with recheck", 2), ("Responses with hesitation", 0), ("b: held-out accuracy", 2)):
        assert text.count(words) >= times > 0 or text.count(words) == times
        assert words not in plain
    assert "Signs of reflection" in text and "Signs of reflection" not in plain
    assert "reflection/recheck/share" not in text


def test_page_of_a_run_that_only_started(tmp_path: Path) -> None:
    lines = events("grpo", 0, 5000)
    for n in (1, 2, 3, 4):
        write_report([write_run(tmp_path / f"a{n}", lines[:n])], tmp_path / "r.html")
        Page((tmp_path / "r.html").read_text())


def test_page_refuses(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run folder"):
        write_report([], tmp_path / "r.html")
    with pytest.raises(UserError, match="is a folder"):
        write_text(tmp_path, "x")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        write_text(tmp_path / "file" / "r.html", "x")


def test_samples_of_a_short_file_are_not_shown_twice(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    for n, ends in ((0, (0, 0)), (2, (2, 0)), (4, (3, 1)), (9, (3, 3))):
        path.write_text("".join(json.dumps(group(i, "x")) + "\n" for i in range(n)))
        first, last = sample_groups(path)
        assert (len(first), len(last)) == ends
        steps = [g["step"] for g in first + last]
        assert steps == sorted(set(steps))


def test_families_share_a_setting(tmp_path: Path) -> None:
    runs = [read_run(fake_run(tmp_path / f"{m}{s}", m, s, 12000)) for s in (0, 1) for m in ("grpo", "popo")]
    lines = events("popo", 5, 12000)
    lines[0]["config"]["learner"]["lr"] = 1e-4
    runs.append(read_run(write_run(tmp_path / "other", lines)))
    labels = [family.label for family in families(runs)]
    assert labels == ["grpo", "popo (learner.lr=0.0002)", "popo (learner.lr=0.0001)"]
    line = accuracy_line(families(runs)[0], rollouts=True)
    assert len(line.points) == len(line.band) > 3 and line.label == "grpo, 2 runs"


def test_mean_over_seeds_is_taken_on_the_shared_part() -> None:
    points, band = over_seeds([[(0.0, 0.0), (10.0, 10.0)], [(5.0, 0.0), (20.0, 15.0)]])
    assert points == [(5.0, 2.5), (10.0, 7.5)]
    assert band == [(5.0, 0.0, 5.0), (10.0, 5.0, 10.0)]
    assert over_seeds([]) == ([], [])


def test_binning_keeps_the_extremes_of_maxima() -> None:
    steps = [Step(step=i, updates=i, ledger={}, metrics={"weight/max": float(i % 7)}) for i in range(1, 15)]
    assert binned(steps, "weight/max", 7, max) == [(4.0, 6.0), (11.0, 6.0)]


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_ticks_enclose_the_data(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    marks = ticks(low, high)
    room = 1e-6 * max(abs(low), abs(high), 1e-9)
    assert marks[0] <= low + room and marks[-1] >= high - room and 2 <= len(marks) <= 12
    assert marks == sorted(set(marks))


@given(st.floats(1e-12, 1e12), st.floats(1e-12, 1e12))
def test_log_ticks_enclose_the_data(a: float, b: float) -> None:
    marks = log_ticks(min(a, b), max(a, b))
    assert marks[0] <= min(a, b) * 1.001 and marks[-1] >= max(a, b) * 0.999 and 2 <= len(marks) <= 9


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(allow_nan=True, allow_infinity=True)), max_size=8), st.booleans()
)
def test_charts_take_any_number(points: list[tuple[float, float]], log: bool) -> None:
    lines = [Line(label="a", points=sorted(points)), Line(label="b", points=[])]
    for chart in (
        line_chart("c", "t", lines, Axis(label="x"), Axis(label="y", log=log)),
        area_chart("c", "t", lines[:1], Axis(label="x"), Axis(label="y", low=0.0, high=1.0)),
    ):
        assert "nan" not in re.sub(r"<desc.*?</desc>", "", chart) and "inf" not in re.sub(r"<desc.*?</desc>", "", chart)


def test_bars() -> None:
    assert bar_chart("c", "t", [("a", [0.0])], [("x", 0)]) == ""
    chart = bar_chart("c", "t", [("a" * 50, [1.0, 0.0]), ("b", [2.0, 2.0])], [("x", 0), ("<y>", 1)])
    assert chart.count("<rect") == 3 and "&lt;y&gt;" in chart


def test_tables_escape_each_for_itself() -> None:
    table = Table(title="T|*", columns=["a", "b"], rows=[["x|<b>\n", "1"]], notes=["n_"])
    assert table.text()[3] == "  x|<b>   1"
    assert r"| x\|\<b\>  | 1 |" in table.markdown()
    assert "<td>x|&lt;b&gt; </td>" in table.html()


def test_wording() -> None:
    assert (count(41000), share(0.292), brief(25000), brief(999), brief(0.25)) == (
        "41,000",
        "29.2 %",
        "25 K",
        "999",
        "0.25",
    )
    assert count(None) == share(math.nan) == brief(math.inf) == count("x") == count(True) == "-"
    assert clean("a\x1b[0m\n\u202eb\ud800") == "a\\x1b[0m \\u202eb\\ud800"
    assert clean("abcdef", 3) == "abc..."


def test_reports_import_neither_torch_nor_numpy() -> None:
    modules = "rollwise.report.page, rollwise.report.summary, rollwise.console, rollwise.compare"
    heavy = "{'torch', 'transformers', 'numpy', 'rich', 'matplotlib', 'scipy'}"
    code = f"import sys, {modules}; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
