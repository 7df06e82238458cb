"""The learner: one step's batch in, optimizer updates done.

A step takes `epochs` passes over `updates_per_batch` mini-batches, one AdamW update each. Rows that cannot move the
weights (advantage 0, no KL or entropy term) are left out of forward and backward and still count in the reduction.
A mini-batch without any other row takes its update with a zero gradient, as a trainer that computes them would. A batch
without any takes none. A critic, where there is one, takes the same mini-batches before the policy does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rollwise.config import LearnerConfig, ObjectiveConfig
from rollwise.learner.batching import counts, mini_batches
from rollwise.learner.critic import Critic
from rollwise.learner.logprobs import Packed, completion_logprobs, pack, padded, passes, unpadded
from rollwise.learner.optimizer import Optimizer
from rollwise.learner.schedule import learning_rate
from rollwise.learner.stats import TokenLog
from rollwise.memory import PassSize
from rollwise.objective import kl_k3, reduction_weights, surrogate
from rollwise.policy import Policy
from rollwise.records import LOGP, Batch, Rollout, Row
from rollwise.state import check_keys


@dataclass(slots=True)
class Learned:
    """What an update left behind."""

    prox: list[np.ndarray | None]  # per row: log-probs [T] at the start of the step, None where not computed
    reference: list[np.ndarray | None]  # per row: the frozen reference's, None where not computed
    metrics: dict[str, float] = field(default_factory=dict)
    idle: bool = False  # no row could move the weights, so no update was taken
    stop: str = ""  # why the run must end; empty otherwise


class LearnerSignals:
    """Log-probs of the rollouts of one batch under the proximal and the reference policy, filled where asked, and the
    critic's values of them."""

    def __init__(self, learner: Learner, rollouts: Sequence[Rollout]) -> None:
        self.learner = learner
        self.rollouts = list(rollouts)
        self.prox: list[np.ndarray | None] = [None] * len(self.rollouts)
        self.reference: list[np.ndarray | None] = [r.reference_logprobs for r in self.rollouts]

    def fill_prox(self, wanted: Sequence[int]) -> None:
        self._fill(self.prox, self.learner.policy, wanted)

    def fill_reference(self, wanted: Sequence[int]) -> None:
        assert self.learner.reference is not None
        self._fill(self.reference, self.learner.reference, wanted)

    def _fill(self, out: list[np.ndarray | None], policy: Policy, wanted: Sequence[int]) -> None:
        missing = [i for i in wanted if out[i] is None]
        found = self.learner.logprobs_under(policy, [self.rollouts[i] for i in missing])
        for i, lp in zip(missing, found, strict=True):
            out[i] = lp

    def logprobs(self) -> list[np.ndarray]:
        self.fill_prox(range(len(self.rollouts)))
        return [lp for lp in self.prox if lp is not None]

    def reference_logprobs(self) -> list[np.ndarray]:
        self.fill_reference(range(len(self.rollouts)))
        return [lp for lp in self.reference if lp is not None]

    def values(self) -> list[np.ndarray]:
        assert self.learner.critic is not None, "this learner has no critic"
        return self.learner.critic.values(self.rollouts)


class Learner:
    """Owns the optimizer, and where they are needed the frozen reference of a KL term and the critic."""

    def __init__(
        self,
        policy: Policy,
        config: LearnerConfig,
        objective: ObjectiveConfig,
        *,
        seed: int,
        max_completion_length: int,
        reference: Policy | None = None,
        critic: Critic | None = None,
    ) -> None:
        self.policy = policy
        self.config = config
        self.objective = objective
        self.seed = seed
        self.max_completion_length = max_completion_length
        self.reference = reference
        assert objective.kl_coef == 0 or reference is not None, "a KL term needs the reference policy"
        self.critic = critic
        named = [(n, p) for n, p in policy.model.named_parameters() if p.requires_grad]
        self.optimizer = Optimizer(named, config, config.lr)
        self.size = PassSize(config.micro_batch_tokens)
        if critic is not None:
            critic.size = self.size

    @property
    def updates(self) -> int:
        """Optimizer updates of the policy so far."""
        return self.optimizer.updates

    @property
    def skipped(self) -> int:
        """Updates left out because loss or gradient was not finite."""
        return self.optimizer.skipped

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
            first = set(plan[0])  # theta is still the proximal policy in the first update: no pass of its own
            known.fill_prox([i for i in wanted if i not in first])
            if self.objective.kl_coef > 0:
                known.fill_reference(wanted)
            for part in plan:
                self._one_update(rows, part, live, learned, batch.step, log)
                if fault := self.optimizer.fault("loss"):
                    learned.stop = fault
                    break
        learned.metrics = {**log.metrics(), **of_critic}
        learned.metrics["updates"] = float(self.updates - before)
        learned.metrics["lr"] = self._rate()
        if self.size.halvings:
            learned.metrics["memory/halvings"] = float(self.size.halvings)
        return learned

    def logprobs(self, rollouts: Sequence[Rollout]) -> list[np.ndarray]:
        """Log-probs float32 [T] of each rollout's completion under the current policy."""
        return self.logprobs_under(self.policy, rollouts)

    def _matters(self, row: Row) -> bool:
        """Whether the row can move the weights."""
        if not counts(row) or row.rollout.length == 0:
            return False
        return row.credit.teaches or self.objective.kl_coef > 0 or self.objective.entropy_coef > 0

    def _one_update(
        self, rows: Sequence[Row], part: list[int], live: list[bool], learned: Learned, step: int, log: TokenLog
    ) -> None:
        weight = reduction_weights(
            torch.tensor([rows[i].rollout.length if counts(rows[i]) else 0 for i in part]),
            torch.tensor([rows[i].unit for i in part]),
            kind=self.objective.reduction,
            max_length=self.max_completion_length,
        )
        weight_of = dict(zip(part, weight.tolist(), strict=True))
        active = [i for i in part if live[i]]
        log.left_out([rows[i] for i in part if not live[i] and counts(rows[i])])
        mark, unmet = log.mark(), [i for i in active if learned.prox[i] is None]

        def attempt(tokens: int) -> float:
            log.rewind(mark)
            for i in unmet:
                learned.prox[i] = None
            self.optimizer.zero_grad()
            loss = 0.0
            for micro in passes([rows[i].rollout for i in active], self.policy, tokens):
                places = [active[m] for m in micro]
                loss += self._backward(rows, places, [weight_of[i] for i in places], learned, step, log)
            return loss

        loss = self.size.fitting(attempt)
        norm = self.optimizer.step(loss, self._rate())
        if norm is not None:
            log.update(loss=loss, grad_norm=norm)

    def _backward(
        self,
        rows: Sequence[Row],
        places: list[int],
        weights: list[float],
        learned: Learned,
        step: int,
        log: TokenLog,
    ) -> float:
        """Gradient of one micro-batch, added to the others'. Returns its share of the loss."""
        objective = self.objective
        packed = pack([rows[i].rollout for i in places], self.policy)
        logp, entropy = completion_logprobs(
            self.policy, packed, logit_budget=self.config.logit_budget, entropy=objective.entropy_coef > 0
        )
        if learned.prox[places[0]] is None:
            prox = logp.detach()
            for i, lp in zip(places, unpadded(prox, packed), strict=True):
                learned.prox[i] = lp
        else:
            prox = padded([learned.prox[i] for i in places], packed)
        behaviour = self._behaviour([rows[i] for i in places], prox, packed, step)
        device = packed.mask.device
        loss_RT, stats = surrogate(
            logp,
            prox,
            behaviour,
            _advantages([rows[i] for i in places], packed),
            mask_RT=packed.mask,
            kind=objective.kind,
            clip_low=objective.clip_low,
            clip_high=objective.clip_high,
            dual_clip=objective.dual_clip,
            behaviour_weight=objective.behaviour_weight,
            weight_level=objective.weight_level,
            weight_cap=objective.weight_cap,
            weight_over_cap=objective.weight_over_cap,
        )
        if objective.kl_coef > 0:
            kl = kl_k3(logp, padded([learned.reference[i] for i in places], packed))
            loss_RT = loss_RT + objective.kl_coef * kl
            log.kl(kl.detach()[packed.mask])
        if entropy is not None:
            loss_RT = loss_RT - objective.entropy_coef * entropy
        weight = torch.tensor(weights, dtype=torch.float32, device=device)[:, None]
        loss = (loss_RT * packed.mask * weight).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        log.tokens([rows[i] for i in places], packed.mask, prox, behaviour, stats)
        return loss.item()

    def _behaviour(self, rows: list[Row], prox: torch.Tensor, packed: Packed, step: int) -> torch.Tensor:
        """Log-probs [R, T] of the policy each row was born under: the proximal one for rows of this step."""
        out = prox.clone()
        for i, row in enumerate(rows):
            rollout = row.rollout
            if rollout.birth_logprobs is None and rollout.birth_step == step:
                continue
            out[i, : rollout.length] = torch.from_numpy(rollout.behaviour_logprobs).to(out.device)
        return out

    @torch.no_grad()
    def logprobs_under(self, policy: Policy, rollouts: Sequence[Rollout]) -> list[np.ndarray]:
        def attempt(tokens: int) -> list[np.ndarray]:
            out: list[np.ndarray] = [np.empty(0, dtype=LOGP)] * len(rollouts)
            for micro in passes(rollouts, self.policy, tokens):
                packed = pack([rollouts[i] for i in micro], policy)
                logp, _ = completion_logprobs(policy, packed, logit_budget=self.config.logit_budget)
                for i, lp in zip(micro, unpadded(logp, packed), strict=True):
                    out[i] = lp
            return out

        return self.size.fitting(attempt)

    def _rate(self) -> float:
        return learning_rate(
            self.updates,
            lr=self.config.lr,
            warmup_updates=self.config.warmup_updates,
            schedule=self.config.schedule,
            schedule_updates=self.config.schedule_updates,
        )

    def reset(self) -> None:
        """The optimizer's moments begin anew, the critic's with them; weights, counters and learning rate go on."""
        self.optimizer.forget()
        if self.critic is not None:
            self.critic.optimizer.forget()

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's counters and moments, and the critic's state."""
        critic = None if self.critic is None else self.critic.state_dict()
        return {**self.optimizer.state_dict(), "halvings": self.size.halvings, "critic": critic}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"updates", "skipped", "skipped_in_a_row", "moments", "halvings", "critic"}, "learner")
        if (state["critic"] is None) != (self.critic is None):
            raise ValueError("state of learner: a critic is in only one of the state and this learner")
        self.optimizer.load_state_dict({k: v for k, v in state.items() if k not in ("critic", "halvings")}, "learner")
        self.size.halvings = state["halvings"]
        if self.critic is not None:
            self.critic.load_state_dict(state["critic"])


def _advantages(rows: Sequence[Row], packed: Packed) -> torch.Tensor:
    """[R, 1], or [R, T] where a row has one for each token."""
    values = [r.credit.advantage for r in rows]
    if not any(isinstance(v, np.ndarray) for v in values):
        return torch.tensor(values, dtype=torch.float32, device=packed.mask.device)[:, None]
    return padded([np.broadcast_to(v, (r.rollout.length,)) for v, r in zip(values, rows, strict=True)], packed)
