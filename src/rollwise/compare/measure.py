"""Finished runs measured against each other: one row a method and budget, differences paired by seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rollwise.compare.statistics import (
    LAST,
    Difference,
    Interval,
    Reached,
    first_of_two,
    interval,
    paired,
    reached,
    round_targets,
)
from rollwise.compare.views import View, common_steps
from rollwise.errors import UserError
from rollwise.report.events import Run
from rollwise.report.wording import clean, count

Runs = Mapping[str, Mapping[int, Run]]  # method -> seed -> run
ENOUGH = 3  # evaluations, the start among them, below which two in a row say nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A run that gave no result."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A method at a budget of rollouts."""

    label: str
    method: str
    budget: int
    finals: dict[int, float]  # final accuracy by seed
    final: Interval
    gap: Difference | None  # to the reference row; None on that row itself
    window: tuple[float, float]  # rollouts of the first and last evaluation averaged, mean over seeds
    totals: dict[str, float]  # means over seeds
    rollouts_to: tuple[Reached, ...]  # one for each target
    steps_to: tuple[Reached, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A method at the largest step that all methods were evaluated at."""

    label: str
    single: Interval  # the evaluation at that step
    gap: Difference | None
    last: Interval  # mean of the last three up to it
    last_gap: Difference | None
    rollouts: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result. `exit_status` is 1 where any run is missing."""

    out: Path
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    rollouts: int
    targets: tuple[float, ...]
    rows: tuple[Row, ...]
    step: int | None  # None: no step at which all were evaluated
    step_rows: tuple[StepRow, ...]
    failures: tuple[Failure, ...]
    notes: tuple[str, ...]
    runs: tuple[Run, ...]

    @property
    def reference(self) -> str:
        return self.methods[0]

    @property
    def exit_status(self) -> int:
        return 1 if self.failures else 0


def table(
    runs: Runs,
    *,
    methods: Sequence[str],
    seeds: Sequence[int],
    rollouts: int,
    more: Mapping[str, float] | None = None,
    targets: Sequence[float] | None = None,
    failures: Sequence[Failure] = (),
    out: Path = Path(),
) -> Comparison:
    """Measure `runs` at the common budget, multiplied budgets besides, and at equal steps."""
    entries = _entries(runs, methods, rollouts, more or {})
    if targets is None:
        targets = default_targets([view for _, _, _, views in entries for view in views.values()], entries)
    reference = _finals(entries[0][3])
    rows = [_row(entry, reference if i else None, targets) for i, entry in enumerate(entries)]
    full = [(m, {s: View(run, max(run.rollouts, 0)) for s, run in runs.get(m, {}).items()}) for m in methods]
    step, step_rows = _at_equal_steps([(m, views) for m, views in full if views], methods[0])
    found = tuple(run for m in methods for run in runs.get(m, {}).values())
    return Comparison(
        out=out,
        methods=tuple(methods),
        seeds=tuple(seeds),
        rollouts=rollouts,
        targets=tuple(targets),
        rows=tuple(rows),
        step=step,
        step_rows=tuple(step_rows),
        failures=tuple(failures),
        notes=tuple(_notes(entries, more or {}, step, targets)),
        runs=found,
    )


Entry = tuple[str, str, int, dict[int, View]]  # label, method, budget, view by seed


def _entries(runs: Runs, methods: Sequence[str], rollouts: int, more: Mapping[str, float]) -> list[Entry]:
    out: list[Entry] = []
    for method in methods:
        mine = runs.get(method, {})
        factor = more.get(method, 1.0)
        if factor != 1.0:
            for run in mine.values():
                require_constant(run)
        out.append((method, method, rollouts, {s: View(run, rollouts) for s, run in mine.items()}))
        if factor != 1.0:
            budget = round(rollouts * factor)
            out.append((f"{method} ×{factor:g}", method, budget, {s: View(run, budget) for s, run in mine.items()}))
    return out


def require_constant(run: Run) -> None:
    """A run cut short equals a run of the smaller budget only where the learning rate does not know the budget."""
    learner = run.config.get("learner")
    schedule = learner.get("schedule", "constant") if isinstance(learner, Mapping) else "constant"
    if schedule != "constant":
        raise UserError(
            f"{clean(run.name)}: learner.schedule is {clean(schedule)}; reading a longer run at the smaller budget "
            "needs learner.schedule=constant"
        )


def _finals(views: Mapping[int, View]) -> dict[int, float]:
    values = {seed: view.final() for seed, view in views.items()}
    return {seed: value for seed, value in values.items() if math.isfinite(value)}


def default_targets(views: Sequence[View], entries: Sequence[Entry]) -> list[float]:
    """Round values between the accuracy that the runs start from and the best mean of any row."""
    starts = [e.accuracy for view in views for e in view.run.evals if e.step == 0 and math.isfinite(e.accuracy)]
    bests = [interval(list(_finals(views).values())).mean for _, _, _, views in entries]
    return round_targets(interval(starts).mean, max((b for b in bests if math.isfinite(b)), default=math.nan))


def _row(entry: Entry, reference: Mapping[int, float] | None, targets: Sequence[float]) -> Row:
    label, method, budget, views = entry
    views = dict(sorted(views.items()))
    finals = _finals(views)
    windows = [[e.rollouts for e in view.last("rollouts")] for view in views.values()]
    totals = [view.totals() for view in views.values()]
    names = totals[0] if totals else {}
    return Row(
        label=label,
        method=method,
        budget=budget,
        finals=finals,
        final=interval(list(finals.values())),
        gap=None if reference is None else paired(finals, reference),
        window=(
            interval([float(w[0]) for w in windows if w]).mean,
            interval([float(w[-1]) for w in windows if w]).mean,
        ),
        totals={name: interval([t[name] for t in totals]).mean for name in names},
        rollouts_to=_places(views, "rollouts", targets),
        steps_to=_places(views, "steps", targets),
    )


def _places(views: Mapping[int, View], by: str, targets: Sequence[float]) -> tuple[Reached, ...]:
    points = [view.points(by) for view in views.values()]
    few = any(len(p) < ENOUGH for p in points)
    return tuple(reached([first_of_two(p, t) for p in points], few) for t in targets)


def _at_equal_steps(full: Sequence[tuple[str, dict[int, View]]], reference: str) -> tuple[int | None, list[StepRow]]:
    shared = common_steps([view for _, views in full for view in views.values()])
    if not shared:
        return None, []
    step = shared[-1]
    singles: dict[str, dict[int, float]] = {}
    lasts: dict[str, dict[int, float]] = {}
    costs: dict[str, list[float]] = {}
    for method, views in full:
        for seed, view in views.items():
            here = view.at_step(step)
            if here is not None:
                singles.setdefault(method, {})[seed] = here.accuracy
                costs.setdefault(method, []).append(float(here.rollouts))
            up_to = [e.accuracy for e in view.last("steps", step)]
            lasts.setdefault(method, {})[seed] = math.fsum(up_to) / len(up_to)
    rows = [
        StepRow(
            label=method,
            single=interval(list(singles[method].values())),
            gap=None if method == reference else paired(singles[method], singles.get(reference, {})),
            last=interval(list(lasts[method].values())),
            last_gap=None if method == reference else paired(lasts[method], lasts.get(reference, {})),
            rollouts=interval(costs[method]).mean,
        )
        for method, _ in full
    ]
    return step, rows


def _notes(
    entries: Sequence[Entry], more: Mapping[str, float], step: int | None, targets: Sequence[float]
) -> list[str]:
    """Whatever a reader must know to take the numbers as they are meant."""
    notes: list[str] = []
    few = {label for label, _, _, views in entries for v in views.values() if len(v.last("rollouts")) < LAST}
    if few:
        notes.append(f"Fewer than {LAST} evaluations by rollouts lie within the budget of {', '.join(sorted(few))}.")
    few = {label for label, _, _, views in entries for v in views.values() if len(v.last("steps")) < LAST}
    if few:
        notes.append(
            f"Fewer than {LAST} evaluations by steps: the steps to a target say little of {', '.join(sorted(few))}."
        )
    runs = {id(v.run): v.run for _, _, _, views in entries for v in views.values()}.values()
    for cadence, key in (("rollouts", "eval.every_rollouts"), ("steps", "eval.every")):
        if any(not any(cadence in e.on for e in run.evals) for run in runs):
            notes.append(f"Some runs were not evaluated by {cadence} ({key}); all their evaluations are used instead.")
    other = sorted(
        {f"{run.name} by {run.stop.reason}" for run in runs if run.stop and run.stop.reason != "budget.rollouts"}
    )
    if other:
        notes.append(f"Stopped by something else than the budget of rollouts: {', '.join(other)}.")
    cut = [f"{m} at {count(entries[0][2])} rollouts" for m, factor in more.items() if factor != 1.0]
    if cut:
        notes.append(f"Read from the longer run of the same seed, up to its last whole step: {', '.join(cut)}.")
    if step is None and runs:
        notes.append("There is no step at which all runs were evaluated, so equal steps are not compared.")
    if not targets:
        notes.append("No targets: the mean final accuracy of no method lies clearly above the start.")
    return notes
