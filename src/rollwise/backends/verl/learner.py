"""The learner of a verl run: the rows, mini-batches and weights of the local engine, the arithmetic verl's.

Differs from the local engine: the proximal log-probs of every row that matters take a pass of their own; the learning
rate follows verl's schedule, which goes on in updates that are left out as well; the moments of the optimizer are in
verl's checkpoint and cannot begin anew; tokens that stand for pictures are not taken out of the distribution.

verl leaves an update out where the norm of its gradient is not finite, and `loss.PolicyLoss` makes it so where the loss
is not. What is counted here is what verl did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from rollwise.backends.verl import loss as fields
from rollwise.backends.verl.rows import Extra, batch, filled, jagged, of_completions, tensors
from rollwise.config import LearnerConfig, ObjectiveConfig
from rollwise.errors import UserError
from rollwise.learner.base import Learned, StepLearner, Values, born_under
from rollwise.learner.batching import counts
from rollwise.learner.critic import explained_variance, has_returns
from rollwise.learner.optimizer import MAX_NON_FINITE
from rollwise.learner.stats import TokenLog
from rollwise.objective import TokenStats, behaviour_weights, sampler_weights
from rollwise.records import LOGP, Role, Rollout, Row
from rollwise.state import check_keys, number, whole


class Workers:
    """A verl worker group as what is asked of it here."""

    def __init__(self, group: Any, mesh: str, temperature: float, extra: Extra | None = None) -> None:
        self.group, self.mesh, self.temperature, self.extra = group, mesh, temperature, extra

    @property
    def count(self) -> int:
        """Data-parallel workers."""
        info = self.group._dispatch_info
        if self.mesh not in info:
            info[self.mesh] = self.group._query_dispatch_info(self.mesh)
        return int(max(info[self.mesh])) + 1

    def infer(self, call: Any, rollouts: Sequence[Rollout], output: str) -> list[np.ndarray]:
        """`output` of `call` on each completion token, float32 [T]; a completion of no tokens is not sent."""
        sent = [r for r in rollouts if r.length]
        found: dict[int, np.ndarray] = {}
        if sent:
            rows = [sent[i] for i in filled(sent, self.count)]
            settings = {"calculate_entropy": False, "compute_loss": False, "temperature": self.temperature}
            answer = _here(call(batch(tensors(rows, self.extra), **settings)))
            places = [i for i, r in enumerate(rollouts) if r.length]
            found = dict(zip(places, of_completions(answer[output], sent), strict=True))
        return [found.get(i, np.empty(0, dtype=LOGP)) for i in range(len(rollouts))]

    def train(self, call: Any, rollouts: Sequence[Rollout], own: dict[str, Any], **settings: Any) -> dict[str, float]:
        """One optimizer update; the numbers it left. `own` are fields of the rows beside their tokens."""
        rows = batch(
            {**tensors(rollouts, self.extra), **own},
            temperature=self.temperature,
            mini_batch_size=len(rollouts),
            global_batch_size=len(rollouts),
            epochs=1,
            seed=0,
            dataloader_kwargs={"shuffle": False},
            **settings,
        )
        answer = _here(call(rows))
        return {name: _number(value) for name, value in answer["metrics"].items()}


class VerlLearner(StepLearner):
    """Trains verl's actor workers."""

    def __init__(
        self,
        actor: Workers,
        config: LearnerConfig,
        objective: ObjectiveConfig,
        *,
        seed: int,
        max_completion_length: int,
        reference: Workers | None = None,
        reference_call: str = "compute_ref_log_prob",
        critic: VerlCritic | None = None,
        sampler_cap: float | None = None,
    ) -> None:
        """`sampler_cap` bounds the weight for servers whose arithmetic is not the workers'; None: no such weight."""
        super().__init__(config, objective, seed=seed, max_completion_length=max_completion_length, critic=critic)
        self.critic: VerlCritic | None
        assert objective.kl_coef == 0 or reference is not None, "a KL term needs the reference policy"
        self.actor, self.reference, self.reference_call = actor, reference, reference_call
        self._updates = self._skipped = self._skipped_in_a_row = 0
        self.sampler_cap = sampler_cap
        self._rate = 0.0 if config.warmup_updates else config.lr  # verl's warm-up begins at 0
        actor.group.set_loss_fn(fields.PolicyLoss(objective, sampler_cap))

    @property
    def updates(self) -> int:
        return self._updates

    @property
    def skipped(self) -> int:
        return self._skipped

    def logprobs(self, rollouts: Sequence[Rollout]) -> list[np.ndarray]:
        return self.actor.infer(self.actor.group.compute_log_prob, rollouts, "log_probs")

    def reference_logprobs(self, rollouts: Sequence[Rollout]) -> list[np.ndarray]:
        assert self.reference is not None
        return self.reference.infer(getattr(self.reference.group, self.reference_call), rollouts, "log_probs")

    def one_update(
        self,
        rows: Sequence[Row],
        active: list[int],
        weights: Sequence[float],
        learned: Learned,
        step: int,
        log: TokenLog,
    ) -> None:
        if active:
            sent = [rows[i] for i in active]
            prox = [_known(learned.prox[i], rows[i]) for i in active]
            behaviour = [born_under(row, lp, step) for row, lp in zip(sent, prox, strict=True)]
        else:  # the update has a zero gradient: any row with tokens serves, weighing nothing
            sent = [next(row for row in rows if row.rollout.length)]
            prox = behaviour = [sent[0].rollout.logprobs]
        order = filled([r.rollout for r in sent], self.actor.count)
        weight = list(weights) if active else [0.0]
        own = {
            fields.PROX: _floats([prox[i] for i in order]),
            fields.BEHAVIOUR: _floats([behaviour[i] for i in order]),
            fields.ADVANTAGE: _floats([_per_token(sent[i]) for i in order]),
            fields.WEIGHT: torch.tensor([weight[i] if at < len(sent) else 0.0 for at, i in enumerate(order)]),
            fields.REPLAYED: torch.tensor([float(sent[i].role is Role.replay) for i in order]),
        }
        if self.sampler_cap is not None:
            own[fields.SAMPLED] = _floats([sent[i].rollout.logprobs for i in order])
        if self.objective.kl_coef > 0:
            reference = [_known(learned.reference[i], rows[i]) for i in active] or prox
            own[fields.REFERENCE] = _floats([reference[i] for i in order])
        said = self.actor.train(
            self.actor.group.update_actor,
            [sent[i].rollout for i in order],
            own,
            calculate_entropy=self.objective.entropy_coef > 0,
        )
        loss, norm, self._rate = said["loss"], said["grad_norm"], said["lr"]
        if math.isfinite(norm):
            self._updates, self._skipped_in_a_row = self._updates + 1, 0
            log.update(loss=loss, grad_norm=norm)
        else:
            self._skipped, self._skipped_in_a_row = self._skipped + 1, self._skipped_in_a_row + 1
        if active:
            self._log(log, sent, prox, behaviour, said)

    def _log(
        self,
        log: TokenLog,
        rows: Sequence[Row],
        prox: Sequence[np.ndarray],
        behaviour: Sequence[np.ndarray],
        said: dict[str, float],
    ) -> None:
        """The step's statistics: weights from what is known here, clips and KL from what the workers counted."""
        o = self.objective
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(p), dtype=torch.bool) for p in prox], batch_first=True)
        prox_RT, behaviour_RT = _pad(prox), _pad(behaviour)
        weight = behaviour_weights(
            prox_RT,
            behaviour_RT,
            mask_RT=mask,
            level=o.weight_level,
            cap=o.weight_cap,
            over_cap=o.weight_over_cap,
            applies=o.kind == "decoupled" or o.behaviour_weight,
        )
        stats = TokenStats(weight=weight, clipped=torch.zeros_like(mask))
        if self.sampler_cap is not None:
            sampled_RT = _pad([row.rollout.logprobs for row in rows])
            corrected, ratio = sampler_weights(behaviour_RT, sampled_RT, cap=self.sampler_cap)
            stats = replace(stats, sampler_weight=corrected, sampler_ratio=ratio)
        log.tokens(rows, mask, prox_RT, behaviour_RT, stats)
        log.clipped({Role.fresh: said["clipped/fresh"], Role.replay: said["clipped/replay"]}, said["clipped/idle"])
        if said["kl/tokens"]:
            log.kl(torch.full((round(said["kl/tokens"]),), said["kl/sum"] / said["kl/tokens"]))

    def rate(self) -> float:
        """As verl's schedule has it."""
        return self._rate

    def fault(self) -> str:
        return _fault("loss", self._skipped_in_a_row)

    def reset(self) -> None:
        raise UserError("curriculum.stages: verl cannot begin the optimizer anew; leave optimizer out of reset")

    def state_dict(self) -> dict[str, Any]:
        """Counters, and the rate that verl has said; weights, moments and schedule are in verl's own checkpoint."""
        return {
            "updates": self._updates,
            "skipped": self._skipped,
            "skipped_in_a_row": self._skipped_in_a_row,
            "rate": self._rate,
            "critic": None if self.critic is None else self.critic.skipped_in_a_row,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"updates", "skipped", "skipped_in_a_row", "rate", "critic"}, "learner")
        if (state["critic"] is None) != (self.critic is None):
            raise ValueError("state of learner: a critic is in only one of the state and this learner")
        self._updates = whole(state["updates"], "learner, updates")
        self._skipped = whole(state["skipped"], "learner, skipped")
        self._skipped_in_a_row = whole(state["skipped_in_a_row"], "learner, skipped_in_a_row", most=self._skipped)
        self._rate = number(state["rate"], "learner, rate", least=0)
        if self.critic is not None:
            self.critic.skipped_in_a_row = whole(state["critic"], "learner, critic")


class VerlCritic(Values):
    """verl's critic workers: a model of their own with a value for each place."""

    def __init__(self, workers: Workers, clip_value: float | None) -> None:
        self.workers, self.skipped_in_a_row = workers, 0
        workers.group.set_loss_fn(fields.ValueLoss(clip_value))

    def values(self, rollouts: Sequence[Rollout]) -> list[np.ndarray]:
        return self.workers.infer(self.workers.group.infer_batch, rollouts, "values")

    def update(self, rows: Sequence[Row], plan: Sequence[list[int]]) -> tuple[dict[str, float], str]:
        losses, clipped, tokens = [], 0.0, 0
        for part in plan:
            live = [rows[i] for i in part if counts(rows[i]) and rows[i].rollout.length and has_returns(rows[i])]
            if not live:
                continue
            total = sum(r.rollout.length for r in live)
            order = filled([r.rollout for r in live], self.workers.count)
            own = {
                fields.VALUES: _floats([_known(live[i].credit.values, live[i]) for i in order]),
                fields.RETURNS: _floats([_known(live[i].credit.returns, live[i]) for i in order]),
                fields.WEIGHT: torch.tensor([1 / total if at < len(live) else 0.0 for at in range(len(order))]),
            }
            said = self.workers.train(self.workers.group.train_mini_batch, [live[i].rollout for i in order], own)
            clipped, tokens = clipped + said["clipped"], tokens + total
            if math.isfinite(said["grad_norm"]):
                losses.append(said["loss"])
                self.skipped_in_a_row = 0
                continue
            self.skipped_in_a_row += 1
            if fault := _fault("the critic's loss", self.skipped_in_a_row):
                return {}, fault
        metrics = {"value/clip_ratio": clipped / tokens} if tokens else {}
        if losses:
            metrics["value/loss"] = float(np.mean(losses))
        return {**metrics, **explained_variance(rows)}, ""


def _fault(what: str, skipped_in_a_row: int) -> str:
    """Why the run must end after so many updates that verl left out; empty while it need not. `what` names the loss."""
    if skipped_in_a_row < MAX_NON_FINITE:
        return ""
    return f"{what} or gradient was not finite in {MAX_NON_FINITE} updates in a row"


def _known(values: np.ndarray | None, row: Row) -> np.ndarray:
    assert values is not None and len(values) == row.rollout.length
    return values


def _per_token(row: Row) -> np.ndarray:
    """Advantage of each completion token [T]."""
    return np.broadcast_to(np.asarray(row.credit.advantage, dtype=LOGP), (row.rollout.length,))


def _floats(rows: Sequence[np.ndarray]) -> torch.Tensor:
    return jagged([torch.from_numpy(np.array(r, dtype=LOGP)) for r in rows])


def _pad(rows: Sequence[np.ndarray]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.from_numpy(np.array(r, dtype=LOGP)) for r in rows], batch_first=True)


def _here(answer: Any) -> Any:
    """The answer of a worker group, waited for where it is a promise."""
    return answer.get() if hasattr(answer, "futures") else answer


def _number(value: Any) -> float:
    """A metric of one update: a number, or a list that holds it once for each micro-batch or worker group."""
    if hasattr(value, "aggregate"):
        return float(value.aggregate())
    if isinstance(value, list):
        return float(sum(_number(v) for v in value)) if len(value) > 1 else _number(value[0]) if value else 0.0
    return float(value) if isinstance(value, int | float | np.generic | torch.Tensor) else math.nan
