"""Which data sets a run draws from: one task, or several by name; and whether its stages make sense."""

from __future__ import annotations

import dataclasses
import re

from rollwise.config.schema import RunConfig, TaskConfig
from rollwise.errors import UserError

NAME = re.compile(r"[A-Za-z0-9_.-]+")


def named(config: RunConfig) -> bool:
    """Whether data sets are given by name, in `tasks` or in a stage."""
    return bool(config.tasks) or any(stage.tasks for stage in config.curriculum.stages)


def data_sets(config: RunConfig) -> dict[str, TaskConfig]:
    """Every data set of the run by name, its task filled in: those of `tasks` and those that only a stage names; with
    neither, `task` alone."""
    if not named(config):
        return {config.task: TaskConfig(task=config.task, args=config.task_args)}
    names = dict.fromkeys([*config.tasks, *(name for stage in config.curriculum.stages for name in stage.tasks)])
    given = {name: config.tasks.get(name) or TaskConfig() for name in names}
    return {name: dataclasses.replace(entry, task=entry.task or name) for name, entry in given.items()}


def title(config: RunConfig) -> str:
    """The run's data sets in a word."""
    return "+".join(data_sets(config))


def check_tasks(config: RunConfig, source: str) -> None:
    """Tasks, stages and filters that are each legal and together are not. Raises UserError."""
    curriculum = config.curriculum
    sets = data_sets(config)
    if config.task_args and named(config):
        raise UserError(f"{source}: task_args is for a single task; give tasks.{next(iter(sets))}.args")
    for name in sets:
        if not NAME.fullmatch(name):
            raise UserError(f"{source}: tasks.{name}: a name is made of letters, digits and _ . -")
    for number, stage in enumerate(curriculum.stages):
        where, until = f"{source}: curriculum.stages[{number}]", stage.until
        ends = until.steps is not None or until.epochs is not None or until.plateau is not None
        last = number == len(curriculum.stages) - 1
        if not last and not ends:
            raise UserError(f"{where} can never end; give until.steps, until.epochs or until.plateau")
        if last and ends:
            raise UserError(f"{where} is the last, which ends with the budget; take its until away")
    if curriculum.evict_at is None and curriculum.retest_epochs is not None:
        raise UserError(f"{source}: curriculum.retest_epochs without eviction; set curriculum.evict_at=1.0")
    if curriculum.evict_at is not None and curriculum.evict_on == "pilot" and config.allocation.kind != "pilot":
        raise UserError(
            f"{source}: curriculum.evict_on is pilot, and allocation.kind {config.allocation.kind} makes no pilots; "
            "set curriculum.evict_on=any"
        )
