"""Names that users of TRL, verl and other trainers type, and ours.

Only synonyms: same meaning, same unit. Where the values are named differently too, `VALUES` translates them; what has
no counterpart of the same meaning is answered with the key to look at (`ANSWERS`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollwise.errors import UserError, show

ALIASES: dict[str, tuple[str, ...]] = {
    "num_generations": ("group_size",),
    "rollout.n": ("group_size",),
    "data.train_batch_size": ("prompts_per_step",),
    "max_steps": ("budget.steps",),
    "max_completion_length": ("sampling.max_completion_length",),
    "data.max_response_length": ("sampling.max_completion_length",),
    "max_prompt_length": ("sampling.max_prompt_length",),
    "data.max_prompt_length": ("sampling.max_prompt_length",),
    "filter_overlong_prompts": ("sampling.overlong_prompts",),
    "data.filter_overlong_prompts": ("sampling.overlong_prompts",),
    "temperature": ("sampling.temperature",),
    "rollout.temperature": ("sampling.temperature",),
    "top_p": ("sampling.top_p",),
    "rollout.top_p": ("sampling.top_p",),
    "learning_rate": ("learner.lr",),
    "actor.optim.lr": ("learner.lr",),
    "num_iterations": ("learner.epochs",),
    "actor.ppo_epochs": ("learner.epochs",),
    "max_grad_norm": ("learner.max_grad_norm",),
    "actor.grad_clip": ("learner.max_grad_norm",),
    "epsilon": ("objective.clip_low", "objective.clip_high"),  # both bounds, unless one is given by itself
    "clip_ratio": ("objective.clip_low", "objective.clip_high"),
    "actor.clip_ratio": ("objective.clip_low", "objective.clip_high"),
    "epsilon_high": ("objective.clip_high",),
    "clip_low": ("objective.clip_low",),
    "clip_high": ("objective.clip_high",),
    "clip_ratio_low": ("objective.clip_low",),
    "clip_ratio_high": ("objective.clip_high",),
    "actor.clip_ratio_low": ("objective.clip_low",),
    "actor.clip_ratio_high": ("objective.clip_high",),
    "clip_ratio_c": ("objective.dual_clip",),
    "actor.clip_ratio_c": ("objective.dual_clip",),
    "beta": ("objective.kl_coef",),
    "kl_coef": ("objective.kl_coef",),
    "kl_loss_coef": ("objective.kl_coef",),
    "actor.kl_loss_coef": ("objective.kl_coef",),
    "actor.entropy_coeff": ("objective.entropy_coef",),
    "algorithm.kl_ctrl.kl_coef": ("advantage.kl_in_reward",),
    "algorithm.gamma": ("advantage.gamma",),
    "algorithm.lam": ("advantage.gae_lambda",),
    "loss_agg_mode": ("objective.reduction",),
    "actor.loss_agg_mode": ("objective.reduction",),
    "loss_type": ("objective.reduction",),
    "scale_rewards": ("advantage.scale",),
    "model.path": ("model",),
}
for _name in [n for n in ALIASES if n.startswith(("rollout.", "actor.", "model."))]:  # verl's own, whole paths
    ALIASES[f"actor_rollout_ref.{_name}"] = ALIASES[_name]
WIDE = {name for name, keys in ALIASES.items() if len(keys) > 1}  # those that a name of one of their keys narrows

_AGGREGATION = {"token-mean": "token", "seq-mean-token-mean": "sequence", "seq-mean-token-sum-norm": "constant"}
_FILTER = {True: "skip", False: "error"}
VALUES: dict[str, dict[Any, str]] = {
    "filter_overlong_prompts": _FILTER,
    "data.filter_overlong_prompts": _FILTER,
    "loss_agg_mode": _AGGREGATION,
    "actor.loss_agg_mode": _AGGREGATION,
    "actor_rollout_ref.actor.loss_agg_mode": _AGGREGATION,
    "loss_type": {"grpo": "sequence", "dapo": "token", "dr_grpo": "constant"},
    "scale_rewards": {True: "std", "group": "std", "batch": "batch", False: "none", "none": "none"},
}

ANSWERS = {
    "importance_sampling_level": "set objective.kind=sequence for GSPO's ratio; tokens are the default",
    "per_device_train_batch_size": "set prompts_per_step, and learner.micro_batch_tokens for the memory of a pass",
    "gradient_accumulation_steps": "set prompts_per_step; learner.micro_batch_tokens bounds the memory of a pass",
    "steps_per_generation": "set learner.updates_per_batch, the updates that a step's batch is split into",
    "num_train_epochs": "set budget.rollouts, budget.steps, budget.tokens or budget.seconds",
    "actor.ppo_mini_batch_size": "set learner.updates_per_batch, the updates that a step's batch is split into",
    "trainer.total_epochs": "set budget.rollouts, budget.steps, budget.tokens or budget.seconds",
    "algorithm.adv_estimator": "set method (`rollwise methods`), or advantage.kind",
    "actor.use_kl_loss": "set objective.kl_coef; 0 is off",
    "algorithm.use_kl_in_reward": "set advantage.kl_in_reward; 0 is off",
    "algorithm.norm_adv_by_std_in_grpo": "set advantage.scale to std or none",
}
for _name in [n for n in ANSWERS if n.startswith("actor.")]:
    ANSWERS[f"actor_rollout_ref.{_name}"] = ANSWERS[_name]


def translated(name: str, value: Any, source: str) -> dict[str, Any]:
    """Our keys and values of one setting; itself where the name is no alias. Raises UserError where the value has no
    counterpart, or the name none of one meaning."""
    if name in ANSWERS:
        raise UserError(f"{source}: '{name}' is another trainer's; {ANSWERS[name]}")
    known = VALUES.get(name)
    if known is not None:
        if not isinstance(value, str | bool) or value not in known:
            names = ", ".join(str(k).lower() for k in known)
            raise UserError(f"{source}: {name} is {show(value)}; understood are {names}, or set {ALIASES[name][0]}")
        value = known[value]
    return dict.fromkeys(ALIASES.get(name, (name,)), value)


def clashes(names: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """A key of ours and the two names it is given under, one of them an alias; a wide alias gives way."""
    seen: dict[str, str] = {}
    for name in names:
        for ours in ALIASES.get(name, (name,)) if name not in WIDE else ():
            if ours in seen and (name in ALIASES or seen[ours] in ALIASES):
                return ours, seen[ours], name
            seen[ours] = name
    wide = [n for n in names if n in WIDE]
    return (ALIASES[wide[0]][0], wide[0], wide[1]) if len(wide) > 1 else None
