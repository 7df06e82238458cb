"""MoPPS: prompts whose success rate is predicted to be near one half, and the same under POPO.

Paper: arXiv 2507.04632.

Differs: at the end of an epoch the pool is what is left, and the draw goes on in the next; the released code's special
case of one rollout a group is not repeated; no warm start from recorded rollouts. Decay 0.5 and pool factor 8 are the
paper's for Countdown and Geometry (1.0 and 16 for mathematics). Posteriors learn from fresh rollouts only, and tell
something only of prompts that are met again: give a task that makes up its questions a train_size that the budget
passes several times.
"""

from rollwise.methods.base import Method
from rollwise.methods.grpo import GRPO
from rollwise.methods.popo import POPO

CHOICE = {
    "curriculum.kind": "mopps",
    "curriculum.mopps.strategy": "topk",
    "curriculum.mopps.pool_factor": 8,
    "curriculum.mopps.decay": 0.5,
}

MOPPS = Method(
    name="mopps",
    summary="of 8 candidates for each prompt, asks those whose sampled success rate is nearest to one half",
    paper="arXiv 2507.04632",
    differs="the pool at an epoch's end is what is left of it; no warm start; decay and pool factor as for Countdown",
    settings={**GRPO.settings, **CHOICE},
)

MOPPS_POPO = Method(
    name="mopps-popo",
    summary="MoPPS chooses the prompts, POPO fills the slots of the groups that are dead all the same",
    paper="arXiv 2507.04632 and 2606.01281",
    differs="the combination is ours; posteriors never see a replayed group",
    settings={**POPO.settings, **CHOICE},
)

METHODS = [MOPPS, MOPPS_POPO]
