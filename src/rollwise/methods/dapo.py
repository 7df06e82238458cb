"""DAPO: dynamic sampling, clip-higher and token-level loss.

Paper: arXiv 2503.14476.

Differs: generation is bounded, by default at 10 rounds of prompts_per_step prompts, after which the step trains on the
groups it has; the paper's loop is not bounded, verl's recipe raises an error there. Reward is the task's, not +-1: the
advantage does not change. Surplus informative groups are dropped, as in the released code. The soft overlong penalty
and overlong filtering are not part of this method's defaults; `dapo-full` has them.
"""

from rollwise.methods.base import Method
from rollwise.methods.grpo import GRPO

DAPO = Method(
    name="dapo",
    summary="generate round after round until the batch is full of informative groups",
    paper="arXiv 2503.14476",
    differs="bounded at 10 rounds, then trains on what it has; no overlong shaping, for which see dapo-full",
    settings={
        **GRPO.settings,
        "allocation.kind": "dynamic",
        "allocation.max_rounds": 10,
        "allocation.on_limit": "partial",
        "allocation.surplus": "drop",
    },
)

METHODS = [DAPO]
