"""Numbers of each token: discounted sums, whitening over a batch, and the KL penalty of a reward."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rollwise.advantage.base import Signals
from rollwise.records import INFORMATIVE_TOL

WHITEN_EPS = 1e-8  # added to the variance


def discounted_sums(values: Sequence[np.ndarray], factor: float) -> list[np.ndarray]:
    """`y_t = x_t + factor * y_{t+1}` of each sequence [T], float64 [T] each."""
    width = max((len(v) for v in values), default=0)
    grid = np.zeros((width, len(values)))
    for i, v in enumerate(values):
        grid[: len(v), i] = v
    for t in range(width - 2, -1, -1):
        grid[t] += factor * grid[t + 1]
    return [grid[: len(v), i].copy() for i, v in enumerate(values)]


def whiten(values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """`(x - mean) / sqrt(var + 1e-8)` with mean and variance (over N - 1) of all tokens of all sequences together.

    Tokens that differ by no more than 1e-6 give exactly 0, as equal rewards of a group do.
    """
    flat = np.concatenate([*values, np.zeros(0)])
    if flat.size < 2 or flat.max() - flat.min() <= INFORMATIVE_TOL:
        return [np.zeros(len(v)) for v in values]
    mean = flat.mean()
    variance = ((flat - mean) ** 2).sum() / (flat.size - 1)
    return [(np.asarray(v, dtype=np.float64) - mean) / np.sqrt(variance + WHITEN_EPS) for v in values]


def kl_penalties(signals: Signals, coef: float, lengths: Sequence[int]) -> list[np.ndarray]:
    """`coef x (log prox - log reference)` of each token, float64 [T] each: the k1 estimate of KL(prox || reference).

    `lengths` are those of all rollouts of the batch; the signals are asked only if `coef` is not 0.
    """
    if coef == 0:
        return [np.zeros(n) for n in lengths]
    pairs = zip(signals.logprobs(), signals.reference_logprobs(), strict=True)
    return [coef * (p.astype(np.float64) - r) for p, r in pairs]
