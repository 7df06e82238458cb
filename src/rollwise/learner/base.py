"""The learner's side of a step on any engine: which rows, which mini-batches, which weights; one update for each.

A step takes `epochs` passes over `updates_per_batch` mini-batches, one AdamW update each. Rows that cannot move the
weights (advantage 0, no KL or entropy term) are left out of forward and backward and still count in the reduction.
A mini-batch without any other row takes its update with a zero gradient, as a trainer that computes them would. A batch
without any takes none. A critic, where there is one, takes the same mini-batches before the policy does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from rollwise.config import LearnerConfig, ObjectiveConfig
from rollwise.learner.batching import counts, mini_batches
from rollwise.learner.schedule import learning_rate
from rollwise.learner.stats import TokenLog
from rollwise.objective import reduction_weights
from rollwise.records import Batch, Rollout, Row


@dataclass(slots=True)
class Learned:
    """What an update left behind."""

    prox: list[np.ndarray | None]  # per row: log-probs [T] at the start of the step, None where not computed
    reference: list[np.ndarray | None]  # per row: the frozen reference's, None where not computed
    metrics: dict[str, float] = field(default_factory=dict)
    idle: bool = False  # no row could move the weights, so no update was taken
    stop: str = ""  # why the run must end; empty otherwise


class Values(Protocol):
    """A critic as a step sees it."""

    def values(self, rollouts: Sequence[Rollout]) -> list[np.ndarray]:
        """Value before each completion token, float32 [T] each."""
        ...

    def update(self, rows: Sequence[Row], plan: Sequence[list[int]]) -> tuple[dict[str, float], str]:
        """One update for each mini-batch (row numbers) with returns; metrics, and a reason if the run must end."""
        ...


class LearnerSignals:
    """Log-probs of the rollouts of one batch under the proximal and the reference policy, filled where asked, and the
    critic's values of them."""

    def __init__(self, learner: StepLearner, rollouts: Sequence[Rollout]) -> None:
        self.learner = learner
        self.rollouts = list(rollouts)
        self.prox: list[np.ndarray | None] = [None] * len(self.rollouts)
        self.reference: list[np.ndarray | None] = [r.reference_logprobs for r in self.rollouts]

    def fill_prox(self, wanted: Sequence[int]) -> None:
        missing = [i for i in wanted if self.prox[i] is None]
        for i, lp in zip(missing, self.learner.logprobs([self.rollouts[i] for i in missing]), strict=True):
            self.prox[i] = lp

    def fill_reference(self, wanted: Sequence[int]) -> None:
        missing = [i for i in wanted if self.reference[i] is None]
        found = self.learner.reference_logprobs([self.rollouts[i] for i in missing])
        for i, lp in zip(missing, found, strict=True):
            self.reference[i] = lp

    def logprobs(self) -> list[np.ndarray]:
        self.fill_prox(range(len(self.rollouts)))
        return [lp for lp in self.prox if lp is not None]

    def reference_logprobs(self) -> list[np.ndarray]:
        self.fill_reference(range(len(self.rollouts)))
        return [lp for lp in self.reference if lp is not None]

    def values(self) -> list[np.ndarray]:
        assert self.learner.critic is not None, "this learner has no critic"
        return self.learner.critic.values(self.rollouts)


class StepLearner(ABC):
    """What does not depend on where the tensors live. An engine adds log-probs and a single update."""

    fills_prox = False  # whether `one_update` itself leaves the proximal log-probs of rows that have none yet

    def __init__(
        self,
        config: LearnerConfig,
        objective: ObjectiveConfig,
        *,
        seed: int,
        max_completion_length: int,
        critic: Values | None = None,
    ) -> None:
        self.config = config
        self.objective = objective
        self.seed = seed
        self.max_completion_length = max_completion_length
        self.critic = critic

    @property
    @abstractmethod
    def updates(self) -> int:
        """Optimizer updates of the policy so far."""

    @property
    @abstractmethod
    def skipped(self) -> int:
        """Updates left out because loss or gradient was not finite."""

    @abstractmethod
    def logprobs(self, rollouts: Sequence[Rollout]) -> list[np.ndarray]:
        """Log-probs float32 [T] of each rollout's completion under the current policy."""

    @abstractmethod
    def reference_logprobs(self, rollouts: Sequence[Rollout]) -> list[np.ndarray]:
        """The same under the frozen reference. Needs one."""

    @abstractmethod
    def one_update(
        self,
        rows: Sequence[Row],
        active: list[int],
        weights: Sequence[float],
        learned: Learned,
        step: int,
        log: TokenLog,
    ) -> None:
        """One optimizer update on the rows numbered `active` (none: a zero gradient), each token of theirs weighing
        `weights` of its row."""

    @abstractmethod
    def fault(self) -> str:
        """Why the run must end after the last update; empty while it need not."""

    @abstractmethod
    def reset(self) -> None:
        """The optimizer's moments begin anew, the critic's with them; weights, counters and learning rate go on."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]: ...

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None: ...

    def more_metrics(self) -> dict[str, float]:
        """What the engine has to say of a step, beside the tokens."""
        return {}

    def signals(self, rollouts: Sequence[Rollout]) -> LearnerSignals:
        """What this learner can say of the rollouts of a batch, computed once and only when asked."""
        return LearnerSignals(self, rollouts)

    def update(self, batch: Batch, signals: LearnerSignals | None = None) -> Learned:
        """Train on one step's rows. `signals` are those of the same rollouts, if any were computed before."""
        rows = batch.rows
        known = signals or self.signals([r.rollout for r in rows])
        learned = Learned(prox=known.prox, reference=known.reference)
        live = [self._matters(r) for r in rows]
        learned.idle = not any(live)
        log = TokenLog(clip_removes=self.objective.kind != "cispo")
        before = self.updates
        plan = [
            part
            for epoch in range(self.config.epochs)
            for part in mini_batches(rows, self.config.updates_per_batch, seed=self.seed, step=batch.step, epoch=epoch)
        ]
        of_critic: dict[str, float] = {}
        if self.critic is not None:
            of_critic, learned.stop = self.critic.update(rows, plan)
        if any(live):
            wanted = [i for i, matters in enumerate(live) if matters]
            first = set(plan[0]) if self.fills_prox else ()  # theta is still the proximal policy in the first update
            known.fill_prox([i for i in wanted if i not in first])
            if self.objective.kl_coef > 0:
                known.fill_reference(wanted)
            for part in plan:
                active = [i for i in part if live[i]]
                log.left_out([rows[i] for i in part if not live[i] and counts(rows[i])])
                self.one_update(rows, active, self._weights(rows, part, active), learned, batch.step, log)
                if fault := self.fault():
                    learned.stop = fault
                    break
        learned.metrics = {**log.metrics(), **of_critic}
        learned.metrics["updates"] = float(self.updates - before)
        learned.metrics["lr"] = self.rate()
        learned.metrics |= self.more_metrics()
        return learned

    def rate(self) -> float:
        """Learning rate of the next update."""
        return learning_rate(
            self.updates,
            lr=self.config.lr,
            warmup_updates=self.config.warmup_updates,
            schedule=self.config.schedule,
            schedule_updates=self.config.schedule_updates,
        )

    def _matters(self, row: Row) -> bool:
        """Whether the row can move the weights."""
        if not counts(row) or row.rollout.length == 0:
            return False
        return row.credit.teaches or self.objective.kl_coef > 0 or self.objective.entropy_coef > 0

    def _weights(self, rows: Sequence[Row], part: list[int], active: list[int]) -> list[float]:
        """Weight of each token of the `active` rows, from the whole mini-batch `part`."""
        weight = reduction_weights(
            torch.tensor([rows[i].rollout.length if counts(rows[i]) else 0 for i in part]),
            torch.tensor([rows[i].unit for i in part]),
            kind=self.objective.reduction,
            max_length=self.max_completion_length,
        )
        weight_of = dict(zip(part, weight.tolist(), strict=True))
        return [weight_of[i] for i in active]


def born_under(row: Row, prox: np.ndarray, step: int) -> np.ndarray:
    """Log-probs [T] of the policy a row was born under: the proximal one's for rows of this step."""
    rollout = row.rollout
    born_now = rollout.birth_logprobs is None and rollout.birth_step == step
    return prox if born_now else rollout.behaviour_logprobs
