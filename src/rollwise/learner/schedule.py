"""The learning rate as a function of the number of updates done."""

from __future__ import annotations

import math
from typing import Literal


def learning_rate(
    update: int,
    *,
    lr: float,
    warmup_updates: int,
    schedule: Literal["constant", "linear", "cosine"],
    schedule_updates: int | None,
) -> float:
    """Rate of update number `update` (0-based): linear warm-up, then constant, or falling to 0 at
    `schedule_updates` and staying there."""
    if update < warmup_updates:
        return lr * (update + 1) / warmup_updates
    if schedule == "constant" or schedule_updates is None:
        return lr
    done = min(1.0, (update - warmup_updates) / (schedule_updates - warmup_updates))
    return lr * ((1 - done) if schedule == "linear" else 0.5 * (1 + math.cos(math.pi * done)))
