"""The learner of the local engine: gradients of one mini-batch after the other, in this process.

What a step is, and what is left out of it, says `rollwise.learner.base`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rollwise.config import LearnerConfig, ObjectiveConfig
from rollwise.learner.base import Learned, LearnerSignals, StepLearner, born_under
from rollwise.learner.critic import Critic
from rollwise.learner.logprobs import Packed, completion_logprobs, pack, padded, passes, unpadded
from rollwise.learner.loss import token_loss
from rollwise.learner.optimizer import Optimizer
from rollwise.learner.stats import TokenLog
from rollwise.memory import PassSize
from rollwise.policy import Policy
from rollwise.records import LOGP, Rollout, Row
from rollwise.state import check_keys, whole

__all__ = ["Learned", "Learner", "LearnerSignals"]


class Learner(StepLearner):
    """Owns the optimizer, and where they are needed the frozen reference of a KL term and the critic."""

    critic: Critic | None
    fills_prox = True

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
        sampler_cap: float | None = None,
    ) -> None:
        """`sampler_cap` bounds the weight for a sampler whose arithmetic is not this policy's; None: no such weight."""
        super().__init__(config, objective, seed=seed, max_completion_length=max_completion_length, critic=critic)
        self.policy = policy
        self.reference = reference
        self.sampler_cap = sampler_cap
        assert objective.kl_coef == 0 or reference is not None, "a KL term needs the reference policy"
        named = [(n, p) for n, p in policy.model.named_parameters() if p.requires_grad]
        self.optimizer = Optimizer(named, config, config.lr)
        self.size = PassSize(config.micro_batch_tokens)
        if critic is not None:
            critic.size = self.size

    @property
    def updates(self) -> int:
        return self.optimizer.updates

    @property
    def skipped(self) -> int:
        return self.optimizer.skipped

    def fault(self) -> str:
        return self.optimizer.fault("loss")

    def more_metrics(self) -> dict[str, float]:
        return {"memory/halvings": float(self.size.halvings)} if self.size.halvings else {}

    def logprobs(self, rollouts: Sequence[Rollout]) -> list[np.ndarray]:
        return self._logprobs_under(self.policy, rollouts)

    def reference_logprobs(self, rollouts: Sequence[Rollout]) -> list[np.ndarray]:
        assert self.reference is not None
        return self._logprobs_under(self.reference, rollouts)

    def one_update(
        self,
        rows: Sequence[Row],
        active: list[int],
        weights: Sequence[float],
        learned: Learned,
        step: int,
        log: TokenLog,
    ) -> None:
        weight_of = dict(zip(active, weights, strict=True))
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
        norm = self.optimizer.step(loss, self.rate())
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
        reference = padded([learned.reference[i] for i in places], packed) if objective.kl_coef > 0 else None
        loss_RT, stats, kl = token_loss(
            objective,
            logp,
            prox,
            behaviour,
            _advantages([rows[i] for i in places], packed),
            mask_RT=packed.mask,
            reference_RT=reference,
            entropy_RT=entropy,
            sampled_RT=None if self.sampler_cap is None else padded([rows[i].rollout.logprobs for i in places], packed),
            sampler_cap=self.sampler_cap,
        )
        if kl is not None:
            log.kl(kl[packed.mask])
        weight = torch.tensor(weights, dtype=torch.float32, device=packed.mask.device)[:, None]
        loss = (loss_RT * packed.mask * weight).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        log.tokens([rows[i] for i in places], packed.mask, prox, behaviour, stats)
        return loss.item()

    def _behaviour(self, rows: list[Row], prox: torch.Tensor, packed: Packed, step: int) -> torch.Tensor:
        """Log-probs [R, T] of the policy each row was born under: the proximal one for rows of this step."""
        known = unpadded(prox, packed)
        return padded([born_under(row, lp, step) for row, lp in zip(rows, known, strict=True)], packed)

    @torch.no_grad()
    def _logprobs_under(self, policy: Policy, rollouts: Sequence[Rollout]) -> list[np.ndarray]:
        def attempt(tokens: int) -> list[np.ndarray]:
            out: list[np.ndarray] = [np.empty(0, dtype=LOGP)] * len(rollouts)
            for micro in passes(rollouts, self.policy, tokens):
                packed = pack([rollouts[i] for i in micro], policy)
                logp, _ = completion_logprobs(policy, packed, logit_budget=self.config.logit_budget)
                for i, lp in zip(micro, unpadded(logp, packed), strict=True):
                    out[i] = lp
            return out

        return self.size.fitting(attempt)

    def reset(self) -> None:
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
        self.size.halvings = whole(state["halvings"], "learner, halvings", most=64)
        if self.critic is not None:
            self.critic.load_state_dict(state["critic"])


def _advantages(rows: Sequence[Row], packed: Packed) -> torch.Tensor:
    """[R, 1], or [R, T] where a row has one for each token."""
    values = [r.credit.advantage for r in rows]
    if not any(isinstance(v, np.ndarray) for v in values):
        return torch.tensor(values, dtype=torch.float32, device=packed.mask.device)[:, None]
    return padded([np.broadcast_to(v, (r.rollout.length,)) for v, r in zip(values, rows, strict=True)], packed)
