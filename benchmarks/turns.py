"""The worker's side of a benchmark in turns: a step runs only when the driver asks for it.

    driver -> worker   step            run one step
    worker -> driver   {"ready": ...}  once, before the first step
                       {"seconds": ..., "cpu": ..., ...}   after each

A step's time runs from the moment it is asked for until the trainer is about to begin the next: whatever a trainer does
around a step, such as fetching the next prompts or keeping its own records, is part of it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


class Turns:
    """Owns the worker's standard output; whatever else is printed goes to standard error."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)
        self._began: tuple[float, float] | None = None

    def next(self, report: dict[str, Any]) -> None:
        """Called between two steps: answer for the one that ended, wait for the next to be asked for."""
        wall, cpu = time.perf_counter(), time.process_time()
        if self._began is None:
            answer = {"ready": True}
        else:
            answer = {"seconds": wall - self._began[0], "cpu": cpu - self._began[1], **report}
        print(json.dumps(answer), file=self._answers)
        if sys.stdin.readline().strip() != "step":
            os._exit(0)
        self._began = time.perf_counter(), time.process_time()
