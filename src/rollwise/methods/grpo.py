"""GRPO: group-relative policy optimisation.

Paper: DeepSeekMath, arXiv 2402.03300.

Differs: the loss is averaged over all tokens of a mini-batch and the clip is asymmetric (0.2 / 0.28, dual clip 10), as
in the GRPO baselines that POPO and MoPPS are compared with; the paper averages per response first and clips at 0.2. No
KL term. For the paper's form set objective.reduction=sequence, objective.clip_high=0.2, objective.kl_coef=0.04.
"""

from rollwise.methods.base import Method

GRPO = Method(
    name="grpo",
    summary="fixed groups, advantage relative to the group; dead groups stay in the batch and teach nothing",
    paper="arXiv 2402.03300",
    differs="token-mean loss, clip 0.2/0.28 with dual clip 10 and no KL, as in the baselines of POPO and MoPPS",
    settings={
        "curriculum.kind": "uniform",
        "allocation.kind": "fixed",
        "replay.kind": "none",
        "advantage.kind": "group",
        "advantage.scale": "std",
        "objective.kind": "clipped",
        "objective.reduction": "token",
        "objective.clip_low": 0.2,
        "objective.clip_high": 0.28,
        "objective.dual_clip": 10.0,
    },
)

GRPO_FILTER = GRPO.variant(
    "grpo-filter",
    "GRPO without its dead groups: the batch shrinks and is not refilled (POPO's ablation)",
    differs="of POPO, arXiv 2606.01281, whose text leaves the mini-batches open: split into as many as GRPO's",
    replay__kind="filter",
)

METHODS = [GRPO, GRPO_FILTER]
