"""Which prompts come again: decided between epochs, from what their fresh rollouts showed.

Both filters file what they see under the epoch in which the prompt was drawn. A step may run from the end of an epoch
into the next before its groups are seen: what it has already drawn of the next epoch stays, the rest is filtered anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from rollwise.records import Group, Purpose
from rollwise.state import array, check_keys, rows


class DropSolved:
    """SRPO's history resampling (arXiv 2504.14286, section on history resampling): at the end of an epoch the prompts
    whose rollouts of that epoch were all correct are dropped for good; mixed, all-wrong and not visited ones stay.

    Ours, the paper being silent: "correct" is the verifier's accuracy, whatever the reward adds; rollouts without a
    verdict do not count, and a prompt without any verdict stays; what was dropped comes back only by `forget`.
    """

    absence = 0

    def __init__(self, size: int) -> None:
        self.size = size
        self.forget()

    def forget(self) -> None:
        """Every prompt is in again."""
        self.epoch = np.full(self.size, -1, dtype=np.int32)  # in which the counts were made; -1: never drawn
        self.right = np.zeros(self.size, dtype=np.int32)
        self.scored = np.zeros(self.size, dtype=np.int32)
        self.dropped = np.zeros(self.size, dtype=bool)

    def observe(self, groups: Sequence[Group]) -> None:
        for group in groups:
            row, epoch = group.prompt.row, group.prompt.occurrence
            if epoch < self.epoch[row]:
                continue  # the rest of an earlier draw says nothing of the newest one
            if epoch > self.epoch[row]:
                self.dropped[row] |= self.right[row] == self.scored[row] > 0
                self.epoch[row], self.right[row], self.scored[row] = epoch, 0, 0
            self.right[row] += sum(r.correct for r in group.rollouts)
            self.scored[row] += sum(r.scored for r in group.rollouts)

    def keep(self, rows: np.ndarray, epoch: int) -> np.ndarray:
        self.dropped |= (self.epoch < epoch) & (self.scored > 0) & (self.right == self.scored)
        return rows[~self.dropped[rows]]  # type: ignore[no-any-return]

    def metrics(self) -> dict[str, float]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        rows = np.flatnonzero(self.epoch >= 0)
        return {
            "rows": rows,
            "epoch": self.epoch[rows],
            "right": self.right[rows],
            "scored": self.scored[rows],
            "dropped": self.dropped[rows],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"rows", "epoch", "right", "scored", "dropped"}, "curriculum.drop_solved")
        at = rows(state["rows"], "curriculum.drop_solved, rows", self.size)
        epoch, right, scored = (
            array(state[name], f"curriculum.drop_solved, {name}", np.int32, (len(at),), least=0)
            for name in ("epoch", "right", "scored")
        )
        dropped = array(state["dropped"], "curriculum.drop_solved, dropped", np.bool_, (len(at),))
        if (right > scored).any():
            raise ValueError("state of curriculum.drop_solved: more rollouts are right than have a verdict")
        self.forget()
        self.epoch[at], self.right[at], self.scored[at], self.dropped[at] = epoch, right, scored, dropped


class Evict:
    """Pilot-Commit's eviction (arXiv 2605.26606, algorithm 1): a prompt whose pilot reaches the pass rate `at` leaves
    the epochs after it.

    `on: any` also looks at whole groups; commits never count, since their prompts were chosen for a mixed pilot. The
    text of the paper says above the threshold, its algorithm from it on: the latter. Ours: with `retest`, a prompt
    comes back after so many epochs and is judged anew by its next draw; the paper evicts for good.
    """

    def __init__(self, size: int, *, at: float, on: Literal["pilot", "any"], retest: int | None) -> None:
        self.size = size
        self.at = at
        self.purposes = {Purpose.pilot} if on == "pilot" else {Purpose.pilot, Purpose.whole}
        self.retest = retest
        self.forget()

    @property
    def absence(self) -> int:
        return self.retest or 0

    def forget(self) -> None:
        """Every prompt is in again."""
        self.solved = np.full(self.size, -1, dtype=np.int32)  # epoch of the draw that evicts it; -1: none does

    def observe(self, groups: Sequence[Group]) -> None:
        for group in groups:
            if group.purpose in self.purposes and any(r.scored for r in group.rollouts):
                prompt = group.prompt
                if group.pass_rate >= self.at:
                    self.solved[prompt.row] = prompt.occurrence
                elif self.retest is not None:
                    self.solved[prompt.row] = -1

    def keep(self, rows: np.ndarray, epoch: int) -> np.ndarray:
        solved = self.solved[rows]
        out = (solved >= 0) & (solved < epoch)
        if self.retest is not None:
            out &= epoch - solved <= self.retest
        return rows[~out]  # type: ignore[no-any-return]

    def metrics(self) -> dict[str, float]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        rows = np.flatnonzero(self.solved >= 0)
        return {"rows": rows, "solved": self.solved[rows]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"rows", "solved"}, "curriculum.evict")
        at = rows(state["rows"], "curriculum.evict, rows", self.size)
        solved = array(state["solved"], "curriculum.evict, solved", np.int32, (len(at),), least=0)
        self.forget()
        self.solved[at] = solved
