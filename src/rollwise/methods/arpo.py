"""ARPO: a stored success put into a group that is all wrong.

Paper: arXiv 2505.16282, for GUI agents; here its rule on answers of one turn.

Differs: a success is a correct answer and a group has failed where none of its members is correct (the paper has
thresholds on a continuous result); the reward has no format term of its own. As in the released code the first member
gives way, up to 8 successes a prompt are kept, the draw is even, and the old rollout is treated as on-policy: clip
0.2 / 0.3, no KL. It can only help prompts that come again after they were solved once: give it a data set of several
epochs. The group counts as fresh and its injected member as a replayed use; the member that gave way is dropped_hard,
or surplus where a shaped reward gave its group some variance.
"""

from rollwise.methods.base import Method
from rollwise.methods.grpo import GRPO

ARPO = Method(
    name="arpo",
    summary="a group that is all wrong gets one stored success of its prompt in place of its first member",
    paper="arXiv 2505.16282",
    differs="one turn instead of GUI trajectories; success is a correct answer; needs several epochs",
    settings={
        **GRPO.settings,
        "replay.kind": "success",
        "replay.per_prompt": 8,
        "objective.kind": "clipped",
        "objective.clip_high": 0.3,
    },
)

METHODS = [ARPO]
