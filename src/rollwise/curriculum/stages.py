"""Training in stages (SRPO, arXiv 2504.14286): each with its own mixture, and a condition that ends it.

SRPO trains on hard mathematics first and adds code later; when to switch and how to mix are not stated. Here a stage
ends after its steps, its epochs, or when a metric has stopped rising, whichever is first, and also when it has no
prompt left. A stage begins with a new epoch of each of its data sets. The last stage ends with the run's budget.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rollwise.curriculum.base import Turn
from rollwise.curriculum.mixture import Mixture
from rollwise.records import Group, Prompt, mean
from rollwise.state import check_keys, listed, number, whole

Metric = Literal["accuracy", "reward", "mean_length"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plateau:
    """A metric has stopped rising: its mean over the last `window` steps has not been `min_gain` (in the metric's unit)
    above the best such mean for `patience` steps. The first full window sets the first best; a step without any value
    of the metric is passed over."""

    metric: Metric
    window: int
    min_gain: float
    patience: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A mixture, what ends it, and what begins anew with it."""

    weights: Mapping[str, float]
    steps: int | None = None
    epochs: int | None = None
    plateau: Plateau | None = None
    reset: tuple[str, ...] = ()


HISTORY = "history"  # the curriculum's own memory; other names of `reset` are for other parts


class Stages:
    """One stage after the other over one mixture."""

    def __init__(self, mixture: Mixture, stages: Sequence[Stage]) -> None:
        self.mixture = mixture
        self.stages = list(stages)
        self.number = 0  # of the stage that draws next, from 0
        self.shown = 0  # of the stage the last step belonged to
        self.turn: Turn | None = None
        self._begin()

    def _begin(self) -> None:
        self.steps = 0
        plateau = self.stages[self.number].plateau
        self.recent: deque[float] = deque(maxlen=plateau.window if plateau else 1)
        self.best: float | None = None
        self.waited = 0  # steps since the best

    @property
    def remaining(self) -> int:
        return self.mixture.remaining

    def draw(self, count: int) -> list[Prompt]:
        return self.mixture.draw(count)

    @property
    def era(self) -> tuple[int, int]:
        return self.mixture.era

    def next_epoch(self) -> None:
        self.mixture.next_epoch()

    def has(self, prompt: Prompt) -> bool:
        return self.mixture.has(prompt)

    def observe(self, groups: Sequence[Group]) -> None:
        self.mixture.observe(groups)
        self.shown, self.turn = self.number, None
        self.steps += 1
        stage = self.stages[self.number]
        if stage.plateau is not None:
            self._watch(stage.plateau, groups)
        while self.number + 1 < len(self.stages) and (why := self._over(self.stages[self.number])):
            self._go_on(why)

    def _go_on(self, why: str) -> None:
        """To the next stage. One that has no prompt is over as soon as it begins."""
        ended = f"stage {self.number + 1} of {len(self.stages)} ended after {self.steps:,} steps: {why}"
        self.number += 1
        new = self.stages[self.number]
        if HISTORY in new.reset:
            self.mixture.forget()
        self.mixture.weigh(new.weights)
        before = self.turn or Turn(note="")
        self.turn = Turn(
            note="; ".join(n for n in (before.note, ended) if n),
            reset=tuple(dict.fromkeys((*before.reset, *(name for name in new.reset if name != HISTORY)))),
        )
        self._begin()

    def _over(self, stage: Stage) -> str:
        """Why the stage is over; empty while it is not."""
        if stage.steps is not None and self.steps >= stage.steps:
            return "its steps are done"
        if stage.epochs is not None and self.mixture.passed >= stage.epochs:
            return f"{stage.epochs:,} epochs of its data are done"
        if stage.plateau is not None and self.waited >= stage.plateau.patience:
            return f"{stage.plateau.metric} has not risen for {self.waited:,} steps"
        return "" if self.mixture.remaining else "it has no prompt left"

    def _watch(self, plateau: Plateau, groups: Sequence[Group]) -> None:
        values = _values(plateau.metric, groups)
        if not values:
            return
        self.recent.append(mean(values))
        if len(self.recent) < plateau.window:
            return
        now = mean(list(self.recent))
        if self.best is None or now - self.best > plateau.min_gain:
            self.best, self.waited = now, 0
        else:
            self.waited += 1

    def metrics(self) -> dict[str, float]:
        """`curriculum/stage` is the one the step belonged to, from 1."""
        return {**self.mixture.metrics(), "curriculum/stage": float(self.shown + 1)}

    def state_dict(self) -> dict[str, Any]:
        return {
            "mixture": self.mixture.state_dict(),
            "number": self.number,
            "shown": self.shown,
            "steps": self.steps,
            "recent": list(self.recent),
            "best": self.best,
            "waited": self.waited,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"mixture", "number", "shown", "steps", "recent", "best", "waited"}, "curriculum.stages")
        stage = whole(state["number"], "curriculum.stages, number", most=len(self.stages) - 1)
        shown = whole(state["shown"], "curriculum.stages, shown", most=stage)
        steps = whole(state["steps"], "curriculum.stages, steps")
        waited = whole(state["waited"], "curriculum.stages, waited", most=steps)
        best = None if state["best"] is None else number(state["best"], "curriculum.stages, best")
        recent = [number(v, "curriculum.stages, recent") for v in listed(state["recent"], "curriculum.stages, recent")]
        self.mixture.load_state_dict(state["mixture"])
        if self.mixture.weights != dict(self.stages[stage].weights):
            raise ValueError(f"state of curriculum.mixture: its weights are not those of stage {stage + 1}")
        self.number, self.shown = stage, shown
        self._begin()
        self.steps, self.best, self.waited = steps, best, waited
        self.recent.extend(recent)


def _values(metric: Metric, groups: Sequence[Group]) -> list[float]:
    """Of each fresh rollout of a step; accuracy and reward of those with a verdict."""
    members = [r for g in groups for r in g.rollouts]
    if metric == "mean_length":
        return [float(r.length) for r in members]
    return [float(r.correct) if metric == "accuracy" else r.reward for r in members if r.scored]
