"""The table of tasks. A new task is one more line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rollwise.errors import UserError, nearest
from rollwise.tasks.args import read_args
from rollwise.tasks.base import PromptSource, Task
from rollwise.tasks.chain_sum import ChainSum, ChainSumArgs
from rollwise.tasks.countdown import Countdown, CountdownArgs
from rollwise.tasks.sort_digits import SortDigits, SortDigitsArgs


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the table: what it is, its settings, and how it is made from them (`make(args, starter=...)`)."""

    summary: str
    args: type[Any]
    make: Callable[..., Task]


PATH_ARGS = {"data", "heldout_data"}  # settings of tasks that name files

TASKS: dict[str, Entry] = {
    "sort_digits": Entry("put a string of 2 to 20 digits in ascending order", SortDigitsArgs, SortDigits),
    "chain_sum": Entry("add and subtract one-digit numbers, directly or step by step", ChainSumArgs, ChainSum),
    "countdown": Entry("make a target out of given numbers; made up, or from a JSONL file", CountdownArgs, Countdown),
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
    return entry.make(read_args(entry.args, args), starter=starter)


__all__ = ["PATH_ARGS", "TASKS", "Entry", "PromptSource", "Task", "describe", "make_task", "task_names"]
