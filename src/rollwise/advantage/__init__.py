"""Advantages from rewards. Pure functions in double precision, no torch.

Only scored members enter any statistic; a member whose verifier failed gets advantage 0 and is not trained on.
"""

from rollwise.advantage.base import Estimator, Signals
from rollwise.advantage.critic import GeneralizedAdvantage, generalized_advantages
from rollwise.advantage.group import GroupAdvantage, LeaveOneOut, group_advantage, leave_one_out
from rollwise.advantage.overlong import Overlong
from rollwise.advantage.reinforce import ReinforcePlusPlus
from rollwise.advantage.tokens import discounted_sums, whiten

__all__ = [
    "Estimator",
    "GeneralizedAdvantage",
    "GroupAdvantage",
    "LeaveOneOut",
    "Overlong",
    "ReinforcePlusPlus",
    "Signals",
    "discounted_sums",
    "generalized_advantages",
    "group_advantage",
    "leave_one_out",
    "whiten",
]
