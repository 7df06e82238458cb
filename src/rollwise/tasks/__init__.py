"""The table of tasks. A new task is one more line here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollwise.data import hub_name
from rollwise.errors import UserError, nearest
from rollwise.tasks.args import read_args
from rollwise.tasks.base import PromptSource, Task
from rollwise.tasks.chain_sum import ChainSum, ChainSumArgs
from rollwise.tasks.countdown import Countdown, CountdownArgs
from rollwise.tasks.data import DataArgs, DataTask, judged_by
from rollwise.tasks.geometry import Geometry, GeometryArgs
from rollwise.tasks.sort_digits import SortDigits, SortDigitsArgs


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the table: what it is, its settings, and how it is made from them (`make(args, starter=...)`)."""

    summary: str
    args: type[Any]
    make: Callable[..., Task]


PATH_ARGS = {"data", "heldout_data"}  # settings of tasks that name files, or data sets of the hub

TASKS: dict[str, Entry] = {
    "sort_digits": Entry("put a string of 2 to 20 digits in ascending order", SortDigitsArgs, SortDigits),
    "chain_sum": Entry("add and subtract one-digit numbers, directly or step by step", ChainSumArgs, ChainSum),
    "countdown": Entry("make a target out of given numbers; made up, or from a file of rows", CountdownArgs, Countdown),
    "geometry": Entry("read a drawn triangle or circle, exact answers; for image-text models", GeometryArgs, Geometry),
    "data": Entry("questions of a file or hub data set, each judged as its data set asks", DataArgs, DataTask),
    "math": Entry("questions of a file whose answers are numbers or formulas", DataArgs, judged_by("math")),
    "gsm8k": Entry("questions of a file whose answers are single numbers", DataArgs, judged_by("gsm8k")),
    "choice": Entry("questions of a file with options to pick from", DataArgs, judged_by("choice")),
    "exact": Entry("questions of a file whose answers have one right spelling", DataArgs, judged_by("exact")),
    "code": Entry("programs to write, judged by the tests in a file", DataArgs, judged_by("code")),
}


def task_names() -> list[str]:
    """All tasks, in the order of the table."""
    return list(TASKS)


def describe() -> dict[str, str]:
    """One line on each task."""
    return {name: entry.summary for name, entry in TASKS.items()}


def make_task(name: str, args: Mapping[str, Any], *, starter: bool) -> Task:
    """The task `name` with its settings; `starter` says whether the bundled little model is the one to be asked.

    Raises UserError for an unknown task, an unknown setting or a wrong value.
    """
    if name not in TASKS:
        raise UserError(f"unknown task '{name}'; {nearest(name, TASKS)}")
    entry = TASKS[name]
    if "data" in args and not any(f.name == "data" for f in dataclasses.fields(entry.args)):
        raise UserError(f"task_args.data: task {name} makes up its questions; for the rows of a file set task=data")
    return entry.make(read_args(entry.args, args), starter=starter)


def anchored(args: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a task with local paths made absolute; names of the hub stay."""
    out = dict(args)
    for name in PATH_ARGS & args.keys():
        value = args[name]
        out[name] = [_absolute(v) for v in value] if isinstance(value, list | tuple) else _absolute(value)
    return out


def _absolute(value: Any) -> Any:
    if not isinstance(value, str) or hub_name(value) is not None:
        return value
    return str(Path(value).expanduser().absolute())


__all__ = ["PATH_ARGS", "TASKS", "Entry", "PromptSource", "Task", "anchored", "describe", "make_task", "task_names"]
