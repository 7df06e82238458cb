"""Rollwise's side: a run as `rollwise train` makes it, with its folder, events and clock, halted between steps."""

from __future__ import annotations

import json
import sys
from typing import Any

from turns import Turns

from rollwise.assemble import resolve
from rollwise.records import StepRecord
from rollwise.run import start


class Halted:
    """The run's display: where each step ends."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.generated = {"rollouts": 0, "tokens": 0}

    def started(self, config: Any, derived: dict[str, Any]) -> None:
        """Nothing to show."""

    def evaluated(self, event: dict[str, Any]) -> None:
        """The evaluation before the first step: the run is ready."""
        self.turns.next({})

    def step(self, record: StepRecord, seconds: dict[str, float]) -> None:
        before, self.generated = self.generated, record.ledger["generated"]
        self.turns.next(
            {
                "tokens": self.generated["tokens"] - before["tokens"],
                "rollouts": self.generated["rollouts"] - before["rollouts"],
                "generate": seconds["generate"],
                "accuracy": record.metrics["accuracy"],
            }
        )

    def note(self, text: str) -> None:
        print(text, file=sys.stderr)

    def stopped(self, event: dict[str, Any]) -> None:
        """Not reached: the driver ends the process first."""


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    start(resolve([("benchmark", given["settings"] | {"output": given["output"]})]), Halted())
