"""Scores made of other scores: accuracy and length in one number."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """The constants of `accuracy_efficiency`; the defaults are those of O1-Pruner. Others use others: say which."""

    alpha: float = 1.0  # weight of the relative saving in length
    beta: float = 3.0  # of a relative gain in accuracy
    gamma: float = 5.0  # of a relative loss


def accuracy_efficiency(
    accuracy: float,
    length: float,
    ref_accuracy: float,
    ref_length: float,
    constants: Efficiency = Efficiency(),
) -> float:
    """AES, the accuracy-efficiency score of O1-Pruner (arXiv 2501.12570): alpha * dL + beta * dA, or
    alpha * dL - gamma * |dA| where accuracy fell. dL = (L_ref - L) / L_ref is
    positive for shorter answers, dA = (A - A_ref) / A_ref; lengths are in tokens.

    NaN where the reference has no accuracy or no length to compare with.
    """
    if not (ref_accuracy > 0 and ref_length > 0 and math.isfinite(accuracy) and math.isfinite(length)):
        return math.nan
    saved, gained = (ref_length - length) / ref_length, (accuracy - ref_accuracy) / ref_accuracy
    return constants.alpha * saved + (constants.beta if gained >= 0 else constants.gamma) * gained
