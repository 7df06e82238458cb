"""Log-probs of completions under the policy, without ever holding batch x length x vocabulary.

The trunk runs on a padded micro-batch; the output embedding runs only at the places that predict completion tokens, in
chunks of at most `logit_budget` logits, recomputed in the backward pass when there is more than one chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from rollwise.policy import Policy
from rollwise.records import Rollout


@dataclass(frozen=True, slots=True)
class Packed:
    """Rollouts of one micro-batch as right-padded tensors."""

    ids: torch.Tensor  # int64 [R, L]
    mask: torch.Tensor  # bool [R, T]: real completion tokens
    row: torch.Tensor  # int64 [N]: row of each completion token
    place: torch.Tensor  # int64 [N]: position in `ids` whose logits predict it
    target: torch.Tensor  # int64 [N]: the token itself
    temperature: torch.Tensor  # float32 [N]


def pack(rollouts: Sequence[Rollout], policy: Policy) -> Packed:
    """Pad a micro-batch on the right. Masks come from lengths; the pad id is never looked at."""
    prompt = np.array([len(r.prompt_ids) for r in rollouts])
    completion = np.array([r.length for r in rollouts])
    ids = np.full((len(rollouts), int((prompt + completion).max())), policy.pad_id, dtype=np.int64)
    for i, r in enumerate(rollouts):
        ids[i, : prompt[i]] = r.prompt_ids
        ids[i, prompt[i] : prompt[i] + completion[i]] = r.completion_ids
    mask = np.arange(int(completion.max()))[None] < completion[:, None]
    row, offset = mask.nonzero()
    place = prompt[row] + offset - 1
    temperature = np.array([r.sampling.temperature for r in rollouts], dtype=np.float32)
    device = policy.device
    return Packed(
        ids=torch.from_numpy(ids).to(device),
        mask=torch.from_numpy(mask).to(device),
        row=torch.from_numpy(row).to(device),
        place=torch.from_numpy(place).to(device),
        target=torch.from_numpy(ids[row, place + 1]).to(device),
        temperature=torch.from_numpy(temperature[row]).to(device),
    )


def completion_logprobs(
    policy: Policy, packed: Packed, *, logit_budget: int, entropy: bool = False
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probs float32 [R, T] of the completion tokens at their sampling temperature, 0 outside the mask, and the
    entropy of each of those distributions if asked for. Differentiable.
    """
    with policy.precision():
        if policy.split_head:
            places = policy.trunk(packed.ids)[packed.row, packed.place]
        else:
            places = policy.model(input_ids=packed.ids, use_cache=False).logits[packed.row, packed.place]
        logp_N, entropy_N = _in_chunks(policy, places, packed, logit_budget, entropy)
    out = torch.zeros(packed.mask.shape, dtype=torch.float32, device=packed.mask.device)
    return (
        out.masked_scatter(packed.mask, logp_N),
        out.masked_scatter(packed.mask, entropy_N) if entropy_N is not None else None,
    )


def _in_chunks(
    policy: Policy, places: torch.Tensor, packed: Packed, logit_budget: int, entropy: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    size = max(1, logit_budget // policy.vocab_size)
    args = (policy, places, packed.target, packed.temperature, entropy)
    if len(places) <= size:
        return _of_places(*args)
    parts = [
        checkpoint(
            _of_places,
            policy,
            places[i : i + size],
            packed.target[i : i + size],
            packed.temperature[i : i + size],
            entropy,
            use_reentrant=False,
        )
        for i in range(0, len(places), size)
    ]
    return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts]) if entropy else None


def _of_places(
    policy: Policy, places: torch.Tensor, target: torch.Tensor, temperature: torch.Tensor, entropy: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probs [N] and entropies [N] at hidden states (or logits) [N, D]."""
    logits = (policy.head(places) if policy.split_head else places).float() / temperature[:, None]
    logp = torch.log_softmax(logits, dim=-1)
    picked = logp.gather(1, target[:, None])[:, 0]
    return picked, -(logp.exp() * logp).sum(dim=-1) if entropy else None
