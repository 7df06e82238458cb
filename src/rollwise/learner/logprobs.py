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

from rollwise.learner.batching import micro_batches
from rollwise.policy import Policy, laid_out
from rollwise.records import LOGP, Rollout
from rollwise.vision.reader import Inputs

SHARED_LENGTH = 256  # tokens of a sequence up to which members of a group share it; attention grows with its square


@dataclass(frozen=True, slots=True)
class Packed:
    """Rollouts of one micro-batch as tensors. A sequence is a prompt and one or more of its completions."""

    ids: torch.Tensor  # int64 [S, L], right-padded; the last token of a completion predicts nothing and is left out
    position: torch.Tensor | None  # int64 [S, L] or [3, S, L]; None where they count up from 0
    attend: torch.Tensor | None  # bool [S, 1, L, L]; None: causal
    mask: torch.Tensor  # bool [R, T]: real completion tokens
    row: torch.Tensor  # int64 [N]: sequence of each completion token, rollout by rollout
    place: torch.Tensor  # int64 [N]: position in `ids` whose logits predict it
    target: torch.Tensor  # int64 [N]: the token itself
    temperature: torch.Tensor  # float32 [N]
    pixels: Inputs  # the pictures of all sequences, in order; each its own, and once where a prompt is shared


def sequences(rollouts: Sequence[Rollout], policy: Policy) -> list[list[int]]:
    """Places of `rollouts` by the sequence they are fed in: neighbours of one group share their prompt, where the model
    can tell them apart and the sequence stays short."""
    out: list[list[int]] = []
    length = 0
    for i, r in enumerate(rollouts):
        more = max(0, r.length - 1)
        first = rollouts[out[-1][0]] if out else r
        same = first is not r and first.group_uid == r.group_uid and np.array_equal(first.prompt_ids, r.prompt_ids)
        if policy.shares_prompt and same and length + more <= SHARED_LENGTH:
            out[-1].append(i)
            length += more
        else:
            out.append([i])
            length = len(r.prompt_ids) + more
    return out


def sequence_length(rollouts: Sequence[Rollout]) -> int:
    """Tokens fed for rollouts that share one sequence."""
    return len(rollouts[0].prompt_ids) + sum(max(0, r.length - 1) for r in rollouts)


def passes(rollouts: Sequence[Rollout], policy: Policy, max_tokens: int) -> list[list[int]]:
    """Places of `rollouts` by the forward pass they are fed in, at most `max_tokens` padded tokens each."""
    plan = sequences(rollouts, policy)
    lengths = [sequence_length([rollouts[i] for i in members]) for members in plan]
    parts = micro_batches(lengths, max_tokens, policy.device.type)
    return [[i for s in part for i in plan[s]] for part in parts]


def pack(rollouts: Sequence[Rollout], policy: Policy) -> Packed:
    """Lay a micro-batch out in right-padded sequences. Masks come from lengths; the pad id is never looked at."""
    plan = sequences(rollouts, policy)
    shape = len(plan), max(sequence_length([rollouts[i] for i in members]) for members in plan)
    ids = np.full(shape, policy.pad_id, dtype=np.int64)
    images = [rollouts[members[0]].images for members in plan]
    axes = policy.axes
    position = np.zeros((axes, *shape), dtype=np.int64)
    segment = np.full(shape, -1)  # 0: prompt, 1, 2, ...: the completions
    place = []
    for s, members in enumerate(plan):
        prompt = rollouts[members[0]].prompt_ids
        end = start = len(prompt)
        ids[s, :start], segment[s, :start] = prompt, 0
        position[:, s, :start] = policy.positions(prompt, images[s])
        behind = int(position[:, s, :start].max()) + 1
        for m, i in enumerate(members, 1):
            fed = rollouts[i].completion_ids[:-1]
            at = slice(end, end + len(fed))
            ids[s, at], segment[s, at] = fed, m
            position[:, s, at] = behind + np.arange(len(fed))
            place.append(np.arange(end - 1, end - 1 + rollouts[i].length))
            if rollouts[i].length:
                place[-1][0] = start - 1  # the first token is predicted by the prompt's last
            end += len(fed)
    completion = np.array([r.length for r in rollouts])
    mask = np.arange(int(completion.max()))[None] < completion[:, None]
    row = np.repeat([s for s, members in enumerate(plan) for _ in members], completion)
    temperature = np.array([r.sampling.temperature for r in rollouts], dtype=np.float32)
    device = policy.device
    shared = len(plan) < len(rollouts)
    placed = shared or (axes > 1 and any(images))
    return Packed(
        ids=torch.from_numpy(ids).to(device),
        position=torch.from_numpy(position if axes > 1 else position[0]).to(device) if placed else None,
        attend=_attend(torch.from_numpy(segment).to(device)) if shared else None,
        mask=torch.from_numpy(mask).to(device),
        row=torch.from_numpy(row).to(device),
        place=torch.from_numpy(np.concatenate(place)).to(device),
        target=torch.from_numpy(np.concatenate([r.completion_ids for r in rollouts]).astype(np.int64)).to(device),
        temperature=torch.from_numpy(np.repeat(temperature, completion)).to(device),
        pixels=policy.pixels(images),
    )


def _attend(segment: torch.Tensor) -> torch.Tensor:
    """Which places [S, 1, L, L] see which: all see the prompt, a completion sees itself, nothing sees what follows."""
    seen = (segment[:, None, :] == 0) | (segment[:, None, :] == segment[:, :, None])
    return seen.tril()[:, None]


def padded(rows: Sequence[np.ndarray | None], packed: Packed) -> torch.Tensor:
    """Numbers of each completion token, float32 [R, T], 0 outside the mask."""
    out = np.zeros(packed.mask.shape, dtype=LOGP)
    for i, row in enumerate(rows):
        assert row is not None
        out[i, : len(row)] = row
    return torch.from_numpy(out).to(packed.mask.device)


def unpadded(values_RT: torch.Tensor, packed: Packed) -> list[np.ndarray]:
    """The inverse of `padded`: float32 [T] of each rollout."""
    host = values_RT.detach().cpu().numpy()
    return [row[:n].astype(LOGP) for row, n in zip(host, packed.mask.sum(dim=1).tolist(), strict=True)]


def completion_hidden(policy: Policy, packed: Packed) -> torch.Tensor:
    """Hidden states [N, D] of the places that predict the completion tokens."""
    hidden = policy.trunk(packed.ids, packed.position, packed.attend, packed.pixels)
    return hidden[packed.row, packed.place]


def completion_logprobs(
    policy: Policy, packed: Packed, *, logit_budget: int, entropy: bool = False
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probs float32 [R, T] of the completion tokens at their sampling temperature, 0 outside the mask, and the
    entropy of each of those distributions if asked for. Differentiable.
    """
    with policy.precision():
        if policy.split_head:
            places = completion_hidden(policy, packed)
        else:
            places = policy.model(
                input_ids=packed.ids, use_cache=False, **laid_out(packed.position, packed.attend), **packed.pixels
            ).logits[packed.row, packed.place]
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
    logits = policy.open((policy.head(places) if policy.split_head else places).float() / temperature[:, None])
    logp = torch.log_softmax(logits, dim=-1)
    picked = logp.gather(1, target[:, None])[:, 0]
    return picked, -(logp.exp() * logp).sum(dim=-1) if entropy else None
