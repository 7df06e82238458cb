"""Rollouts as the tensors verl's workers take, and what comes back as arrays.

Every row is one sequence without padding (jagged nested tensors): prompt and completion. Workers get as many rows each;
where the rows do not divide, copies of the shortest of them follow, which weigh nothing and are dropped on return.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict
from verl.utils import tensordict_utils as tu

from rollwise.records import LOGP, Rollout

Extra = Callable[[Rollout], dict[str, Any]]
"""What a rollout with pictures needs beside its ids: `position_ids` [4, P + T], and the model's own inputs."""


def filled(rollouts: Sequence[Rollout], workers: int) -> list[int]:
    """Numbers of the rows to send: each once, then copies of the shortest until `workers` divide them."""
    order = list(range(len(rollouts)))
    shortest = min(order, key=lambda i: len(rollouts[i].prompt_ids) + rollouts[i].length)
    return order + [shortest] * (-len(order) % workers)


def jagged(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """A jagged nested tensor of rows of different length."""
    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)


def tensors(rollouts: Sequence[Rollout], extra: Extra | None = None) -> dict[str, Any]:
    """The fields every pass needs. A completion of no tokens cannot be sent; callers leave those out."""
    prompts = [torch.from_numpy(r.prompt_ids.astype(np.int64)) for r in rollouts]
    responses = [torch.from_numpy(r.completion_ids.astype(np.int64)) for r in rollouts]
    ids = [torch.cat([p, c]) for p, c in zip(prompts, responses, strict=True)]
    more = [extra(r) if extra and r.images else {} for r in rollouts]
    fields: dict[str, Any] = {
        "input_ids": jagged(ids),
        "prompts": jagged(prompts),
        "responses": jagged(responses),
        "response_mask": jagged([torch.ones_like(c) for c in responses]),
        "loss_mask": jagged([torch.ones_like(c) for c in responses]),
    }
    if any("position_ids" in m for m in more):
        axes = max(m["position_ids"].shape[0] for m in more if "position_ids" in m)
        each = [m.get("position_ids", torch.arange(len(i)).expand(axes, -1)) for m, i in zip(more, ids, strict=True)]
        fields["position_ids"] = tu.nested_tensor_from_tensor_list([p.contiguous() for p in each], ragged_idx=2)
    else:
        fields["position_ids"] = jagged([torch.arange(len(i)) for i in ids])
    if any(more):
        fields["multi_modal_inputs"] = NonTensorStack.from_list(
            [NonTensorData({k: v for k, v in m.items() if k != "position_ids"}) for m in more]
        )
    return fields


def batch(fields: dict[str, Any], **settings: Any) -> TensorDict:
    """The fields with what holds for all rows."""
    return tu.get_tensordict(fields, non_tensor_dict=settings)


def of_completions(values: torch.Tensor, rollouts: Sequence[Rollout]) -> list[np.ndarray]:
    """What a pass said of each completion token, float32 [T] each, from a value for each place [P + T] that speaks of
    the token after it. `values` may have more rows than there are rollouts."""
    nested: Any = values
    flat, ends = nested.values(), nested.offsets()[1:].tolist()
    return [
        flat[end - 1 - r.length : end - 1].float().cpu().numpy().astype(LOGP)
        for end, r in zip(ends[: len(rollouts)], rollouts, strict=True)
    ]
