"""Pilot-Commit: spend the rollouts where the reward varies, and its ablations.

Paper: arXiv 2605.26606; released code (Apache-2.0, commit 6def20e) read for what the paper leaves open.

Differs: `pilot-commit` is the decoupled objective with its weight clamped at 2, for its pilots come from an earlier
policy; that is ours. `pilot-commit-paper` is as published: log-probs recomputed for all rows, so that the ratio of a
stale pilot starts at 1. Weights of stale pilots are against the sampler's log-probs, since the trainer has not met
them at birth; commits of the step have weight 1. The split is a share of group_size, a quarter as in the paper's
(32, 96) and (16, 48). Age is at most 4 when a pilot is used; in the released code 5 can occur. Optimizer updates are
those of GRPO at the same group_size; the released code sizes mini-batches by the commit rollouts and takes more
(allocation.pilot.updates=commit). The pilots that chose a prompt count in its group's mean, as in the paper; ours is
allocation.pilot.train_on=commit, without them. No overlong shaping. allocation/pilot.py says how epochs end and what
bounds a step.

Solved prompts are evicted for good at a pilot pass rate of 1. With few pilots that is often luck: one solved four times
in five passes a pilot of 8 by chance in 17 % of visits, one of 2 in 64 %. Then use `pilot-commit-keep`, or
curriculum.retest_epochs.
"""

from rollwise.methods.base import Method
from rollwise.methods.grpo import GRPO
from rollwise.methods.per import PER

PILOT_COMMIT = Method(
    name="pilot-commit",
    summary="a small pilot group for many prompts, the large commit group only for those that are mixed",
    paper="arXiv 2605.26606",
    differs="stale pilots get a decoupled weight, clamped at 2; updates as many as GRPO's; bounded at 10 rounds",
    settings={
        **GRPO.settings,
        "curriculum.evict_at": 1.0,
        "allocation.kind": "pilot",
        "allocation.max_rounds": 10,
        "allocation.on_limit": "partial",
        "allocation.pilot.share": 0.25,
        "allocation.pilot.p_lower": 0.125,
        "allocation.pilot.p_upper": 0.75,
        "allocation.pilot.max_age": 4,
        "allocation.pilot.pick": "random",
        "objective.kind": "decoupled",
        "objective.weight_cap": 2.0,
        "objective.weight_over_cap": "clamp",
    },
)

METHODS = [
    PILOT_COMMIT,
    PILOT_COMMIT.variant(
        "pilot-commit-paper",
        "as published: stale pilots treated as on-policy (ratio starts at 1)",
        differs="updates as many as GRPO's, the released code takes more; age counted when used; bounded at 10 rounds",
        objective__kind="clipped",
        objective__weight_cap=None,
    ),
    PILOT_COMMIT.variant(
        "pilot-commit-behaviour",
        "ratio to, and clip around, the policy each rollout was drawn from",
        differs="ours; the paper has no correction",
        objective__kind="behaviour",
        objective__weight_cap=None,
    ),
    PILOT_COMMIT.variant(
        "pilot-commit-light",
        "ablation: an eighth of the group as pilots, the best split of the paper at a fixed group size",
        allocation__pilot__share=0.125,
    ),
    PILOT_COMMIT.variant(
        "pilot-commit-half",
        "ablation: half of the group as pilots, as in the paper's runs with 16 rollouts",
        allocation__pilot__share=0.5,
    ),
    PILOT_COMMIT.variant(
        "pilot-commit-keep",
        "ablation: solved prompts come again every epoch",
        curriculum__evict_at=None,
    ),
    PILOT_COMMIT.variant(
        "pilot-commit-popo",
        "slots that a bounded step leaves empty go to the most recent groups of earlier steps",
        differs="ours: POPO's replay (arXiv 2606.01281) behind Pilot-Commit, at most 2 rounds a step",
        allocation__max_rounds=2,
        allocation__on_limit="replay",
        replay__kind="recent",
        replay__admit="informative",
        replay__order="newest",
        replay__short="keep",
    ),
    PILOT_COMMIT.variant(
        "pilot-commit-per",
        "stored rollouts of earlier groups, drawn by |advantage|, join the step's own",
        differs="ours: PER's replay and objective (arXiv 2606.04560) behind Pilot-Commit",
        objective__kind="behaviour",
        objective__weight_cap=None,
        **{key.replace(".", "__"): value for key, value in PER.settings.items() if key.startswith("replay.")},
    ),
]
