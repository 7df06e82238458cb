"""What a comparison reads from one run: the run up to a budget of rollouts, and its evaluations by cadence.

Two cadences are kept apart. Evaluations every so many *rollouts* compare methods at equal generation; evaluations every
so many *steps* compare them at equal steps. An evaluation that both asked for belongs to both, and so does the one
before the first step. The one at the end of a run belongs to neither unless a cadence asked for it: a run cut at a
smaller budget has no such evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rollwise.compare.statistics import LAST, final_mean
from rollwise.report.events import Evaluation, Run, Step, amount


@dataclass(frozen=True, slots=True)
class View:
    """A run as if it had been given `budget` rollouts."""

    run: Run
    budget: int

    @property
    def end(self) -> Step | None:
        """The last step that fits."""
        return next((s for s in reversed(self.run.steps) if s.rollouts <= self.budget), None)

    def evals(self, cadence: str) -> list[Evaluation]:
        """Evaluations of `steps` or `rollouts` within the budget, the start included, in order."""
        found = [e for e in self.run.evals if e.rollouts <= self.budget and math.isfinite(e.accuracy)]
        if not any(cadence in e.on for e in self.run.evals):  # the run has no such cadence: all it has
            return found
        return [e for e in found if cadence in e.on or "start" in e.on]

    def last(self, cadence: str, step: int | None = None) -> list[Evaluation]:
        """The last evaluations of a cadence, up to a step if one is given; the start is not among them."""
        found = [e for e in self.evals(cadence) if e.step > 0 and (step is None or e.step <= step)]
        return found[-LAST:]

    def final(self) -> float:
        """Mean accuracy of the last three evaluations of the rollouts cadence at or before the budget."""
        return final_mean([e.accuracy for e in self.last("rollouts")])

    def points(self, cadence: str) -> list[tuple[float, float]]:
        """(rollouts or step, accuracy) of a cadence."""
        return [(float(e.rollouts if cadence == "rollouts" else e.step), e.accuracy) for e in self.evals(cadence)]

    def at_step(self, step: int) -> Evaluation | None:
        return next((e for e in self.evals("steps") if e.step == step), None)

    def totals(self) -> dict[str, float]:
        """Rollouts, steps, updates and the like at the end of the view; NaN where no step fits."""
        end = self.end
        if end is None or end.step == 0:
            return dict.fromkeys(("rollouts", "per_step", "steps", "updates", "rounds_per_step", "tokens"), math.nan)
        return {
            "rollouts": float(end.rollouts),
            "per_step": end.rollouts / end.step,
            "steps": float(end.step),
            "updates": float(end.updates),
            "rounds_per_step": amount(end.ledger, "rounds") / end.step,
            "tokens": float(amount(end.ledger, "generated", "tokens")),
        }


def common_steps(views: Sequence[View]) -> list[int]:
    """Steps at which every run was evaluated on the steps cadence, the start left out."""
    shared: set[int] | None = None
    for view in views:
        steps = {e.step for e in view.evals("steps") if e.step > 0}
        shared = steps if shared is None else shared & steps
    return sorted(shared or ())
