"""The critic: a value for the place before each completion token, from the hidden state that predicts the token.

head:  a linear layer on the policy's own hidden states; no gradient reaches them.
model: a copy of the start model, trained as a whole, with the linear layer on top.

Ours: the layer starts at zero, so that first advantages are returns; the learning rate is constant, everything else of
the optimizer is the policy's. A step's mini-batches are those of the policy and come before it, so that a head learns
on the hidden states its values were made from. The loss is the mean over the tokens of a mini-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rollwise.config import LearnerConfig
from rollwise.errors import UserError
from rollwise.learner.batching import counts
from rollwise.learner.logprobs import Packed, completion_hidden, pack, padded, passes, unpadded
from rollwise.learner.optimizer import Optimizer
from rollwise.memory import PassSize
from rollwise.objective import value_loss
from rollwise.policy import Policy
from rollwise.records import LOGP, Rollout, Row
from rollwise.state import array, check_keys


class Critic:
    """Predicts returns. `policy` gives the hidden states: the policy being trained, or with `own` a copy of its own."""

    def __init__(
        self, policy: Policy, config: LearnerConfig, *, own: bool, lr: float, clip_value: float | None
    ) -> None:
        if policy.model.base_model is policy.model:
            raise UserError("critic: this model's hidden states are not to be had apart; use a method without a critic")
        self.policy, self.size = policy, PassSize(config.micro_batch_tokens)
        self.own, self.lr, self.clip_value = own, lr, clip_value
        with torch.no_grad():
            width = policy.trunk(torch.zeros(1, 1, dtype=torch.int64, device=policy.device)).shape[-1]
        self.head = torch.nn.Linear(width, 1, device=policy.device)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        named = policy.model.base_model.named_parameters(prefix="trunk") if own else ()
        trunk = [(name, p) for name, p in named if p.requires_grad]
        self.optimizer = Optimizer([*trunk, *self.head.named_parameters(prefix="head")], config, lr)

    @torch.no_grad()
    def values(self, rollouts: Sequence[Rollout]) -> list[np.ndarray]:
        """Value before each completion token, float32 [T] each."""

        def attempt(tokens: int) -> list[np.ndarray]:
            out: list[np.ndarray] = [np.empty(0, dtype=LOGP)] * len(rollouts)
            for micro in passes(rollouts, self.policy, tokens):
                packed = pack([rollouts[i] for i in micro], self.policy)
                for i, v in zip(micro, unpadded(self._values(packed), packed), strict=True):
                    out[i] = v
            return out

        return self.size.fitting(attempt)

    def _values(self, packed: Packed) -> torch.Tensor:
        """[R, T], 0 outside the mask."""
        with torch.set_grad_enabled(self.own and torch.is_grad_enabled()), self.policy.precision():
            hidden = completion_hidden(self.policy, packed)
        values_N = self.head(hidden.float())[:, 0]
        out = torch.zeros(packed.mask.shape, dtype=torch.float32, device=packed.mask.device)
        return out.masked_scatter(packed.mask, values_N)

    def update(self, rows: Sequence[Row], plan: Sequence[list[int]]) -> tuple[dict[str, float], str]:
        """One update for each mini-batch (row numbers) that has rows with returns. Returns metrics, and a reason if the
        run must end.

        value/loss is the mean over the updates, value/clip_ratio the share of tokens whose clipped loss was the larger,
        value/explained_variance is 1 - var(R - V) / var(R) with the values the advantages were made with; left out
        where the returns do not vary.
        """
        losses, clipped, tokens = [], 0, 0
        for part in plan:
            live = [rows[i] for i in part if counts(rows[i]) and rows[i].rollout.length and has_returns(rows[i])]
            if not live:
                continue
            total = sum(r.rollout.length for r in live)
            loss, cut = self._gradient(live, total)
            clipped, tokens = clipped + cut, tokens + total
            if self.optimizer.step(loss, self.lr) is not None:
                losses.append(loss)
            elif fault := self.optimizer.fault("the critic's loss"):
                return {}, fault
        metrics = {"value/clip_ratio": clipped / tokens} if tokens else {}
        if losses:
            metrics["value/loss"] = float(np.mean(losses))
        return {**metrics, **explained_variance(rows)}, ""

    def _gradient(self, rows: list[Row], total: int) -> tuple[float, int]:
        """Gradient of one mini-batch of so many tokens. Returns its loss and its clipped tokens."""

        def attempt(tokens: int) -> tuple[float, int]:
            self.optimizer.zero_grad()
            parts = passes([r.rollout for r in rows], self.policy, tokens)
            shares = [self._backward([rows[i] for i in micro], total) for micro in parts]
            return sum(loss for loss, _ in shares), sum(cut for _, cut in shares)

        return self.size.fitting(attempt)

    def _backward(self, rows: list[Row], total: int) -> tuple[float, int]:
        """Gradient of one micro-batch, added to the others'. Returns its share of the loss and its clipped tokens."""
        packed = pack([r.rollout for r in rows], self.policy)
        old = padded([r.credit.values for r in rows], packed)
        returns = padded([r.credit.returns for r in rows], packed)
        loss_RT, clipped = value_loss(self._values(packed), old, returns, clip=self.clip_value)
        loss = (loss_RT * packed.mask).sum() / total
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item(), int((clipped & packed.mask).sum())

    def state_dict(self) -> dict[str, Any]:
        """Weights by name, those of the trunk only where it is the critic's own, and the optimizer's state."""
        weights = {n: p.detach().cpu().numpy().copy() for n, p in self._named()}
        return {"weights": weights, **self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"weights", "updates", "skipped", "skipped_in_a_row", "moments"}, "critic")
        named = dict(self._named())
        if set(state["weights"]) != set(named):
            raise ValueError("state of critic: its weights are not those of this critic")
        weights = {
            name: array(state["weights"][name], f"critic, {name}", np.float32, tuple(p.shape))
            for name, p in named.items()
        }
        with torch.no_grad():
            for name, weight in weights.items():
                named[name].copy_(torch.from_numpy(np.array(weight)))
        self.optimizer.load_state_dict({k: v for k, v in state.items() if k != "weights"}, "critic")

    def _named(self) -> list[tuple[str, torch.nn.Parameter]]:
        return list(zip(self.optimizer.names, self.optimizer.parameters, strict=True))


def has_returns(row: Row) -> bool:
    """Whether a critic can learn from the row."""
    return row.credit.returns is not None and row.credit.values is not None


def explained_variance(rows: Sequence[Row]) -> dict[str, float]:
    """The metric of that name; empty where the returns do not vary."""
    known = [r.credit for r in rows if counts(r) and has_returns(r)]
    if not known:
        return {}
    returns = np.concatenate([c.returns for c in known if c.returns is not None])
    values = np.concatenate([c.values for c in known if c.values is not None]).astype(np.float64)
    spread = float(np.var(returns)) if len(returns) else 0.0
    return {"value/explained_variance": 1 - float(np.var(returns - values)) / spread} if spread > 1e-12 else {}
