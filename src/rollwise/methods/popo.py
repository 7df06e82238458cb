"""POPO: group prioritized off-policy optimisation, and its ablations.

Paper: arXiv 2606.01281.

Differs, or fills in what was not readable: the exact equation, its level (token) and whether the weight is capped (no);
capacity of the buffer (one batch of groups); reuse of a stored group (in later steps, once a step); dead groups keep
their slots while the buffer is short; validity by the reward that feeds the advantage; clip 0.2/0.28 and dual clip 10
from the same lab's scripts. Behaviour log-probs are the trainer's own of the group's birth step, so the weight of fresh
rows is exactly 1.
"""

from rollwise.methods.base import Method
from rollwise.methods.grpo import GRPO

POPO = Method(
    name="popo",
    summary="dead groups give their slots to the most recent informative ones; decoupled off-policy objective",
    paper="arXiv 2606.01281",
    differs="token-level weight without cap, buffer of one batch, reuse once a step: the paper's text is silent",
    settings={
        **GRPO.settings,
        "replay.kind": "recent",
        "replay.admit": "informative",
        "replay.order": "newest",
        "replay.short": "keep",
        "objective.kind": "decoupled",
    },
)

METHODS = [
    POPO,
    POPO.variant(
        "popo-kl",
        "ablation: replays the stored groups nearest to the current policy by KL instead of the newest",
        differs="buffer of four batches, so that there is something to choose; k3 estimate on the stored tokens",
        replay__order="kl",
        replay__capacity_batches=4,
    ),
    POPO.variant(
        "popo-ineff",
        "ablation: stores and replays groups regardless of reward variance",
        differs="dead groups of the buffer are drawn like any other, newest first; otherwise as popo",
        replay__admit="any",
    ),
    POPO.variant(
        "popo-stale",
        "ablation: replays only groups of age 10 steps or more",
        differs="newest first among those; buffer of 18 batches, so that they are still there; otherwise as popo",
        replay__min_age=10,
    ),
    POPO.variant(
        "popo-onpolicy",
        "ablation: replayed groups treated as on-policy (weight 1)",
        differs="the plain clipped objective on the mixed batch, log-probs recomputed; buffer as popo",
        objective__kind="clipped",
    ),
    POPO.variant(
        "popo-behaviour",
        "ablation: ratio to, and clip around, the behaviour policy",
        differs="behaviour log-probs are the trainer's of the birth step; no weight; buffer as popo",
        objective__kind="behaviour",
    ),
    POPO.variant(
        "popo-hybrid",
        "a quarter of the empty slots filled from a reservoir of older groups, the rest with the most recent",
        differs="the paper's future work, built by us: reservoir of 4 batches, at most 20 steps old, weight cap 2",
        replay__kind="hybrid",
        replay__reservoir_share=0.25,
        replay__reservoir_max_age=20,
        objective__weight_cap=2.0,
        objective__weight_over_cap="clamp",
    ),
    POPO.variant(
        "popo-stale-onpolicy",
        "negative control: age 10 or more and treated as on-policy",
        differs="ours; a replay path in which this does as well as POPO is suspect",
        replay__min_age=10,
        objective__kind="clipped",
    ),
]
