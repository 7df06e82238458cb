"""The optimizer of a set of parameters, one guarded step of it, and its state by parameter name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from rollwise.config import LearnerConfig
from rollwise.state import check_keys

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
        """The moments begin anew; counters, and with them the learning rate, go on."""
        self.adamw.state.clear()

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
        if state["moments"] and set(state["moments"]) != set(self.names):
            raise ValueError(f"state of {part}: its parameters are not those of this model")
        for name, p in zip(self.names, self.parameters, strict=True):
            if name in state["moments"]:
                self.adamw.state[p] = {
                    k: torch.from_numpy(np.array(v)).to(p.device) for k, v in state["moments"][name].items()
                }
        self.updates = state["updates"]
        self.skipped = state["skipped"]
        self.skipped_in_a_row = state["skipped_in_a_row"]
