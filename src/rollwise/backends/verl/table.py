"""How each setting of ours is carried in a verl run: the one place that knows.

A row names settings, or all of a section (with a dot behind), and the keys of verl made from them. What no key of verl
is made from is read by Rollwise's own parts, in the trainer's process; a setting that neither can honour is refused
where it is not at its default.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rollwise.config import RunConfig
from rollwise.starters import starter_path

ACTOR, REF, ROLLOUT, CRITIC = "actor_rollout_ref.actor", "actor_rollout_ref.ref", "actor_rollout_ref.rollout", "critic"
ENGINES = ("dp", "megatron")  # verl's `model_engine`: FSDP, and Megatron

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Settings of ours that are carried in one way."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...] = ()  # every key of verl that may be made, for any settings
    values: Callable[[RunConfig], Values] = lambda c: {}
    own: bool = True  # read by our parts as well, or by them alone
    refused: Callable[[RunConfig], str] = lambda c: ""  # why verl cannot do what is set; empty where it can
    note: str = ""  # what differs, for the documentation


def engine(config: RunConfig) -> str:
    """verl's model engine."""
    return str(config.verl.get("model_engine", "dp"))


def reference(config: RunConfig) -> bool:
    return config.objective.kl_coef > 0 or config.advantage.kl_in_reward > 0


def tokens(config: RunConfig) -> int:
    """Tokens of one forward pass: at least the longest sequence there can be."""
    longest = config.sampling.max_prompt_length + config.sampling.max_completion_length
    return max(config.learner.micro_batch_tokens, longest)


def seed(config: RunConfig) -> int:
    return config.seed % 2**31  # engines take 32 bits


def _same(*keys: str, of: Callable[[RunConfig], Any]) -> Callable[[RunConfig], Values]:
    """One value under several keys; those of the critic only where there is one."""
    return lambda c: {k: of(c) for k in keys if c.critic.kind != "none" or not k.startswith(("critic.", "+critic."))}


def _model(config: RunConfig) -> str:
    return str(starter_path(config.task)) if config.model == "starter" else config.model


def _by_engine(dp: Values, megatron: Values) -> Callable[[RunConfig], Values]:
    """Functions of the config under keys that differ by engine."""

    def values(config: RunConfig) -> Values:
        chosen = megatron if engine(config) == "megatron" else dp
        none = config.critic.kind == "none"
        return {k: f(config) for k, f in chosen.items() if not (none and k.lstrip("+").startswith("critic."))}

    return values


def _precision(config: RunConfig) -> dict[str, str]:
    return {"param_dtype": {"float32": "fp32", "bfloat16": "bf16"}[config.dtype], "reduce_dtype": "fp32"}


def _schedule_refused(c: RunConfig) -> str:
    if c.learner.schedule != "linear" or engine(c) == "megatron":
        return ""
    return "verl with FSDP has constant and cosine"


def _stages_refused(c: RunConfig) -> str:
    if any("optimizer" in stage.reset for stage in c.curriculum.stages[1:]):
        return "verl cannot begin the optimizer anew; leave optimizer out of reset"
    return ""


def _device_refused(c: RunConfig) -> str:
    return "" if c.device in ("cpu", "cuda") else "verl places its own workers; set device=cuda (or cpu)"


PRECISION = {
    f"+{ACTOR}.fsdp_config.mixed_precision": _precision,
    f"+{REF}.fsdp_config.mixed_precision": _precision,
    "+critic.fsdp.mixed_precision": _precision,
}
MEGATRON_PRECISION = {
    f"{ACTOR}.megatron.dtype": lambda c: c.dtype,
    f"{REF}.megatron.dtype": lambda c: c.dtype,
    "critic.megatron.dtype": lambda c: c.dtype,
}
EPS = {f"{part}.optim.override_optimizer_config": lambda c: {"eps": c.learner.eps} for part in (ACTOR, CRITIC)}
MEGATRON_EPS = {
    f"+{part}.optim.override_optimizer_config.adam_eps": lambda c: c.learner.eps for part in (ACTOR, CRITIC)
}
SCHEDULE = {f"{ACTOR}.optim.lr_scheduler_type": lambda c: c.learner.schedule}
MEGATRON_SCHEDULE = {f"{ACTOR}.optim.lr_decay_style": lambda c: c.learner.schedule}
CLIP = {
    f"{part}.optim.clip_grad": lambda c: math.inf if c.learner.max_grad_norm is None else c.learner.max_grad_norm
    for part in (ACTOR, CRITIC)
}
MEGATRON_CLIP = {f"{part}.optim.clip_grad": lambda c: c.learner.max_grad_norm or 0.0 for part in (ACTOR, CRITIC)}
SEEDS = {f"{ROLLOUT}.seed": seed, f"{ACTOR}.fsdp_config.seed": seed}
MEGATRON_SEEDS = {f"{ROLLOUT}.seed": seed, f"{ACTOR}.megatron.seed": seed}
TOKENS = (
    f"{ACTOR}.ppo_max_token_len_per_gpu",
    f"{REF}.log_prob_max_token_len_per_gpu",
    f"{ROLLOUT}.log_prob_max_token_len_per_gpu",
    "critic.ppo_max_token_len_per_gpu",
    "+critic.ppo_infer_max_token_len_per_gpu",
)

ROWS = (
    Row(
        ours=(
            "method",
            "task",
            "task_args",
            "tasks",
            "backend",
            "verl",
            "sampling.overlong_prompts",
            "sampling.importance_cap",
            "learner.updates_per_batch",
            "learner.epochs",
            "images.min_pixels",
            "images.max_pixels",
            "images.cache_mb",
        )
    ),
    Row(
        ours=tuple(
            f"{section}."
            for section in (
                "budget",
                "curriculum",
                "allocation",
                "replay",
                "reward",
                "advantage",
                "objective",
                "eval",
                "checkpoint",
                "guard",
                "log",
            )
        )
    ),
    Row(
        ours=("model",),
        theirs=("actor_rollout_ref.model.path", "critic.model.path"),
        values=_same("actor_rollout_ref.model.path", "critic.model.path", of=_model),
        own=False,
    ),
    Row(ours=("output",), theirs=("trainer.default_local_dir",), own=False, note="its `checkpoints` folder"),
    Row(
        ours=("seed",),
        theirs=(*SEEDS, *MEGATRON_SEEDS),
        values=_by_engine(SEEDS, MEGATRON_SEEDS),
        note="SGLang takes no seed with a request",
    ),
    Row(
        ours=("sampling.engine", "sampling.vllm."),
        refused=lambda c: (
            "" if c.sampling.engine == "torch" else "verl has rollout servers; set verl.actor_rollout_ref.rollout.name"
        ),
        note="refused: verl has servers of its own",
    ),
    Row(
        ours=("threads",),
        refused=lambda c: "" if c.threads == 1 else "set OMP_NUM_THREADS for verl's processes, and leave threads out",
        note="refused: OMP_NUM_THREADS",
    ),
    Row(
        ours=("device",),
        theirs=("trainer.device",),
        values=lambda c: {"trainer.device": c.device},
        own=False,
        refused=_device_refused,
        note="cpu or cuda",
    ),
    Row(
        ours=("dtype",),
        theirs=(f"{ROLLOUT}.dtype", *PRECISION, *MEGATRON_PRECISION),
        values=lambda c: {f"{ROLLOUT}.dtype": c.dtype, **_by_engine(PRECISION, MEGATRON_PRECISION)(c)},
        own=False,
        note="weights are kept in float32",
    ),
    Row(
        ours=("prompts_per_step",),
        theirs=("data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size"),
        values=_same("data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size", of=lambda c: c.prompts_per_step),
        own=False,
    ),
    Row(
        ours=("group_size",),
        theirs=(f"{ROLLOUT}.n",),
        values=lambda c: {f"{ROLLOUT}.n": c.group_size},
        own=False,
    ),
    Row(
        ours=("sampling.temperature",),
        theirs=(f"{ROLLOUT}.temperature",),
        values=lambda c: {f"{ROLLOUT}.temperature": c.sampling.temperature},
        own=False,
    ),
    Row(
        ours=("sampling.top_p",),
        theirs=(f"{ROLLOUT}.top_p",),
        values=lambda c: {f"{ROLLOUT}.top_p": c.sampling.top_p},
        own=False,
    ),
    Row(
        ours=("sampling.max_prompt_length",),
        theirs=("data.max_prompt_length",),
        values=lambda c: {"data.max_prompt_length": c.sampling.max_prompt_length},
        own=False,
    ),
    Row(
        ours=("sampling.max_completion_length",),
        theirs=("data.max_response_length",),
        values=lambda c: {"data.max_response_length": c.sampling.max_completion_length},
        own=False,
    ),
    Row(
        ours=("sampling.max_rows",),
        theirs=(f"{ROLLOUT}.max_num_seqs",),
        values=lambda c: {f"{ROLLOUT}.max_num_seqs": c.sampling.max_rows},
        note="of each rollout server",
    ),
    Row(
        ours=("objective.kl_coef",),
        theirs=(f"{ACTOR}.use_kl_loss", f"{ACTOR}.kl_loss_coef"),
        values=lambda c: {
            f"{ACTOR}.use_kl_loss": c.objective.kl_coef > 0,
            f"{ACTOR}.kl_loss_coef": c.objective.kl_coef,
        },
        own=False,
        note="loads the reference model; the term is ours",
    ),
    Row(
        ours=("advantage.kl_in_reward",),
        theirs=("algorithm.use_kl_in_reward", "algorithm.kl_ctrl.kl_coef"),
        values=lambda c: {
            "algorithm.use_kl_in_reward": c.advantage.kl_in_reward > 0,
            "algorithm.kl_ctrl.kl_coef": c.advantage.kl_in_reward,
        },
        own=False,
        note="loads the reference model; the term is ours",
    ),
    Row(
        ours=("critic.kind",),
        theirs=("algorithm.adv_estimator", "critic.enable"),
        values=lambda c: {
            "algorithm.adv_estimator": "grpo" if c.critic.kind == "none" else "gae",
            "critic.enable": c.critic.kind != "none",
        },
        own=False,
        refused=lambda c: (
            "verl's critic is a model of its own; set critic.kind=model" if c.critic.kind == "head" else ""
        ),
        note="none or model",
    ),
    Row(
        ours=("critic.lr",),
        theirs=("critic.optim.lr",),
        values=_same("critic.optim.lr", of=lambda c: 10 * c.learner.lr if c.critic.lr is None else c.critic.lr),
        own=False,
    ),
    Row(
        ours=("critic.clip_value",),
        theirs=("critic.cliprange_value",),
        values=_same(
            "critic.cliprange_value", of=lambda c: math.inf if c.critic.clip_value is None else c.critic.clip_value
        ),
        own=False,
    ),
    Row(
        ours=("learner.lr",),
        theirs=(f"{ACTOR}.optim.lr",),
        values=lambda c: {f"{ACTOR}.optim.lr": c.learner.lr},
        own=False,
    ),
    Row(
        ours=("learner.beta1", "learner.beta2"),
        theirs=(f"{ACTOR}.optim.betas", "critic.optim.betas"),
        values=_same(f"{ACTOR}.optim.betas", "critic.optim.betas", of=lambda c: [c.learner.beta1, c.learner.beta2]),
        own=False,
    ),
    Row(
        ours=("learner.eps",),
        theirs=(*EPS, *MEGATRON_EPS),
        values=_by_engine(EPS, MEGATRON_EPS),
        own=False,
    ),
    Row(
        ours=("learner.weight_decay",),
        theirs=(f"{ACTOR}.optim.weight_decay", "critic.optim.weight_decay"),
        values=_same(f"{ACTOR}.optim.weight_decay", "critic.optim.weight_decay", of=lambda c: c.learner.weight_decay),
        own=False,
    ),
    Row(
        ours=("learner.warmup_updates",),
        theirs=(f"{ACTOR}.optim.lr_warmup_steps",),
        values=lambda c: {f"{ACTOR}.optim.lr_warmup_steps": c.learner.warmup_updates},
        own=False,
        note="verl's warm-up begins at 0: update n has the rate that update n - 1 has here",
    ),
    Row(
        ours=("learner.schedule",),
        theirs=(*SCHEDULE, *MEGATRON_SCHEDULE),
        values=_by_engine(SCHEDULE, MEGATRON_SCHEDULE),
        own=False,
        refused=_schedule_refused,
        note="constant or cosine; linear with Megatron only",
    ),
    Row(
        ours=("learner.schedule_updates",),
        theirs=(f"{ACTOR}.optim.total_training_steps",),
        values=lambda c: {f"{ACTOR}.optim.total_training_steps": c.learner.schedule_updates or -1},
    ),
    Row(
        ours=("learner.max_grad_norm",),
        theirs=tuple(CLIP),
        values=_by_engine(CLIP, MEGATRON_CLIP),
        own=False,
    ),
    Row(
        ours=("learner.freeze_vision",),
        refused=lambda c: "verl trains the whole model" if c.learner.freeze_vision else "",
        note="refused: verl trains the whole model",
    ),
    Row(
        ours=("learner.micro_batch_tokens",),
        theirs=TOKENS,
        values=_same(*TOKENS, of=tokens),
        own=False,
        note="of one worker; no less than the longest sequence",
    ),
    Row(
        ours=("learner.logit_budget",),
        refused=lambda c: (
            "" if c.learner.logit_budget == 2**25 else "verl bounds a pass by learner.micro_batch_tokens alone"
        ),
        note="refused: learner.micro_batch_tokens bounds a pass",
    ),
    Row(ours=("curriculum.stages",), refused=_stages_refused, note="`optimizer` in `reset` is refused"),
)


def row_of(key: str) -> Row | None:
    """The row of a setting by its dotted name: its own, else that of its section."""
    for row in ROWS:
        if key in row.ours:
            return row
    return next((r for r in ROWS if any(k.endswith(".") and key.startswith(k) for k in r.ours)), None)


def made_from() -> dict[str, str]:
    """Keys of verl, without a plus, that a setting of ours makes, and that setting."""
    return {key.lstrip("+"): row.ours[0] for row in ROWS for key in row.theirs}
