"""Runs turned into curves: seeds of one setting share a mean line with a band from the lowest seed to the highest."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from rollwise.config import leaves
from rollwise.report.events import Run, Step
from rollwise.report.svg import Band, Line, Point
from rollwise.report.wording import clean

OWN = {"seed", "output", "threads", "device"}  # settings that may differ between seeds of one setting
HIDDEN = ("log.", "checkpoint.")
BINS = 100
GRID = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Runs of one setting."""

    label: str
    style: int
    runs: tuple[Run, ...]


def families(runs: Sequence[Run]) -> list[Family]:
    """Runs sorted into settings, in order of first appearance, each seed once. What tells families of one method apart
    is in their names: the task, the settings that differ, or the folder."""
    kinds: dict[str, list[Run]] = {}
    for run in runs:
        kind = [run.method, _settings(run)]
        again = sum(json.dumps([*kind, i], default=str, sort_keys=True) in kinds for i in range(len(runs)))
        same = [json.dumps([*kind, i], default=str, sort_keys=True) for i in range(again + 1)]
        free = next(key for key in same if all(other.seed != run.seed for other in kinds.get(key, [])))
        kinds.setdefault(free, []).append(run)
    groups = list(kinds.values())
    tasks = len({run.task for run in runs}) > 1
    out = []
    for style, group in enumerate(groups):
        first = group[0]
        rivals = [
            _settings(other[0]) for other in groups if (other[0].method, other[0].task) == (first.method, first.task)
        ]
        mine = _settings(first)
        apart = [name for name in sorted(set().union(*rivals)) if any(r.get(name) != mine.get(name) for r in rivals)]
        label = clean(first.method, 40) + (f" on {clean(first.task, 40)}" if tasks else "")
        if apart:
            label += " (" + ", ".join(f"{name}={clean(mine.get(name), 24)}" for name in apart[:3]) + ")"
        elif len(rivals) > 1:
            label += f" ({clean(first.folder.name, 40)})"
        out.append(Family(label=label, style=style, runs=tuple(group)))
    return out


def _settings(run: Run) -> dict[str, object]:
    flat = leaves(run.config)
    return {name: value for name, value in flat.items() if name not in OWN and not name.startswith(HIDDEN)}


def seeds_label(family: Family) -> str:
    n = len(family.runs)
    return f"{family.label}, seed {family.runs[0].seed}" if n == 1 else f"{family.label}, {n} runs"


def accuracy_line(family: Family, rollouts: bool, result: str = "accuracy") -> Line:
    """Held-out accuracy, or another result, against generated rollouts or steps."""
    curves = [
        [
            (float(e.rollouts if rollouts else e.step), e.results[result])
            for e in run.evals
            if math.isfinite(e.results.get(result, math.nan))
        ]
        for run in family.runs
    ]
    points, band = over_seeds([c for c in curves if c])
    return Line(label=seeds_label(family), points=points, band=band, style=family.style)


def metric_line(family: Family, name: str, label: str = "", style: int | None = None) -> Line:
    """A step metric, mean over seeds; long runs are drawn as means (`max` metrics: maxima) of neighbouring steps."""
    width = max(1, math.ceil(max((run.last_step for run in family.runs), default=0) / BINS))
    fold: Callable[[Sequence[float]], float] = max if name.endswith("/max") else fmean
    curves = [binned(run.steps, name, width, fold) for run in family.runs]
    points, band = over_seeds([c for c in curves if c])
    return Line(
        label=label or seeds_label(family), points=points, band=band, style=family.style if style is None else style
    )


def binned(steps: Iterable[Step], name: str, width: int, fold: Callable[[Sequence[float]], float]) -> list[Point]:
    """One point for every `width` steps, at the middle of those it holds; values that are not finite are left out."""
    boxes: dict[int, list[Point]] = {}
    for step in steps:
        value = step.metrics.get(name, math.nan)
        if math.isfinite(value):
            boxes.setdefault((step.step - 1) // width, []).append((step.step, value))
    return [(fmean([p[0] for p in box]), fold([p[1] for p in box])) for box in boxes.values()]


def over_seeds(curves: Sequence[Sequence[Point]]) -> tuple[list[Point], list[Band]]:
    """Mean, lowest and highest of several curves over the part of the axis they share, straight between points."""
    if len(curves) < 2:
        return (list(curves[0]) if curves else []), []
    start, end = max(c[0][0] for c in curves), min(c[-1][0] for c in curves)
    grid = sorted({p[0] for c in curves for p in c if start <= p[0] <= end})
    if len(grid) > GRID:
        grid = [start + (end - start) * i / (GRID - 1) for i in range(GRID)]
    points: list[Point] = []
    band: list[Band] = []
    for x in grid:
        values = [at(c, x) for c in curves]
        points.append((x, fmean(values)))
        band.append((x, min(values), max(values)))
    return points, band


def at(curve: Sequence[Point], x: float) -> float:
    """The curve at `x`, straight between its points and level beyond its ends."""
    i = bisect_right([p[0] for p in curve], x)
    if i == 0 or i == len(curve):
        return curve[min(i, len(curve) - 1)][1]
    (x0, y0), (x1, y1) = curve[i - 1], curve[i]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
