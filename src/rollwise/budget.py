"""A run's budget: what it still allows, and when it is spent."""

from __future__ import annotations

from rollwise.config import BudgetConfig
from rollwise.ledger import Count

UNBOUNDED = 2**62


def room(budget: BudgetConfig, generated: Count, seconds: float) -> int:
    """Rollouts a round may still ask for; none once the tokens or the seconds are used up."""
    if budget.tokens is not None and generated.tokens >= budget.tokens:
        return 0
    if budget.seconds is not None and seconds >= budget.seconds:
        return 0
    return UNBOUNDED if budget.rollouts is None else max(0, budget.rollouts - generated.rollouts)


def spent(budget: BudgetConfig, generated: Count, step: int, seconds: float, least: int) -> tuple[str, str] | None:
    """Reason and sentence if no further step may begin, where `least` is the rollouts it needs; else None."""
    if budget.steps is not None and step >= budget.steps:
        return "budget.steps", f"{step:,} of {budget.steps:,} steps done"
    if budget.tokens is not None and generated.tokens >= budget.tokens:
        return "budget.tokens", f"{generated.tokens:,} tokens generated of a budget of {budget.tokens:,}"
    if budget.rollouts is not None and budget.rollouts - generated.rollouts < least:
        return "budget.rollouts", (
            f"{generated.rollouts:,} of {budget.rollouts:,} rollouts used; the next step needs {least:,}"
        )
    if budget.seconds is not None and seconds >= budget.seconds:
        return "budget.seconds", f"{seconds:.0f} of {budget.seconds:.0f} seconds used"
    return None
