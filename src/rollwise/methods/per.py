"""PER: rollout-level replay, drawn by the magnitude of the advantage; its baselines and ablations.

Paper: arXiv 2606.04560.

Differs, or fills in: ages 1 to 10 can be drawn (the paper's pseudo-code gives 11, its text 10); draws are without
replacement within a step and items stay until they age out; the ratio is to the trainer's own log-probs of the birth
step; standard deviation over N, as the paper's closed forms have it; token-mean loss; fresh and stored rows shuffled
together into as many updates as without replay; 20 warm-up steps are steps of training, so that a shorter run never
draws. Rewards are the task's, not +-1: the advantage does not change. The paper's results are of one seed.
"""

from rollwise.methods.base import Method
from rollwise.methods.grpo import GRPO

PER = Method(
    name="per",
    summary="stored rollouts drawn by |advantage| join the fresh informative groups; clipped around their birth policy",
    paper="arXiv 2606.04560",
    differs="ages 1..10, no replacement within a step, items stay until they age out: the paper leaves these open",
    settings={
        **GRPO.settings,
        "replay.kind": "rollouts",
        "replay.ratio": 0.5,
        "replay.alpha": 0.5,
        "replay.eps": 1e-6,
        "replay.warmup_steps": 20,
        "replay.max_age": 10,
        "replay.capacity": 30_000,
        "replay.priority": "advantage",
        "replay.entries": "rollouts",
        "replay.composition": "fresh",
        "advantage.ddof": 0,
        "objective.kind": "behaviour",
    },
)

METHODS = [
    PER,
    PER.variant("per-uniform", "ablation: stored rollouts drawn evenly", replay__priority="uniform"),
    PER.variant(
        "per-sigma",
        "ablation: stored rollouts drawn by the standard deviation of their group's rewards",
        replay__priority="sigma",
    ),
    PER.variant(
        "per-groups",
        "whole groups stored and drawn, by the mean |advantage| of their members",
        differs="the paper draws groups evenly or by standard deviation: set replay.priority",
        replay__entries="groups",
    ),
    PER.variant(
        "per-pool",
        "ablation: one pool of fresh and stored rollouts, so that some fresh ones are not trained on in their step",
        replay__composition="pool",
    ),
    PER.variant("per-tau1", "ablation: only rollouts of the step before can be drawn", replay__max_age=1),
    PER.variant(
        "per-decoupled",
        "PER's draw with POPO's objective: trust region at the current policy, old data weighted",
        differs="ours; the weight has no cap, as in POPO here",
        objective__kind="decoupled",
    ),
]
