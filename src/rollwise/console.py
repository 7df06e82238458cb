"""What a run says while it goes: a live panel on a terminal, plain lines elsewhere, or nothing.

    with open_console(quiet=False) as console:
        console.started(config, derived)
        console.step(record, seconds)      # after every step
        console.evaluated(event)           # after every evaluation
        console.note("...")
        console.stopped(event)

Numbers that are missing or not finite print as a dash; nothing a run reports can make a console fail. `rich` is
imported only for the live panel.
"""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TextIO

from rollwise.report.events import amount, saved
from rollwise.report.wording import brief, clean, count, decimal, plural, real, share, whole

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import RenderableType
    from rich.live import Live

    from rollwise.records import StepRecord

Seconds = Mapping[str, float] | float | None
LINES = 20  # about so many step lines in a run that is not watched live


@dataclass(slots=True)
class State:
    """What the panel and the lines are made from. Knows how far the run is, not how it looks."""

    head: str = ""
    budget: dict[str, float] = field(default_factory=dict)
    per_step: float = math.nan
    step: int = 0
    updates: int = 0
    ledger: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    accuracy: float = math.nan
    accuracy_step: int = 0
    accuracy_shown: str = "-"
    first_accuracy: float = math.nan
    task_accuracy: dict[str, float] = field(default_factory=dict)  # where there are several data sets
    saved: float = 0.0  # rollouts, estimated, of the steps seen

    def start(self, config: Any, derived: Mapping[str, Any] | None) -> None:
        tree = _tree(config)
        budget = _tree(tree.get("budget"))
        self.budget = {k: real(v) for k, v in budget.items() if math.isfinite(real(v)) and real(v) > 0}
        self.per_step = real(_tree(derived).get("rollouts_per_step"))
        tree = {**tree, "task": "+".join(map(str, _tree(tree.get("tasks")))) or tree.get("task", "?")}
        names = [clean(tree.get(k, "?"), 60) for k in ("method", "task", "model", "seed")]
        self.head = f"{names[0]} on {names[1]}, model {names[2]}, seed {names[3]}"

    def take(self, record: StepRecord, seconds: Seconds) -> None:
        before, first = _refill(self.ledger), not self.ledger and whole(record.step) > 1
        self.step, self.updates = whole(record.step), whole(record.updates)
        self.ledger, self.metrics = _tree(record.ledger), _tree(record.metrics)
        if not first:  # of a resumed run: the total says nothing of its step
            numbers = {name: real(value) for name, value in self.metrics.items()}
            self.saved += saved(_refill(self.ledger) - before, numbers)
        parts = list(seconds.values()) if isinstance(seconds, Mapping) else [seconds]
        self.seconds += sum(v for v in map(real, parts) if math.isfinite(v))

    def judge(self, event: Mapping[str, Any]) -> None:
        results = _tree(event.get("results"))
        self.accuracy = real(results.get("accuracy"))
        self.task_accuracy = {
            clean(name.split("/")[1], 40): real(value)
            for name, value in results.items()
            if name.startswith("task/") and name.endswith("/accuracy")
        }
        self.accuracy_shown = "- (none judged)" if results.get("infra_error") == 1 else decimal(self.accuracy)
        self.accuracy_step = whole(event.get("step"))
        if not math.isfinite(self.first_accuracy):
            self.first_accuracy = self.accuracy

    def metric(self, name: str) -> float:
        return real(self.metrics.get(name))

    def used(self) -> dict[str, float]:
        rollouts, tokens = (float(amount(self.ledger, "generated", unit)) for unit in ("rollouts", "tokens"))
        return {"rollouts": rollouts, "tokens": tokens, "steps": float(self.step), "seconds": self.seconds}

    def nearest(self) -> tuple[str, float, float] | None:
        """The budget that will end first, as things stand: its unit, what is used, what there is."""
        used = self.used()
        known = [(used[k] / v, k, used[k], v) for k, v in self.budget.items() if k in used]
        return max(known)[1:] if known else None

    def fraction(self) -> float:
        near = self.nearest()
        return min(max(near[1] / near[2], 0.0), 1.0) if near else math.nan

    def every(self) -> int:
        """Steps between two plain lines: a round number that gives about `LINES` of them."""
        expected = self.budget.get("steps", math.inf)
        if self.per_step > 0:
            expected = min(expected, self.budget.get("rollouts", math.inf) / self.per_step)
        if not math.isfinite(expected):
            return 10
        wanted, size = expected / LINES, 1
        while True:
            for m in (1, 2, 5):
                if m * size >= wanted:
                    return m * size
            size *= 10

    def budget_text(self) -> str:
        near = self.nearest()
        if near is None:
            return f"{count(amount(self.ledger, 'generated', 'rollouts'))} rollouts"
        return f"{count(near[1])} of {count(near[2])} {near[0]}"

    def dead_text(self) -> str:
        names = {"all right": "dead/all_right", "all wrong": "dead/all_wrong", "none judged": "dead/unjudged"}
        kinds = {k: m for k, name in names.items() if (m := self.metric(name)) > 0 or k != "none judged"}
        of = ", ".join(f"{name} {share(part, 0)}" for name, part in kinds.items())
        return f"no signal {share(sum(kinds.values()), 0)} ({of})"

    def replay_text(self) -> str:
        """Empty where nothing is replayed."""
        part = self.metric("replay/share")
        if not part > 0:
            return ""
        ages = f"mean {decimal(self.metric('replay/age_mean'), 1)}, oldest {brief(self.metric('replay/age_max'))}"
        return f"replay {share(part, 0)} of the batch, age {ages}"

    def pilot_text(self) -> str:
        """Empty where no pilot is generated."""
        if not self.metric("pilot/prompts") > 0:
            return ""
        kept, waiting = share(self.metric("pilot/kept"), 0), count(self.metric("pilot/waiting"))
        return f"{count(self.metric('pilot/prompts'))} pilots, {kept} within their band, {waiting} waiting"

    def prompts_text(self) -> str:
        """Stage, what filters left out and what MoPPS predicts; empty where there is none of it."""
        parts = []
        if math.isfinite(self.metric("curriculum/stage")):
            parts.append(f"stage {count(self.metric('curriculum/stage'))}")
        if self.metric("curriculum/dropped") > 0:
            parts.append(f"{count(self.metric('curriculum/dropped'))} prompts left out")
        if self.metric("mopps/seen") > 0:
            predicted = share(self.metric("mopps/predicted"), 0)
            parts.append(f"{count(self.metric('mopps/seen'))} prompts known, the drawn ones predicted {predicted}")
        return ", ".join(parts)

    def critic_text(self) -> str:
        explained = self.metric("value/explained_variance")
        return f"critic explains {share(explained, 0)}" if math.isfinite(explained) else ""

    def refill_text(self) -> str:
        """The estimate of what new generation would have cost; saved as far as replay filled slots instead."""
        more = amount(self.ledger, "refill", "rollouts")
        if not more:
            return ""
        whole_batches = f"full batches would cost about {count(more)} rollouts more (estimated)"
        return (
            f"{whole_batches}; replay saved about {count(self.saved)} of them" if self.saved >= 0.5 else whole_batches
        )

    def tasks_text(self) -> str:
        """Held-out accuracy of each data set; empty where there is one."""
        return ", ".join(f"{name} {decimal(value)}" for name, value in self.task_accuracy.items())

    def accuracy_text(self) -> str:
        if not math.isfinite(self.accuracy):
            return f"held-out accuracy {self.accuracy_shown}"
        since = f"step {self.accuracy_step}; first {decimal(self.first_accuracy)}"
        return f"held-out accuracy {decimal(self.accuracy)} ({since})"


class Console:
    """The silent console, and the interface of the others."""

    def __init__(self) -> None:
        self.state = State()

    def started(self, config: Any, derived: Mapping[str, Any] | None = None) -> None:
        """The settings, as a nested mapping or a config record, and what follows from them."""
        self.state.start(config, derived)

    def step(self, record: StepRecord, seconds: Seconds = None) -> None:
        self.state.take(record, seconds)

    def evaluated(self, event: Mapping[str, Any]) -> None:
        self.state.judge(event)
        if event.get("note"):
            self.note(f"step {whole(event.get('step'))}, evaluation: {event['note']}")

    def note(self, text: str) -> None:
        """A line that stays on the screen."""

    def say(self, lines: Sequence[str]) -> None:
        """Lines of a result, such as a table."""

    def board(self, rows: Sequence[tuple[str, float, str]]) -> None:
        """Several runs going side by side: name, finished fraction, a few words."""

    def stopped(self, event: Mapping[str, Any]) -> None:
        """The end of the run."""

    def close(self) -> None:
        """Give the terminal back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class PlainConsole(Console):
    """One line for each evaluation and for every so many steps. No control characters."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.stream = stream

    def started(self, config: Any, derived: Mapping[str, Any] | None = None) -> None:
        super().started(config, derived)
        limits = ", ".join(f"{count(v)} {k}" for k, v in self.state.budget.items())
        self._line(f"{self.state.head}; budget {limits or 'none'}")

    def step(self, record: StepRecord, seconds: Seconds = None) -> None:
        super().step(record, seconds)
        state = self.state
        for note in record.notes:
            self.note(f"step {state.step}: {note}")
        if state.step % state.every() == 0:
            parts = [f"reward {decimal(state.metric('reward'))}", state.dead_text(), state.pilot_text()]
            parts += [state.replay_text(), state.prompts_text(), state.critic_text()]
            self._line(", ".join([f"step {state.step}", state.budget_text(), *filter(None, parts)]))

    def evaluated(self, event: Mapping[str, Any]) -> None:
        super().evaluated(event)
        results = _tree(event.get("results"))
        tasks = self.state.tasks_text()
        rest = [f"{clean(k, 40)} {decimal(v)}" for k, v in results.items() if k.startswith("pass@")]
        where = f"step {whole(event.get('step'))}, {count(event.get('rollouts'))} rollouts"
        accuracy = f"evaluation at {where}: held-out accuracy {self.state.accuracy_shown}"
        accuracy += f" ({tasks})" if tasks else ""
        self._line(", ".join([accuracy, *rest]))

    def note(self, text: str) -> None:
        self._line(f"note: {clean(text)}")

    def say(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._line(clean(line))

    def stopped(self, event: Mapping[str, Any]) -> None:
        self._line(_ending(event))
        if self.state.refill_text():
            self._line(self.state.refill_text())

    def _line(self, text: str) -> None:
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        self.stream.write(text.encode(encoding, "replace").decode(encoding, "replace") + "\n")
        self.stream.flush()


class LiveConsole(Console):
    """A panel that is redrawn in place; notes scroll above it."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        from rich.console import Console as RichConsole

        self.rich: RichConsole = RichConsole(file=stream, highlight=False)
        self.live: Live | None = None

    def started(self, config: Any, derived: Mapping[str, Any] | None = None) -> None:
        super().started(config, derived)
        self._draw(self._panel())

    def step(self, record: StepRecord, seconds: Seconds = None) -> None:
        super().step(record, seconds)
        for note in record.notes:
            self.note(f"step {self.state.step}: {note}")
        self._draw(self._panel())

    def evaluated(self, event: Mapping[str, Any]) -> None:
        super().evaluated(event)
        self._draw(self._panel())

    def note(self, text: str) -> None:
        self._print(clean(text), "dim")

    def say(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._print(clean(line), "")

    def board(self, rows: Sequence[tuple[str, float, str]]) -> None:
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        for name, fraction, words in rows:
            table.add_row(_text(clean(name, 40)), _bar(fraction), share(fraction, 0), _text(clean(words, 100)))
        self._draw(table)

    def stopped(self, event: Mapping[str, Any]) -> None:
        self._draw(self._panel())
        self.close()
        self._print(_ending(event), "")

    def close(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def _print(self, text: str, style: str) -> None:
        from rich.text import Text

        self.rich.print(Text(text, style=style), soft_wrap=True)

    def _draw(self, body: RenderableType) -> None:
        if self.live is None:
            from rich.live import Live

            self.live = Live(body, console=self.rich, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
            self.live.start()
        self.live.update(body, refresh=True)

    def _panel(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table

        state = self.state
        steps = f"{plural(state.step, 'step')}, {plural(state.updates, 'update')}"
        budget = Table.grid(padding=(0, 2))
        budget.add_row(_bar(state.fraction()), share(state.fraction(), 0), _text(state.budget_text()))
        lines = [
            f"{steps}, reward {decimal(state.metric('reward'))}",
            state.accuracy_text(),
            state.tasks_text(),
            state.dead_text(),
            state.pilot_text(),
            state.replay_text(),
            state.prompts_text(),
            state.critic_text(),
            state.refill_text(),
        ]
        return Group(_text(state.head, "bold"), budget, *(_text(line) for line in lines if line))


def open_console(quiet: bool = False, stream: TextIO | None = None) -> Console:
    """Silent, live or plain, by what is asked for and where the output goes."""
    if quiet:
        return Console()
    out = sys.stdout if stream is None else stream
    terminal = out.isatty() and _capable()
    return LiveConsole(out) if terminal else PlainConsole(out)


def _capable() -> bool:
    return os.environ.get("TERM", "") not in ("", "dumb")


def _text(text: str, style: str = "") -> Any:
    """Never read as markup: names and notes are foreign."""
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _bar(fraction: float) -> Any:
    from rich.progress_bar import ProgressBar

    done = fraction if math.isfinite(fraction) else 0.0
    completed = min(max(done, 0.0), 1.0)
    return ProgressBar(total=1.0, completed=completed, width=28, complete_style="cyan", finished_style="cyan")


def _ending(event: Mapping[str, Any]) -> str:
    detail = clean(event.get("detail") or "")
    return f"stopped by {clean(event.get('reason', '?'))}{f' ({detail})' if detail else ''}"


def _refill(ledger: Mapping[str, Any]) -> float:
    """The estimate so far, not rounded; 0 where there is none."""
    found = real(_tree(ledger.get("refill")).get("rollouts"))
    return found if math.isfinite(found) else 0.0


def _tree(value: Any) -> Mapping[str, Any]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value if isinstance(value, Mapping) else {}
