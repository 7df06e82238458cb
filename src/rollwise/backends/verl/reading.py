"""The data of a verl run against the model that reads it. Imports nothing of verl."""

from __future__ import annotations

from collections.abc import Callable

from rollwise.config import RunConfig
from rollwise.policy import Policy, load_policy, load_reader
from rollwise.run import check_prompts, fitted
from rollwise.starters import starter_path
from rollwise.tasks import Task


def read(config: RunConfig, tasks: dict[str, Task], note: Callable[[str], None]) -> tuple[Policy, dict[str, Task]]:
    """What encodes and decodes, and the tasks without rows that are too long, where the settings ask for that. Raises
    UserError for prompts that are too long, as the local engine does; on a CPU for weights that are not sound as well,
    which are not read here where there are accelerators."""
    reader = (load_policy if config.device == "cpu" else load_reader)(
        str(starter_path(config.task)) if config.model == "starter" else config.model,
        min_pixels=config.images.min_pixels,
        max_pixels=config.images.max_pixels,
        cache_bytes=config.images.cache_mb * 2**20,
    )
    tasks = fitted(config, reader, tasks, note)
    for name, task in tasks.items():
        check_prompts(config, reader, name, task)
    return reader, tasks
