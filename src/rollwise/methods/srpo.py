"""SRPO: two-staged history-resampling policy optimisation.

Paper: arXiv 2504.14286.

History resampling filters prompts between epochs; it replays nothing. Differs, or fills in what was not readable: a
dropped prompt stays out for the whole stage and a new stage begins with all; "correct" is accuracy, not the reward; the
clip (0.2, symmetric). The stages are the recipe's (curriculum.stages), one by default: the paper trains on hard
mathematics first and then adds code, and states neither when to switch nor how to mix. Format and language rewards are
the task's matter. The batch, learning rate and AdamW betas of the paper (256 prompts x 32, 1e-6, 0.9 and 0.95) are for
a 32B model and not set here.
"""

from rollwise.methods.base import Method
from rollwise.methods.grpo import GRPO

SRPO = Method(
    name="srpo",
    summary="prompts solved throughout an epoch leave the next ones; over-length responses get advantage 0; stages",
    paper="arXiv 2504.14286",
    differs="dropped for good within a stage, clip 0.2: the paper is silent; stages are the recipe's",
    settings={
        **GRPO.settings,
        "curriculum.drop_solved": True,
        "advantage.overlong": "zero",
        "objective.clip_high": 0.2,
        "objective.dual_clip": None,
    },
)

METHODS = [SRPO]
