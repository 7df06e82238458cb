"""A run folder read into one typed record, tolerant of runs that are still going or were cut off.

A last line without its line break is a write that never ended: it is dropped, and the run says so in `notes`. Any other
line that cannot be read is an error with its number. Where a run was resumed from a checkpoint and went over some steps
again, the later account of a step stands.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rollwise.errors import UserError
from rollwise.report.wording import clean, real, whole

SCHEMA = 1
Tree = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line `step`."""

    step: int
    updates: int
    ledger: Tree
    metrics: dict[str, float]  # finite or not, always floats
    notes: tuple[str, ...] = ()

    @property
    def rollouts(self) -> int:
        """Rollouts generated for training up to the end of this step."""
        return amount(self.ledger, "generated", "rollouts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One line `eval`."""

    step: int
    updates: int
    rollouts: int
    tokens: int
    on: tuple[str, ...]  # which cadence asked for it: steps, rollouts, start, end
    prompts: int
    samples: int
    sampling: Tree
    results: dict[str, float]

    @property
    def accuracy(self) -> float:
        return self.results.get("accuracy", math.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The line `stop`."""

    reason: str
    detail: str
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything a run folder tells, clock times aside."""

    folder: Path
    method: str
    task: str
    model: str
    seed: int
    version: str
    config: Tree
    derived: Tree
    steps: tuple[Step, ...]
    evals: tuple[Evaluation, ...]
    stop: Stop | None  # None: still going, or cut off
    ledger: Tree  # the newest totals
    notes: tuple[str, ...] = ()  # what the reader had to overlook

    @property
    def name(self) -> str:
        return self.folder.name or str(self.folder)

    @property
    def rollouts(self) -> int:
        return amount(self.ledger, "generated", "rollouts")

    @property
    def last_step(self) -> int:
        return self.steps[-1].step if self.steps else 0


def amount(ledger: Mapping[str, Any], *path: str) -> int:
    """A count in the ledger by its path; 0 where it is missing."""
    here: Any = ledger
    for part in path:
        here = here.get(part) if isinstance(here, Mapping) else None
    return whole(here)


def saved(more: float, metrics: Mapping[str, float]) -> float:
    """Of the estimated cost `more` of a step's empty slots, the part of those that replay filled with a group that has
    variance. Single rollouts fill none."""
    empty, filled = (metrics.get(f"replay/slots_{name}", 0.0) for name in ("empty", "filled"))
    return max(0.0, more) * filled / empty if empty > 0 and filled > 0 else 0.0


def saved_rollouts(run: Run) -> float:
    """Rollouts that replay saved a run, estimated: over its steps, the price of a group times the slots filled."""
    out, before = 0.0, 0.0
    for step in run.steps:
        total = real(_mapping(step.ledger.get("refill")).get("rollouts"))
        if math.isfinite(total):
            out, before = out + saved(total - before, step.metrics), total
    return out


def read_run(folder: Path) -> Run:
    """The run in `folder`. Raises UserError where there is none or a line is broken."""
    path = folder / "events.jsonl"
    if not folder.is_dir():
        raise UserError(f"{clean(folder)}: no such run folder")
    if not path.is_file():
        raise UserError(f"{clean(folder)}: not a run folder (no events.jsonl in it)")
    reading = _Reading()
    for number, event in _lines(path, reading):
        try:
            reading.take(event)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) else str(error)
            where = f"{clean(path)} line {number}"
            raise UserError(f"{where}: not an event this version reads ({clean(what, 80)})") from None
    if reading.head is None:
        raise UserError(f"{clean(path)}: holds no 'run' event yet; wait for the first line")
    head = reading.head
    return Run(
        folder=folder,
        method=str(head.get("method", "?")),
        task=str(head.get("task", "?")),
        model=str(head.get("model", "?")),
        seed=whole(head.get("seed")),
        version=str(head.get("version", "?")),
        config=_mapping(head.get("config")) or _config_file(folder),
        derived=_mapping(head.get("derived")),
        steps=tuple(reading.steps),
        evals=tuple(reading.evals),
        stop=reading.stop,
        ledger=reading.ledger,
        notes=tuple(reading.notes),
    )


@dataclass(slots=True)
class _Reading:
    """What has been read so far."""

    head: Tree | None = None
    steps: list[Step] = field(default_factory=list)
    evals: list[Evaluation] = field(default_factory=list)
    stop: Stop | None = None
    ledger: Tree = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def take(self, event: Tree) -> None:
        kind = event["event"]
        if kind == "run":
            self.head = event
            if whole(event.get("schema")) > SCHEMA:
                self._note(f"written in event schema {whole(event.get('schema'))}; this version knows {SCHEMA}")
        elif kind == "step":
            self._step(event)
        elif kind == "eval":
            self._eval(event)
        elif kind == "config":  # settings changed at a resume
            if self.head is not None and _mapping(event.get("config")):
                self.head = {**self.head, "config": event["config"]}
        elif kind == "stop":
            detail, step = str(event.get("detail", "")), whole(event.get("step"))
            self.stop = Stop(reason=str(event["reason"]), detail=detail, step=step)
            self.ledger = _mapping(event.get("ledger")) or self.ledger
        else:
            self._note(f"events of kind '{clean(kind, 40)}' are not shown")

    def _step(self, event: Tree) -> None:
        step = int(event["step"])
        if self.steps and step <= self.steps[-1].step:
            self._note(f"resumed before step {step}; its first account of the later steps is left out")
            self.steps = [s for s in self.steps if s.step < step]
            self.evals = [e for e in self.evals if e.step < step]
        self.stop = None  # a resumed run goes on after its stop
        metrics = {str(name): real(value) for name, value in _mapping(event.get("metrics")).items()}
        self.steps.append(
            Step(
                step=step,
                updates=whole(event.get("updates")),
                ledger=_mapping(event["ledger"]),
                metrics=metrics,
                notes=tuple(str(note) for note in event.get("notes") or ()),
            )
        )
        self.ledger = self.steps[-1].ledger

    def _eval(self, event: Tree) -> None:
        step, on = int(event["step"]), tuple(str(name) for name in event.get("on") or ())
        if self.evals and self.evals[-1].step == step:  # asked for twice at one step: one evaluation
            on = tuple(dict.fromkeys(self.evals.pop().on + on))
        self.evals.append(
            Evaluation(
                step=step,
                updates=whole(event.get("updates")),
                rollouts=whole(event["rollouts"]),
                tokens=whole(event.get("tokens")),
                on=on,
                prompts=whole(event.get("prompts")),
                samples=whole(event.get("samples")),
                sampling=_mapping(event.get("sampling")),
                results={str(name): real(value) for name, value in _mapping(event["results"]).items()},
            )
        )

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _mapping(value: Any) -> Tree:
    return dict(value) if isinstance(value, Mapping) else {}


def _lines(path: Path, reading: _Reading) -> Iterator[tuple[int, Tree]]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise UserError(f"{clean(path)}: cannot be read ({error.strerror})") from None
    with file:
        for number, raw in enumerate(file, 1):
            if not raw.strip():
                continue
            try:
                event = json.loads(raw)
            except (ValueError, RecursionError):
                if not raw.endswith(b"\n"):
                    reading.notes.append(f"line {number} of events.jsonl was never finished and is left out")
                    return
                raise UserError(f"{clean(path)} line {number}: not JSON; the file was damaged or edited") from None
            if not isinstance(event, dict):
                raise UserError(f"{clean(path)} line {number}: a {type(event).__name__}; every line is an object")
            yield number, event


def _config_file(folder: Path) -> Tree:
    from rollwise.config import read_yaml

    path = folder / "config.yaml"
    return read_yaml(path) if path.is_file() else {}
