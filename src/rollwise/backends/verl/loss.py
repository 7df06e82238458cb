"""The loss a worker runs over its micro-batches: Rollwise's own, on verl's tensors.

Every row carries its weight in the reduction, made from the whole mini-batch before it was split, so the sum over
micro-batches and workers is the loss whatever the split. verl averages gradients over data-parallel workers; for that
the loss is multiplied by their number.

verl looks at the norm of the gradient alone before it takes an update. A loss that is not finite therefore gets a
gradient that is not, so that its update is left out as it is by the local engine.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from tensordict import TensorDict
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.padding import no_padding_2_padding

from rollwise.config import ObjectiveConfig
from rollwise.learner.loss import token_loss
from rollwise.objective import value_loss

ADVANTAGE, PROX, SAMPLED, REFERENCE = "advantages", "old_log_probs", "rollout_log_probs", "ref_log_prob"
BEHAVIOUR = "rollwise_behaviour"
WEIGHT, REPLAYED = "rollwise_weight", "rollwise_replayed"  # [R]: of each of the row's tokens; 1 for a replayed row
VALUES, RETURNS = "values", "returns"


class PolicyLoss:
    """Called by the worker for each micro-batch; pickled once to each."""

    def __init__(self, objective: ObjectiveConfig, sampler_cap: float | None = None) -> None:
        self.objective, self.sampler_cap = objective, sampler_cap

    def __call__(
        self, model_output: dict[str, Any], data: TensorDict, dp_group: Any = None
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        objective = self.objective
        logp = no_padding_2_padding(model_output["log_probs"], data).float()
        entropy = model_output.get("entropy")
        mask = _mask(data)
        prox, advantage = _padded(data[PROX]), _padded(data[ADVANTAGE])
        loss_RT, stats, kl = token_loss(
            objective,
            logp,
            prox,
            _padded(data[BEHAVIOUR]),
            advantage,
            mask_RT=mask,
            reference_RT=_padded(data[REFERENCE]) if objective.kl_coef > 0 else None,
            entropy_RT=None if entropy is None else no_padding_2_padding(entropy, data).float(),
            sampled_RT=None if self.sampler_cap is None else _padded(data[SAMPLED]),
            sampler_cap=self.sampler_cap,
        )
        loss = _left_out_unless_finite((loss_RT * mask * data[WEIGHT][:, None]).sum() * data["dp_size"])
        real = mask & (data[WEIGHT] > 0)[:, None]
        replayed = (data[REPLAYED] > 0)[:, None]
        teaching = (stats.weight != 0) & (advantage.abs().sum(dim=1, keepdim=True) > 0)
        said = {
            "clipped/fresh": (stats.clipped & real & ~replayed).sum(),
            "clipped/replay": (stats.clipped & real & replayed).sum(),
            "clipped/idle": (stats.clipped & teaching & real & replayed).sum(),
            "kl/sum": torch.zeros(()) if kl is None else kl[real].sum(),
            "kl/tokens": torch.zeros(()) if kl is None else real.sum(),
        }
        return loss, _summed(said, data["dp_size"])


class ValueLoss:
    """The critic's: the mean over the tokens of a mini-batch, by the same weights."""

    def __init__(self, clip: float | None) -> None:
        self.clip = clip

    def __call__(
        self, model_output: dict[str, Any], data: TensorDict, dp_group: Any = None
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        value = no_padding_2_padding(model_output["values"], data).float()
        mask = _mask(data)
        loss_RT, clipped = value_loss(value, _padded(data[VALUES]), _padded(data[RETURNS]), clip=self.clip)
        loss = _left_out_unless_finite((loss_RT * mask * data[WEIGHT][:, None]).sum() * data["dp_size"])
        real = mask & (data[WEIGHT] > 0)[:, None]
        return loss, _summed({"clipped": (clipped & real).sum()}, data["dp_size"])


def _left_out_unless_finite(loss: torch.Tensor) -> torch.Tensor:
    """The loss; where it is not finite, NaN, and so is every gradient made from it."""
    return loss * torch.where(torch.isfinite(loss.detach()), 1.0, math.nan)


def _mask(data: TensorDict) -> torch.Tensor:
    """Real completion tokens, bool [R, T]."""
    return _padded(data["response_mask"]).bool()


def _padded(rows: torch.Tensor) -> torch.Tensor:
    return rows.to_padded_tensor(0)


def _summed(said: dict[str, torch.Tensor], workers: int) -> dict[str, Any]:
    """Sums over rows. verl adds up those of micro-batches and takes the mean of those of workers, as it does of the
    loss."""
    return {name: Metric(aggregation=AggregationType.SUM, value=float(value) * workers) for name, value in said.items()}
