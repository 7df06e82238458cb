"""The three consoles: live, plain, silent."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest

from rollwise.console import Console, LiveConsole, PlainConsole, State, open_console
from rollwise.records import StepRecord
from tests.fake_runs import events


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def play(console: Console, lines: list[dict[str, Any]]) -> None:
    with console:
        for line in lines:
            if line["event"] == "run":
                console.started(line["config"], line["derived"])
            elif line["event"] == "step":
                console.step(StepRecord.from_json(line), {"generate": 0.5, "learn": 0.25})
            elif line["event"] == "eval":
                console.evaluated(line)
            else:
                console.stopped(line)


def test_kind_follows_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert isinstance(open_console(stream=Terminal()), LiveConsole)
    assert isinstance(open_console(stream=io.StringIO()), PlainConsole)
    assert type(open_console(quiet=True, stream=Terminal())) is Console
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(open_console(stream=Terminal()), PlainConsole)


def test_plain_lines() -> None:
    out = io.StringIO()
    play(PlainConsole(out), events("popo", 0, 12000))
    text = out.getvalue()
    lines = text.splitlines()
    assert lines[0] == "popo on sort_digits, model starter, seed 0; budget 12,000 rollouts"
    assert sum(line.startswith("evaluation at step") for line in lines) == 6
    assert sum(line.startswith("step ") for line in lines) == 9  # 46 steps, one line in 5
    assert any("all right" in line and "all wrong" in line and "replay" in line for line in lines)
    assert lines[-2].startswith("stopped by budget.rollouts (11,776 of 12,000")
    assert "(estimated)" in lines[-1]
    assert all(char.isprintable() or char == "\n" for char in text)


def test_plain_foreign_text_and_narrow_encoding() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", newline="\n")
    console = PlainConsole(out)
    console.started({"method": "p\x1b[31m\n", "task": "täsk", "budget": {"steps": 3}}, {})
    console.note("\x1b]0;title\x07 [bold]x[/bold] \u202e \ud800")
    console.say(["±"])
    assert raw.getvalue().decode("ascii").count("\n") == 3
    assert b"\x1b" not in raw.getvalue()


def test_live_panel_shows_what_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    out = Terminal()
    play(open_console(stream=out), events("popo", 0, 12000))
    text = out.getvalue()
    for words in (
        "of 12,000 rollouts",
        "held-out accuracy",
        "all right",
        "all wrong",
        "replay",
        "age mean",
        "(estimated)",
    ):
        assert words in text
    assert text.rstrip().endswith("the next step needs 256)")
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h")  # the cursor is given back


def test_live_markup_is_text_and_board(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    out = Terminal()
    with open_console(stream=out) as console:
        console.board([("[red]a[/red]", 0.5, "step 1"), ("b", math.nan, "\x1b[2J")])
        console.note("[bold]kept[/bold]")
        console.say(["a line"])
    text = out.getvalue()
    assert "[red]a[/red]" in text and "[bold]kept[/bold]" in text and "a line" in text and "\x1b[2J" not in text


@pytest.mark.parametrize("make", [Console, lambda: PlainConsole(io.StringIO()), lambda: LiveConsole(Terminal())])
@pytest.mark.parametrize("bad", [math.nan, math.inf, None, "text", -1, 10**400])
def test_never_fails_on_odd_numbers(make: Any, bad: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    names = ["reward", "dead/all_right", "dead/all_wrong", "replay/share", "replay/age_mean", "replay/age_max"]
    ledger = {"generated": {"rollouts": bad, "tokens": bad}, "refill": {"rollouts": bad}, "replayed": bad}
    with make() as console:
        console.step(StepRecord(step=1, updates=0, ledger={}, metrics={}), None)  # before it was started
        console.started({"budget": {"rollouts": bad, "steps": bad, "seconds": 3}}, {"rollouts_per_step": bad})
        console.step(StepRecord(step=1, updates=1, ledger=ledger, metrics=dict.fromkeys(names, bad)), {"a": bad})
        console.step(StepRecord(step=10, updates=1, ledger=ledger, metrics={"replay/share": 0.5}), bad)
        console.evaluated({"step": bad, "results": {"accuracy": bad}})
        console.evaluated({})
        console.stopped({})


def test_nearest_budget_and_line_distance() -> None:
    state = State()
    state.start(
        {"budget": {"rollouts": 41000, "tokens": None, "steps": 100, "seconds": None}}, {"rollouts_per_step": 256}
    )
    ledger = {"generated": {"rollouts": 2560, "tokens": 9}}
    state.take(StepRecord(step=10, updates=40, ledger=ledger, metrics={}), {"generate": 1.0})
    assert state.nearest() == ("steps", 10.0, 100.0)
    assert state.every() == 5
    state.budget = {"rollouts": 41000.0}
    assert state.every() == 10 and state.budget_text() == "2,560 of 41,000 rollouts"
    state.budget = {"tokens": 1e6}
    assert state.every() == 10


def step(number: int, refill: float, **metrics: float) -> StepRecord:
    ledger = {"refill": {"rollouts": refill}, "replayed": {"rollouts": 8}}
    found = {name.replace("__", "/"): value for name, value in metrics.items()}
    return StepRecord(step=number, updates=number, ledger=ledger, metrics=found)


def test_only_slots_that_replay_filled_are_called_saved() -> None:
    state = State()
    state.take(step(1, 500.4), None)
    cost = "full batches would cost about 500 rollouts more (estimated)"
    assert state.refill_text() == cost, "rollouts were replayed, as by PER or ARPO, and filled no slot"
    state.take(step(2, 900.4, replay__slots_empty=8, replay__slots_filled=2), None)
    assert state.saved == 100, "a quarter of the 400 of that step"
    assert state.refill_text().endswith("about 900 rollouts more (estimated); replay saved about 100 of them")
    resumed = State()
    resumed.take(step(9, 900.0, replay__slots_empty=8, replay__slots_filled=8), None)
    assert resumed.saved == 0, "the total says nothing of the first step seen"


def test_lines_say_what_the_parts_do() -> None:
    out = io.StringIO()
    console = PlainConsole(out)
    console.started({"method": "m", "task": "t", "model": "x", "seed": 0, "budget": {"steps": 2}})
    metrics = {
        "pilot/prompts": 12,
        "pilot/kept": 0.5,
        "pilot/waiting": 3,
        "curriculum/stage": 2,
        "curriculum/dropped": 40,
        "mopps/seen": 99,
        "mopps/predicted": 0.47,
        "value/explained_variance": 0.25,
    }
    console.step(step(1, 0.0, **{name.replace("/", "__"): value for name, value in metrics.items()}))
    results = {"accuracy": 0.5, "task/short/accuracy": 0.75, "task/long/accuracy": 0.25, "pass@1": 0.5}
    console.evaluated({"step": 1, "rollouts": 8, "results": results})
    text = out.getvalue()
    assert "12 pilots, 50 % within their band, 3 waiting" in text
    assert "stage 2, 40 prompts left out, 99 prompts known, the drawn ones predicted 47 %" in text
    assert "critic explains 25 %" in text
    assert "held-out accuracy 0.500 (short 0.750, long 0.250), pass@1 0.500" in text
