"""Weighted draws without replacement, and the weights."""

from __future__ import annotations

import numpy as np


def weighted_draw(log_weight: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Places of `count` items in the order drawn, int64; all of them where there are fewer.

    log_weight: float64 [n], logarithms of positive weights. The same as drawing one by one, each time among what is
    left and in proportion to weight: item i gets an exponential waiting time of rate weight_i, and the first `count`
    are taken (Efraimidis and Spirakis 2006, algorithm A, in logarithms, so that no weight is too small). One random
    number an item, in the items' order.
    """
    waiting = np.log(generator.standard_exponential(len(log_weight))) - log_weight
    count = min(count, len(waiting))
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    first = np.argpartition(waiting, count - 1)[:count] if count < len(waiting) else np.arange(count)
    return first[np.lexsort((first, waiting[first]))]


def log_priority(strength: np.ndarray, *, alpha: float, eps: float) -> np.ndarray:
    """Logarithm of (strength + eps)^alpha, float64 [n]; strength >= 0 (arXiv 2606.04560, section 5.1)."""
    return alpha * np.log(strength + eps)
