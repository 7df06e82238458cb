"""The whole loss of each token, objective and regularisers together: what an engine puts through its backward pass."""

from __future__ import annotations

from dataclasses import replace

import torch

from rollwise.config import ObjectiveConfig
from rollwise.objective import TokenStats, kl_k3, sampler_weights, surrogate


def token_loss(
    objective: ObjectiveConfig,
    logp_RT: torch.Tensor,
    prox_RT: torch.Tensor,
    behaviour_RT: torch.Tensor,
    advantage_RT: torch.Tensor,
    *,
    mask_RT: torch.Tensor,
    reference_RT: torch.Tensor | None = None,
    entropy_RT: torch.Tensor | None = None,
    sampled_RT: torch.Tensor | None = None,
    sampler_cap: float | None = None,
) -> tuple[torch.Tensor, TokenStats, torch.Tensor | None]:
    """Loss [R, T] of each token before its weight in the reduction, what the surrogate did to it, and its KL estimate
    [R, T] (detached) where the objective has a KL term. `reference_RT` is needed for that term, `entropy_RT` for the
    entropy bonus. With `sampler_cap` the surrogate is weighted for what the sampler drew from, `sampled_RT`; the
    regularisers are not."""
    loss, stats = surrogate(
        logp_RT,
        prox_RT,
        behaviour_RT,
        advantage_RT,
        mask_RT=mask_RT,
        kind=objective.kind,
        clip_low=objective.clip_low,
        clip_high=objective.clip_high,
        dual_clip=objective.dual_clip,
        behaviour_weight=objective.behaviour_weight,
        weight_level=objective.weight_level,
        weight_cap=objective.weight_cap,
        weight_over_cap=objective.weight_over_cap,
    )
    if sampler_cap is not None:
        assert sampled_RT is not None, "the sampler's weight needs its log-probs"
        weight, ratio = sampler_weights(behaviour_RT, sampled_RT, cap=sampler_cap)
        loss, stats = weight * loss, replace(stats, sampler_weight=weight, sampler_ratio=ratio)
    kl = None
    if objective.kl_coef > 0:
        assert reference_RT is not None, "a KL term needs the reference's log-probs"
        kl = kl_k3(logp_RT, reference_RT)
        loss = loss + objective.kl_coef * kl
    if objective.entropy_coef > 0:
        assert entropy_RT is not None, "an entropy bonus needs the entropies"
        loss = loss - objective.entropy_coef * entropy_RT
    return loss, stats, None if kl is None else kl.detach()
