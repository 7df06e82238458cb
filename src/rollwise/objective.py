"""Policy-gradient objectives and reductions as pure functions: tensors and masks in, loss and statistics out.

Three policies take part in a step:

* theta, the one being updated;
* the proximal policy: theta at the start of the step's updates, anchor of the trust region;
* the behaviour policy: the one that generated the row. For rows born in this step it is the proximal policy.

All three are as the trainer computes them. What an engine of its own really drew from is a fourth distribution, of the
same weights and other arithmetic; `sampler_weights` corrects for it.

Losses are per token; `reduction_weights` gives each row's weight per token, made from the whole mini-batch. The sum of
weight x loss is then the same however the rows are split into micro-batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

LOG_RATIO_LIMIT = 20.0  # log-ratios are clamped to +-this before exp, for safety in floating point only

Kind = Literal["clipped", "decoupled", "behaviour", "sequence", "cispo"]
Reduction = Literal["token", "sequence", "prompt", "constant"]
Level = Literal["token", "sequence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenStats:
    """What an objective did at each place [R, T]; places outside the mask hold no meaning."""

    weight: torch.Tensor  # factor on the surrogate: behaviour correction; 1 where there is none
    clipped: torch.Tensor  # bool: the clip removed this token's gradient; cispo: it bounded the token's ratio
    sampler_ratio: torch.Tensor | None = None  # trainer / sampler at birth, before its cap; None: not corrected for
    sampler_weight: torch.Tensor | None = None  # the factor made of it


def surrogate(
    logp_RT: torch.Tensor,
    prox_RT: torch.Tensor,
    behaviour_RT: torch.Tensor,
    advantage_RT: torch.Tensor,
    *,
    mask_RT: torch.Tensor,
    kind: Kind,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
    behaviour_weight: bool = False,
    weight_level: Level = "token",
    weight_cap: float | None = None,
    weight_over_cap: Literal["clamp", "mask"] = "clamp",
) -> tuple[torch.Tensor, TokenStats]:
    """Loss [R, T] of each token, to be minimised, and what was done to it. The advantage is [R, 1] or [R, T]; the mask
    tells a row's completion tokens, for what is computed of whole rows.

    clipped:    PPO's surrogate (arXiv 1707.06347, eq. 7) with asymmetric bounds (DAPO, arXiv 2503.14476, eq. 10) on
                r = theta / prox. On replayed rows this treats old data as on-policy.
    decoupled:  the same times w = prox / behaviour, a constant (Hilton et al., arXiv 2110.00641; the reading of POPO,
                arXiv 2606.01281, used here: its equation was not available, token level and no cap are ours).
    behaviour:  the surrogate on r = theta / behaviour, clipped around the behaviour policy.
    sequence:   GSPO (arXiv 2507.18071): the surrogate on the row's ratio s = exp(mean over tokens of log theta / prox),
                in its token form s_t = sg[s] theta / sg[theta]. With reduction `sequence` its gradient is the paper's.
    cispo:      `-sg[clip(r)] A log theta` (MiniMax-M1, arXiv 2506.13585): the ratio is bounded, no gradient is lost.

    `behaviour_weight` multiplies `sequence` and `cispo` by w as well (ours). `weight_level: sequence` takes the product
    of w over the row instead of each token's own: unbiased for a whole completion, and of high variance. At token level
    the correction of a completion of several tokens is biased, by less than none at all.
    `dual_clip` c bounds the loss of a negative advantage at c |A| (arXiv 1912.09729) and acts before the weight; cispo
    has none. A weight above `weight_cap` is clamped to it, or its token is removed while it still counts in the
    reduction.
    """
    if kind == "cispo":
        ratio = _ratio(logp_RT, prox_RT).detach()
        bounded = ratio.clamp(1 - clip_low, 1 + clip_high)
        loss, clipped = -bounded * advantage_RT * logp_RT, bounded != ratio
    else:
        if kind == "sequence":
            mean = _per_row(logp_RT.detach() - prox_RT, mask_RT) / mask_RT.sum(dim=1, keepdim=True).clamp_min(1)
            ratio = _bounded_exp(mean) * (logp_RT - logp_RT.detach()).exp()
        else:
            ratio = _ratio(logp_RT, behaviour_RT if kind == "behaviour" else prox_RT)
        loss, clipped = _clipped(ratio, advantage_RT, clip_low, clip_high, dual_clip)
    weight = behaviour_weights(
        prox_RT,
        behaviour_RT,
        mask_RT=mask_RT,
        level=weight_level,
        cap=weight_cap,
        over_cap=weight_over_cap,
        applies=kind == "decoupled" or behaviour_weight,
    )
    loss = weight * loss
    return loss, TokenStats(weight=weight, clipped=clipped.detach())


def behaviour_weights(
    prox_RT: torch.Tensor,
    behaviour_RT: torch.Tensor,
    *,
    mask_RT: torch.Tensor,
    level: Level,
    cap: float | None,
    over_cap: Literal["clamp", "mask"],
    applies: bool = True,
) -> torch.Tensor:
    """The constant w = prox / behaviour [R, T] by which `surrogate` multiplies its loss; 1 where it does not apply."""
    if not applies:
        return torch.ones_like(prox_RT)
    log_weight = (prox_RT - behaviour_RT).detach()
    if level == "sequence":
        log_weight = _per_row(log_weight, mask_RT).expand_as(log_weight)
    weight = _bounded_exp(log_weight)
    if cap is None:
        return weight
    over = weight > cap
    weight = weight.clamp(max=cap)
    return weight.masked_fill(over, 0.0) if over_cap == "mask" else weight


def sampler_weights(
    behaviour_RT: torch.Tensor, sampled_RT: torch.Tensor, *, cap: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Truncated importance weight min(b / q, cap) [R, T], and the ratio b / q itself; both constants. b is the policy a
    row was born under, as the trainer computes it; q the distribution that its sampler drew from.

    Source: Yao et al., On the Rollout-Training Mismatch in Modern RL Systems (NeurIPS 2025 workshop on efficient
    reasoning), token level. A ratio above the cap is clamped to it; none is raised, and no token is left out.

    It multiplies the surrogate beside the weight prox / b of `behaviour_weights`: without caps the product is prox / q,
    the whole correction. Each factor has a cap of its own, since the one grows with age and the other does not. Where b
    is not known, and q stands for it, this weight is 1 and the other one holds the whole.
    """
    ratio = _ratio(behaviour_RT, sampled_RT).detach()
    return ratio.clamp(max=cap), ratio


def _clipped(
    ratio: torch.Tensor, advantage: torch.Tensor, clip_low: float, clip_high: float, dual_clip: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """PPO's pessimistic bound on `-A r`, and where it removed the gradient."""
    plain = -advantage * ratio
    bounded = -advantage * ratio.clamp(1 - clip_low, 1 + clip_high)
    loss = torch.maximum(plain, bounded)
    clipped = bounded > plain
    if dual_clip is not None:
        ceiling = -advantage * dual_clip
        over = (advantage < 0) & (loss > ceiling)
        loss = torch.where(over, ceiling.expand_as(loss), loss)
        clipped = clipped | over
    return loss, clipped


def _per_row(values_RT: torch.Tensor, mask_RT: torch.Tensor) -> torch.Tensor:
    """Sum [R, 1] over the row's tokens."""
    return values_RT.masked_fill(~mask_RT, 0.0).sum(dim=1, keepdim=True)


def _ratio(numerator: torch.Tensor, denominator: torch.Tensor) -> torch.Tensor:
    return _bounded_exp(numerator - denominator)


def _bounded_exp(logratio: torch.Tensor) -> torch.Tensor:
    return logratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()


def value_loss(
    value_RT: torch.Tensor, old_RT: torch.Tensor, returns_RT: torch.Tensor, *, clip: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss [R, T] of a critic's values, and (bool) where the clip took over.

    `0.5 max((V - R)^2, (clip(V, V_old - clip, V_old + clip) - R)^2)`, with V_old the value the advantages were made
    with. Source: the code of arXiv 1707.06347. `clip: None` leaves out the second term.
    """
    plain = (value_RT - returns_RT) ** 2
    if clip is None:
        return 0.5 * plain, torch.zeros_like(plain, dtype=torch.bool)
    bounded = (value_RT.clamp(old_RT - clip, old_RT + clip) - returns_RT) ** 2
    return 0.5 * torch.maximum(plain, bounded), (bounded > plain).detach()


def kl_k3(logp_RT: torch.Tensor, reference_RT: torch.Tensor) -> torch.Tensor:
    """The k3 estimator of KL(theta || reference) per token, >= 0: `exp(d) - 1 - d` with d = log(reference / theta).

    Source: Schulman 2020, and GRPO (arXiv 2402.03300, eq. 4).
    """
    d = (reference_RT - logp_RT).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return d.exp() - 1 - d


def reduction_weights(
    length_R: torch.Tensor, unit_R: torch.Tensor, *, kind: Reduction, max_length: int
) -> torch.Tensor:
    """Weight of each token of each row, float64 [R], for a whole mini-batch.

    length_R: completion tokens of each row that count (0 for a row left out); unit_R: number of the row's group.

    token:     1 / all tokens                       (DAPO; verl `token-mean`)
    sequence:  1 / (rows x own length)              (GRPO as first published; verl `seq-mean-token-mean`)
    prompt:    1 / (groups x tokens of own group)   (each prompt weighs the same)
    constant:  1 / (rows x max_length)              (Dr. GRPO; verl `seq-mean-token-sum-norm`)

    Rows without tokens count as rows nowhere. All weights are 0 where no row has tokens.
    """
    length = length_R.to(torch.float64)
    present = length > 0
    rows = present.sum().clamp_min(1).to(torch.float64)
    if kind == "token":
        weight = torch.ones_like(length) / length.sum().clamp_min(1)
    elif kind == "sequence":
        weight = 1 / (rows * length.clamp_min(1))
    elif kind == "prompt":
        _, place = torch.unique(unit_R, return_inverse=True)
        per_group = torch.zeros(int(place.max()) + 1 if len(place) else 0, dtype=torch.float64)
        per_group.index_add_(0, place, length)
        weight = 1 / ((per_group > 0).sum().clamp_min(1) * per_group[place].clamp_min(1))
    else:
        weight = torch.ones_like(length) / (rows * max_length)
    return torch.where(present, weight, torch.zeros_like(weight))
