"""The optimizer of a set of parameters, one guarded step of it, and its state by parameter name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from rollwise.config import LearnerConfig
from rollwise.state import array, check_keys, whole

MAX_NON_FINITE = 3  # updates skipped in a row before the run is stopped


class Optimizer:
    """AdamW over named parameters with gradient clipping. An update whose loss or gradient is not finite is skipped and
    counted."""

    def __init__(self, named: list[tuple[str, torch.nn.Parameter]], config: LearnerConfig, lr: float) -> None:
        self.names = [n for n, _ in named]
        self.parameters = [p for _, p in named]
        self.max_grad_norm = config.max_grad_norm or math.inf
        self.adamw = torch.optim.AdamW(
            self.parameters,
            lr=lr,
            betas=(config.beta1, config.beta2),
            eps=config.eps,
            weight_decay=config.weight_decay,
            fused=True,
        )
        self.updates = 0
        self.skipped = 0
        self.skipped_in_a_row = 0

    def forget(self) -> None:
        """The moments begin anew, from zero; counters, and with them the learning rate, go on."""
        for moments in self.adamw.state.values():
            for value in moments.values():
                value.zero_()

    def zero_grad(self) -> None:
        self.adamw.zero_grad(set_to_none=False)

    def step(self, loss: float, lr: float) -> float | None:
        """One update at rate `lr`. Returns the gradient's norm before clipping; None where the update was skipped."""
        norm = torch.nn.utils.clip_grad_norm_(
            [p for p in self.parameters if p.grad is not None], self.max_grad_norm
        ).item()
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self.adamw.zero_grad(set_to_none=True)
            self.skipped += 1
            self.skipped_in_a_row += 1
            return None
        for p in self.parameters:
            if p.grad is None:  # first update of a batch whose live rows are all in other mini-batches
                p.grad = torch.zeros_like(p)
        for group in self.adamw.param_groups:
            group["lr"] = lr
        self.adamw.step()
        self.updates += 1
        self.skipped_in_a_row = 0
        return norm

    def fault(self, what: str) -> str:
        """Why the run must end; empty while it need not. `what` names the loss."""
        if self.skipped_in_a_row < MAX_NON_FINITE:
            return ""
        return (
            f"{what} or gradient was not finite in {MAX_NON_FINITE} updates in a row (last: update "
            f"{self.updates + self.skipped}); the weights are those of the last good update"
        )

    def state_dict(self) -> dict[str, Any]:
        """Counters, and the moments by parameter name."""
        moments = {
            name: {k: v.detach().cpu().numpy().copy() for k, v in self.adamw.state[p].items()}
            for name, p in zip(self.names, self.parameters, strict=True)
            if p in self.adamw.state
        }
        return {
            "updates": self.updates,
            "skipped": self.skipped,
            "skipped_in_a_row": self.skipped_in_a_row,
            "moments": moments,
        }

    def load_state_dict(self, state: dict[str, Any], part: str) -> None:
        check_keys(state, {"updates", "skipped", "skipped_in_a_row", "moments"}, part)
        updates, skipped = whole(state["updates"], f"{part}, updates"), whole(state["skipped"], f"{part}, skipped")
        in_a_row = whole(state["skipped_in_a_row"], f"{part}, skipped_in_a_row", most=skipped)
        moments = state["moments"]
        if set(moments) != (set(self.names) if updates else set()):
            raise ValueError(f"state of {part}: its moments after {updates} updates are not those of this model")
        read = {
            name: _moments(moments[name], f"{part}, {name}", tuple(p.shape), updates)
            for name, p in zip(self.names, self.parameters, strict=True)
            if name in moments
        }
        if len({float(m["step"]) for m in read.values()}) > 1:
            raise ValueError(f"state of {part}: its moments are not all of one update")
        for name, p in zip(self.names, self.parameters, strict=True):
            if name in read:
                self.adamw.state[p] = {k: torch.from_numpy(np.array(v)).to(p.device) for k, v in read[name].items()}
        self.updates, self.skipped, self.skipped_in_a_row = updates, skipped, in_a_row


def _moments(state: dict[str, Any], what: str, shape: tuple[int, ...], updates: int) -> dict[str, np.ndarray]:
    """AdamW's state of one parameter after at most so many updates. Raises ValueError where it is none."""
    check_keys(state, {"step", "exp_avg", "exp_avg_sq"}, what)
    step = array(state["step"], f"{what}, step", np.float32, (), least=0, most=updates)
    if step != np.round(step):
        raise ValueError(f"state of {what}: step {step} is no whole number")
    return {
        "step": step,
        "exp_avg": array(state["exp_avg"], f"{what}, exp_avg", np.float32, shape),
        "exp_avg_sq": array(state["exp_avg_sq"], f"{what}, exp_avg_sq", np.float32, shape, least=0),
    }
