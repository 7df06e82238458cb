"""The base algorithms beside GRPO, and replay, filtering and shaping laid over them.

Where they differ from their papers: sizes, learning rates and lengths are the run's, never the paper's; rewards are the
task's. The rest stands with each.
"""

from rollwise.methods.base import Method
from rollwise.methods.dapo import DAPO
from rollwise.methods.grpo import GRPO
from rollwise.methods.popo import POPO

SYMMETRIC = {"objective.clip_low": 0.2, "objective.clip_high": 0.2, "objective.dual_clip": None}
REPLAY = {
    k: v for k, v in POPO.settings.items() if k.startswith("replay.") or (k, v) == ("objective.kind", "decoupled")
}

DR_GRPO = Method(
    name="dr-grpo",
    summary="GRPO without its biases: no division by the deviation, and none by the response's own length",
    paper="arXiv 2503.20783",
    differs="the constant divisor is sampling.max_completion_length; clip 0.2 on both sides",
    settings={**GRPO.settings, **SYMMETRIC, "advantage.scale": "none", "objective.reduction": "constant"},
)

LITE_PPO = Method(
    name="lite-ppo",
    summary="critic-free: the group's mean, the whole batch's deviation, token-mean loss",
    paper="arXiv 2508.08221",
    differs="clip 0.2/0.28 with dual clip 10, as our GRPO",
    settings={**GRPO.settings, "advantage.scale": "batch"},
)

RLOO = Method(
    name="rloo",
    summary="each rollout against the mean of the others of its group",
    paper="arXiv 2402.14740",
    differs="ratios are clipped at 0.2 and of tokens, where the paper takes plain REINFORCE on whole responses; no KL "
    "in the reward by default (advantage.kl_in_reward)",
    settings={**GRPO.settings, **SYMMETRIC, "advantage.kind": "rloo", "objective.reduction": "constant"},
)

REINFORCE = Method(
    name="reinforce++",
    summary="returns whitened over the whole batch; a group of equal rewards teaches too",
    paper="arXiv 2501.03262",
    differs="no KL in the reward by default (advantage.kl_in_reward); group_size as set, the paper takes 1",
    settings={**GRPO.settings, **SYMMETRIC, "advantage.kind": "reinforce++"},
)

REINFORCE_BASELINE = REINFORCE.variant(
    "reinforce++-baseline",
    "the group's mean taken off, then whitened over the whole batch",
    differs="no KL term by default (objective.kl_coef; its estimator is k3, the paper's k2)",
    advantage__kind="reinforce++-baseline",
)

PPO = Method(
    name="ppo",
    summary="a critic gives each token its advantage (GAE)",
    paper="arXiv 1707.06347",
    differs="gamma and lambda 1, as usual for a reward at the end; the critic is a copy of the start model, its last "
    "layer at zero, at 10 x the policy's rate; one pass over a batch unless learner.epochs says more",
    settings={**GRPO.settings, **SYMMETRIC, "advantage.kind": "gae", "critic.kind": "model"},
)

GSPO = Method(
    name="gspo",
    summary="one ratio for a whole rollout, the geometric mean of its tokens', clipped as one",
    paper="arXiv 2507.18071",
    differs="in its token form, whose gradient is the same; as many mini-batches as learner.updates_per_batch says, "
    "the paper takes four",
    settings={
        **GRPO.settings,
        "objective.kind": "sequence",
        "objective.reduction": "sequence",
        "objective.clip_low": 3e-4,
        "objective.clip_high": 4e-4,
        "objective.dual_clip": None,
    },
)

CISPO = Method(
    name="cispo",
    summary="the ratio is bounded as a constant weight, so no token loses its gradient",
    paper="arXiv 2506.13585",
    differs="upper bound 5 and no lower one: the paper does not print its value",
    settings={
        **GRPO.settings,
        "objective.kind": "cispo",
        "objective.clip_low": 1.0,
        "objective.clip_high": 4.0,
        "objective.dual_clip": None,
    },
)

DAPO_FULL = DAPO.variant(
    "dapo-full",
    "DAPO with all four parts: also the soft overlong penalty and overlong filtering",
    differs="buffer a fifth of max_completion_length, the paper's 4096 of 20480; a group is informative by the reward, "
    "penalty included, where the paper asks for right and wrong answers; bounded at 10 rounds",
    advantage__overlong="mask",
    reward__overlong_share=0.2,
)


def replayed(base: Method, name: str, summary: str, **settings: object) -> Method:
    """`base` with POPO's replay and decoupled weight."""
    over = Method(name=base.name, summary="", paper=POPO.paper, differs="", settings={**base.settings, **REPLAY})
    differs = f"of POPO; its base is {base.name} ({base.paper}), with what differs there"
    return over.variant(name, summary, differs, **settings)


METHODS = [
    DR_GRPO,
    LITE_PPO,
    RLOO,
    REINFORCE,
    REINFORCE_BASELINE,
    PPO,
    GSPO,
    CISPO,
    DAPO_FULL,
    replayed(RLOO, "popo-rloo", "POPO's replay with RLOO's advantages"),
    replayed(PPO, "popo-ppo", "POPO's replay with a critic; replayed groups are valued by the current one"),
    replayed(
        GSPO,
        "gspo-popo",
        "POPO's replay with GSPO's ratio; the weight is a rollout's product, capped at 10",
        objective__kind="sequence",
        objective__behaviour_weight=True,
        objective__weight_level="sequence",
        objective__weight_cap=10.0,
    ),
]
