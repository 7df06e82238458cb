"""What happened to the tokens of a step, gathered over its micro-batches and summed up once."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rollwise.objective import TokenStats
from rollwise.records import Role, Row


class TokenLog:
    """Collects per-token statistics; `metrics` makes the step's numbers of them.

    Names: clip_ratio/fresh and /replay are the shares of tokens whose gradient the clip removed; replay/zero_grad_frac
    is the share of replayed tokens that had none at all: clipped, weighted 0, or of a row without advantage. weight/*
    describe w = prox / behaviour on tokens of earlier steps, ess their effective sample size as a share.
    kl_prox_behaviour is an estimate of KL(prox || behaviour) there, the mean of `w log w - w + 1`. sampling/logp_diff_*
    compare trainer and sampler on tokens of this step; sampling/weight_mean is what corrects for it on all tokens, _max
    the largest ratio before its cap and _truncated the share above it.
    """

    def __init__(self, *, clip_removes: bool = True) -> None:
        self.clip_removes = clip_removes  # whether a clipped token has lost its gradient, or only had its ratio bounded
        self._losses: list[float] = []
        self._norms: list[float] = []
        self._clipped = {Role.fresh: 0.0, Role.replay: 0.0}
        self._tokens = {Role.fresh: 0, Role.replay: 0}
        self._idle = 0  # replayed tokens without gradient, in rows that took a pass
        self._left_out = 0  # and in rows that took none
        self._logw: list[np.ndarray] = []
        self._applied: list[np.ndarray] = []
        self._kl: list[np.ndarray] = []
        self._gap: list[np.ndarray] = []
        self._engine: list[np.ndarray] = []  # [2, N]: the sampler's ratio and the weight made of it

    def mark(self) -> dict[str, Any]:
        """Where it is now, for `rewind`."""
        return {name: copy.copy(value) for name, value in vars(self).items()}

    def rewind(self, mark: dict[str, Any]) -> None:
        """Forget what came after `mark`."""
        vars(self).update({name: copy.copy(value) for name, value in mark.items()})

    def update(self, *, loss: float, grad_norm: float) -> None:
        self._losses.append(loss)
        self._norms.append(grad_norm)

    def kl(self, values: torch.Tensor) -> None:
        self._kl.append(values.cpu().numpy())

    def left_out(self, rows: Sequence[Row]) -> None:
        """Rows of a mini-batch that count and take no pass, for they cannot move the weights."""
        self._left_out += sum(r.rollout.length for r in rows if r.role is Role.replay)

    def tokens(
        self,
        rows: Sequence[Row],
        mask: torch.Tensor,
        prox: torch.Tensor,
        behaviour: torch.Tensor,
        stats: TokenStats,
    ) -> None:
        """One micro-batch: [R, T] tensors and their rows."""
        replay = torch.tensor([r.role is Role.replay for r in rows], device=mask.device)[:, None]
        aged = torch.tensor([r.age > 0 for r in rows], device=mask.device)[:, None]
        for role, chosen in ((Role.fresh, mask & ~replay), (Role.replay, mask & replay)):
            self._tokens[role] += int(chosen.sum())
            self._clipped[role] += float((stats.clipped & chosen).sum())
        still = torch.tensor([not r.credit.teaches for r in rows], device=mask.device)[:, None]
        lost = (stats.weight == 0) | still
        if self.clip_removes:
            lost = lost | stats.clipped
        self._idle += int((lost & mask & replay).sum())
        old = mask & aged
        if bool(old.any()):
            self._logw.append((prox - behaviour)[old].double().cpu().numpy())
            self._applied.append(stats.weight[old].double().cpu().numpy())
        if stats.sampler_ratio is not None and stats.sampler_weight is not None:
            both = torch.stack([stats.sampler_ratio[mask], stats.sampler_weight[mask]])
            self._engine.append(both.double().cpu().numpy())
        host = prox.cpu().numpy()
        for i, row in enumerate(rows):
            drawn = row.rollout
            if row.age == 0 and drawn.sampling.top_p == 1:
                self._gap.append(np.abs(host[i, : drawn.length] - drawn.logprobs))

    def clipped(self, tokens: Mapping[Role, float], idle: float) -> None:
        """What `tokens` could not see of the same rows, where another process has clipped them: tokens clipped by role,
        and those of replayed rows that lost their gradient by it alone."""
        for role, count in tokens.items():
            self._clipped[role] += count
        if self.clip_removes:
            self._idle += round(idle)

    def metrics(self) -> dict[str, float]:
        out: dict[str, float] = {}
        if self._losses:
            out["loss"] = float(np.mean(self._losses))
            out["grad_norm"] = float(np.mean(self._norms))
        for role, tokens in self._tokens.items():
            if tokens:
                out[f"clip_ratio/{role.value}"] = self._clipped[role] / tokens
        replayed = self._tokens[Role.replay] + self._left_out
        if replayed:
            out["replay/zero_grad_frac"] = (self._idle + self._left_out) / replayed
        if self._logw:
            logw = np.concatenate(self._logw)
            w = np.exp(np.clip(logw, -20, 20))
            out |= {
                "weight/mean": float(w.mean()),
                "weight/p99": float(np.quantile(w, 0.99)),
                "weight/max": float(w.max()),
                "weight/mean_abs_log": float(np.abs(logw).mean()),
                "weight/ess": float(w.sum() ** 2 / (len(w) * (w**2).sum())),
                "weight/applied_mean": float(np.concatenate(self._applied).mean()),
                "kl_prox_behaviour": float((w * logw - w + 1).mean()),
            }
        if self._kl:
            out["kl"] = float(np.concatenate(self._kl).mean())
        if self._gap:
            gap = np.concatenate(self._gap)
            out["sampling/logp_diff_mean"] = float(gap.mean())
            out["sampling/logp_diff_max"] = float(gap.max())
        if self._engine:
            ratio, weight = np.concatenate(self._engine, axis=1)
            out["sampling/weight_mean"] = float(weight.mean())
            out["sampling/weight_max"] = float(ratio.max())
            out["sampling/weight_truncated"] = float((weight < ratio).mean())
        return out
