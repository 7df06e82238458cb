"""Beta-distributed numbers for many prompts at once, each a function of the seed and its own prompt only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Noise = Callable[[int, np.ndarray], np.ndarray]
"""`noise(i, places)`: the i-th number in (0, 1) of each place, float64 of the shape of `places`."""


def beta(alpha_N: np.ndarray, beta_N: np.ndarray, noise: Noise) -> np.ndarray:
    """One draw of Beta(alpha, beta) for each place, float64 [N], as X / (X + Y) of two Gamma draws. The parameters are
    above 0."""
    x = gamma(alpha_N, lambda i, places: noise(2 * i, places))
    y = gamma(beta_N, lambda i, places: noise(2 * i + 1, places))
    return x / (x + y)  # type: ignore[no-any-return]


def gamma(shape_N: np.ndarray, noise: Noise) -> np.ndarray:
    """One draw of Gamma(shape, 1) for each place, float64 [N], by rejection (Marsaglia and Tsang, ACM TOMS 26, 2000,
    page 363). Shapes below 1 are drawn at shape + 1 and multiplied by U^(1/shape) (their section 6)."""
    small = shape_N < 1
    d = np.where(small, shape_N + 1, shape_N) - 1 / 3
    c = 1 / np.sqrt(9 * d)
    out = np.ones_like(d)
    places = np.arange(len(d))
    number = 1
    while len(places):
        u, angle, accept = (noise(number + i, places) for i in range(3))
        number += 3
        normal = np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * angle)
        v = (1 + c[places] * normal) ** 3
        good = v > 0
        limit = 0.5 * normal**2 + d[places] * (1 - v + np.log(np.where(good, v, 1.0)))
        good &= np.log(accept) < limit
        out[places[good]] = (d[places] * v)[good]
        places = places[~good]
    tail = np.flatnonzero(small)
    out[tail] *= noise(0, tail) ** (1 / shape_N[tail])
    return out
