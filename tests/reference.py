"""Slow, plain float64 forms of objectives, reductions and advantages, written from their formulas.

Rows are lists of unequal length; nothing is padded, nothing is vectorised, no gradient is taken automatically.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

Rows = list[np.ndarray]


def clip(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


# --- objectives: the loss of each token, and its derivative by the token's own log-prob ------------------------------


def weights(prox: Rows, behaviour: Rows, *, level: str, cap: float | None, over: str) -> list[list[float]]:
    """prox / behaviour of each token, or of the whole row at each of its tokens."""
    out = []
    for p, b in zip(prox, behaviour, strict=True):
        one = [math.exp(x - y) for x, y in zip(p, b, strict=True)]
        if level == "sequence":
            one = [math.prod(one)] * len(p)
        if cap is not None:
            one = [(0.0 if over == "mask" else cap) if w > cap else w for w in one]
        out.append(one)
    return out


def ppo(ratio: float, a: float, low: float, high: float, dual: float | None) -> tuple[float, float]:
    """`-min(r A, clip(r) A)`, with the dual bound, and its derivative by log r."""
    plain, bounded = ratio * a, clip(ratio, 1 - low, 1 + high) * a
    value, slope = (plain, plain) if plain <= bounded else (bounded, 0.0)
    if dual is not None and a < 0 and value < dual * a:
        return -dual * a, 0.0
    return -value, -slope


def objective(
    theta: Rows,
    prox: Rows,
    behaviour: Rows,
    advantage: Rows,
    *,
    kind: str,
    low: float,
    high: float,
    dual: float | None = None,
    weighted: bool = False,
    level: str = "token",
    cap: float | None = None,
    over: str = "clamp",
) -> tuple[Rows, Rows]:
    w = weights(prox, behaviour, level=level, cap=cap, over=over)
    losses, slopes = [], []
    for i, row in enumerate(theta):
        loss, slope = np.zeros(len(row)), np.zeros(len(row))
        mean = sum(x - y for x, y in zip(row, prox[i], strict=True)) / max(1, len(row))
        for t, lp in enumerate(row):
            a = float(advantage[i][t])
            if kind == "cispo":
                bounded = clip(math.exp(lp - prox[i][t]), 1 - low, 1 + high)
                loss[t], slope[t] = -bounded * a * lp, -bounded * a
            else:
                anchor = behaviour if kind == "behaviour" else prox
                ratio = math.exp(mean if kind == "sequence" else lp - anchor[i][t])
                loss[t], slope[t] = ppo(ratio, a, low, high, dual)
            if kind == "decoupled" or weighted:
                loss[t], slope[t] = loss[t] * w[i][t], slope[t] * w[i][t]
        losses.append(loss)
        slopes.append(slope)
    return losses, slopes


def gspo(theta: Rows, prox: Rows, advantage: Sequence[float], low: float, high: float) -> float:
    """GSPO's sequence form, `-1/G sum of min(s A, clip(s) A)`: no token appears in it."""
    total = 0.0
    for row, old, a in zip(theta, prox, advantage, strict=True):
        s = math.exp(sum(x - y for x, y in zip(row, old, strict=True)) / len(row))
        total += min(s * a, clip(s, 1 - low, 1 + high) * a)
    return -total / len(theta)


def k3(theta: Rows, reference: Rows) -> tuple[Rows, Rows]:
    """`ref/theta - log(ref/theta) - 1` of each token, and its derivative by log theta."""
    values = [
        np.array([math.exp(r - x) - (r - x) - 1 for x, r in zip(a, b, strict=True)]) for a, b in _both(theta, reference)
    ]
    slopes = [np.array([1 - math.exp(r - x) for x, r in zip(a, b, strict=True)]) for a, b in _both(theta, reference)]
    return values, slopes


def _both(a: Rows, b: Rows) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(zip(a, b, strict=True))


def value_loss(value: float, old: float, target: float, c: float | None) -> float:
    if c is None:
        return 0.5 * (value - target) ** 2
    return 0.5 * max((value - target) ** 2, (clip(value, old - c, old + c) - target) ** 2)


# --- reductions: a number of tokens' numbers -------------------------------------------------------------------------


def reduce(values: Rows, units: Sequence[int], kind: str, max_length: int) -> float:
    """Rows without tokens are nowhere."""
    rows = [(v, u) for v, u in zip(values, units, strict=True) if len(v)]
    if not rows:
        return 0.0
    if kind == "token":
        flat = [x for v, _ in rows for x in v]
        return float(sum(flat)) / len(flat)
    if kind == "sequence":
        return float(sum(sum(v) / len(v) for v, _ in rows)) / len(rows)
    if kind == "prompt":
        groups: dict[int, list[float]] = {}
        for v, u in rows:
            groups.setdefault(u, []).extend(v)
        return float(sum(sum(g) / len(g) for g in groups.values())) / len(groups)
    return float(sum(sum(v) for v, _ in rows)) / (len(rows) * max_length)


def numeric_gradient(f: Callable[[Rows], float], at: Rows, step: float = 1e-6) -> Rows:
    """Central differences of a function of all rows' numbers."""
    out = []
    for i, row in enumerate(at):
        grad = np.zeros(len(row))
        for t in range(len(row)):
            ends = []
            for sign in (1, -1):
                moved = [r.copy() for r in at]
                moved[i][t] += sign * step
                ends.append(f(moved))
            grad[t] = (ends[0] - ends[1]) / (2 * step)
        out.append(grad)
    return out


# --- advantages ------------------------------------------------------------------------------------------------------


def rloo(rewards: list[float]) -> list[float]:
    return [r - sum(rewards[:i] + rewards[i + 1 :]) / (len(rewards) - 1) for i, r in enumerate(rewards)]


def token_returns(reward: float, kl: Sequence[float], gamma: float, beta: float) -> list[float]:
    """`sum over s >= t of gamma^(s-t) (r_s - beta kl_s)`, the reward at the last token."""
    last = len(kl) - 1
    return [
        sum(gamma ** (s - t) * ((reward if s == last else 0.0) - beta * kl[s]) for s in range(t, last + 1))
        for t in range(last + 1)
    ]


def gae(rewards: Sequence[float], values: Sequence[float], gamma: float, lam: float) -> list[float]:
    """`sum over l of (gamma lambda)^l delta_{t+l}`."""
    ahead = [*values[1:], 0.0]
    delta = [r + gamma * n - v for r, n, v in zip(rewards, ahead, values, strict=True)]
    return [sum((gamma * lam) ** (s - t) * delta[s] for s in range(t, len(delta))) for t in range(len(delta))]


def whiten(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    flat = [x for row in rows for x in row]
    mean = math.fsum(flat) / len(flat)
    variance = math.fsum((x - mean) ** 2 for x in flat) / (len(flat) - 1)
    return [[(x - mean) / math.sqrt(variance + 1e-8) for x in row] for row in rows]
