"""verl 0.9.1's settings as far as they say what is learned: which of them are ours under another name, which have
nothing that reads them here, and which stay verl's.

In a verl user's own command the first are understood, the second refused unless they are at verl's default, the third
left alone. In a recipe of ours the first two are refused, because a key of ours says the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rollwise.backends.verl.table import ACTOR, CRITIC, ROLLOUT
from rollwise.errors import UserError, show


@dataclass(frozen=True, slots=True)
class Unread:
    """A setting of verl that Rollwise's trainer does not read."""

    default: Any  # verl's; any other value is refused
    instead: str  # what to set, or why not


MANAGER = "rollwise.backends.verl.rollouts.RolloutManager"
NO_LOADER = "Rollwise reads the files itself"
LOSS = "the loss is Rollwise's: see +rollwise.objective"

# verl's name, and ours. `theirs.py` says how values are translated.
UNDERSTOOD: dict[str, str] = {
    "actor_rollout_ref.model.path": "model",
    "data.train_files": "task_args.data",
    "data.val_files": "task_args.heldout_data",
    "data.prompt_key": "task_args.map.prompt",
    "data.reward_fn_key": "task_args.map.source",
    "data.image_key": "task_args.map.images",
    "data.filter_overlong_prompts": "sampling.overlong_prompts",
    "data.max_prompt_length": "sampling.max_prompt_length",
    "data.max_response_length": "sampling.max_completion_length",
    "data.train_batch_size": "prompts_per_step",
    "data.seed": "seed",
    f"{ROLLOUT}.n": "group_size",
    f"{ROLLOUT}.temperature": "sampling.temperature",
    f"{ROLLOUT}.top_p": "sampling.top_p",
    f"{ROLLOUT}.dtype": "dtype",
    f"{ROLLOUT}.val_kwargs.n": "eval.samples",
    f"{ROLLOUT}.val_kwargs.temperature": "eval.temperature",
    f"{ROLLOUT}.val_kwargs.do_sample": "eval.temperature",
    f"{ROLLOUT}.val_kwargs.top_p": "eval.top_p",
    f"{ACTOR}.ppo_mini_batch_size": "learner.updates_per_batch",
    f"{ACTOR}.ppo_epochs": "learner.epochs",
    f"{ACTOR}.ppo_max_token_len_per_gpu": "learner.micro_batch_tokens",
    f"{ACTOR}.clip_ratio": "objective.clip_low",
    f"{ACTOR}.clip_ratio_low": "objective.clip_low",
    f"{ACTOR}.clip_ratio_high": "objective.clip_high",
    f"{ACTOR}.clip_ratio_c": "objective.dual_clip",
    f"{ACTOR}.entropy_coeff": "objective.entropy_coef",
    f"{ACTOR}.loss_agg_mode": "objective.reduction",
    f"{ACTOR}.use_kl_loss": "objective.kl_coef",
    f"{ACTOR}.kl_loss_coef": "objective.kl_coef",
    f"{ACTOR}.optim.lr": "learner.lr",
    f"{ACTOR}.optim.weight_decay": "learner.weight_decay",
    f"{ACTOR}.optim.betas": "learner.beta1",
    f"{ACTOR}.optim.clip_grad": "learner.max_grad_norm",
    f"{ACTOR}.optim.lr_warmup_steps": "learner.warmup_updates",
    f"{ACTOR}.optim.lr_scheduler_type": "learner.schedule",
    f"{ACTOR}.optim.total_training_steps": "learner.schedule_updates",
    "critic.optim.lr": "critic.lr",
    "critic.cliprange_value": "critic.clip_value",
    "critic.enable": "critic.kind",
    "algorithm.adv_estimator": "critic.kind",
    "algorithm.gamma": "advantage.gamma",
    "algorithm.lam": "advantage.gae_lambda",
    "algorithm.norm_adv_by_std_in_grpo": "advantage.scale",
    "algorithm.use_kl_in_reward": "advantage.kl_in_reward",
    "algorithm.kl_ctrl.kl_coef": "advantage.kl_in_reward",
    "reward.custom_reward_function.path": "reward.function",
    "reward.custom_reward_function.name": "reward.function",
    "custom_reward_function.path": "reward.function",
    "custom_reward_function.name": "reward.function",
    "trainer.total_training_steps": "budget.steps",
    "trainer.total_epochs": "budget.steps",
    "trainer.test_freq": "eval.every",
    "trainer.save_freq": "checkpoint.every",
    "trainer.max_actor_ckpt_to_keep": "checkpoint.keep",
    "trainer.default_local_dir": "output",
    "trainer.device": "device",
    "data.val_max_samples": "eval.prompts",
}

UNREAD: dict[str, Unread] = {
    "algorithm.filter_groups.enable": Unread(False, "use +rollwise.method=dapo, or another that handles dead groups"),
    "algorithm.filter_groups.metric": Unread("reward", "use +rollwise.method=dapo"),
    "algorithm.filter_groups.max_num_gen_batches": Unread(0, "set +rollwise.allocation.max_rounds"),
    "algorithm.filter_groups.max_inflight_gen_batches": Unread(1, "set +rollwise.allocation.max_rounds"),
    "algorithm.kl_penalty": Unread("kl", "the KL term of a reward is the log-ratio"),
    "algorithm.kl_ctrl.type": Unread("fixed", "the coefficient is constant"),
    "algorithm.kl_ctrl.horizon": Unread(10000, "the coefficient is constant"),
    "algorithm.kl_ctrl.target_kl": Unread(0.1, "the coefficient is constant"),
    "algorithm.use_pf_ppo": Unread(False, "see `rollwise methods`"),
    "algorithm.pf_ppo.reweight_method": Unread("pow", "see `rollwise methods`"),
    "algorithm.pf_ppo.weight_pow": Unread(2.0, "see `rollwise methods`"),
    **{
        f"algorithm.rollout_correction.{name}": Unread(value, "set +rollwise.objective.kind=decoupled and its weights")
        for name, value in {
            "rollout_is": None,
            "rollout_is_threshold": 2.0,
            "rollout_rs": None,
            "rollout_rs_threshold": None,
            "bypass_mode": False,
            "loss_type": "ppo_clip",
            "rollout_is_batch_normalize": False,
        }.items()
    },
    **{
        f"{ACTOR}.policy_loss.{name}": Unread(value, LOSS)
        for name, value in {
            "loss_mode": "vanilla",
            "clip_cov_ratio": 0.0002,
            "clip_cov_lb": 1.0,
            "clip_cov_ub": 5.0,
            "kl_cov_ratio": 0.0002,
            "ppo_kl_coef": 0.1,
            "dro_beta": None,
        }.items()
    },
    f"{ACTOR}.kl_loss_type": Unread("low_var_kl", "the estimator is k3 (low_var_kl)"),
    f"{ACTOR}.loss_scale_factor": Unread(None, "+rollwise.objective.reduction=constant divides by max_response_length"),
    f"{ACTOR}.tau_pos": Unread(1.0, LOSS),
    f"{ACTOR}.tau_neg": Unread(1.05, LOSS),
    f"{ACTOR}.freeze_vision_tower": Unread(False, "the whole model is trained"),
    f"{ACTOR}.calculate_entropy": Unread(False, "Rollwise asks for entropies where it needs them"),
    f"{ACTOR}.calculate_sum_pi_squared": Unread(False, LOSS),
    f"{ACTOR}.use_prefix_grouper": Unread(False, "rows are sent one by one"),
    f"{ACTOR}.shuffle": Unread(False, "mini-batches are drawn by the run's seed"),
    f"{ACTOR}.data_loader_seed": Unread(42, "mini-batches are drawn by the run's seed"),
    f"{ACTOR}.optim.lr_warmup_steps_ratio": Unread(0.0, f"give {ACTOR}.optim.lr_warmup_steps"),
    **{
        f"{CRITIC}.{name}": Unread(value, "the critic's loss and mini-batches are Rollwise's")
        for name, value in {
            "shuffle": False,
            "data_loader_seed": 42,
            "loss_scale_factor": None,
            "optim.lr_warmup_steps_ratio": 0.0,
            "optim.lr_warmup_steps": -1,
        }.items()
    },
    f"{ROLLOUT}.mode": Unread("async", "servers are asynchronous"),
    f"{ROLLOUT}.top_k": Unread(-1, "log-probs are of the whole distribution; use top_p"),
    f"{ROLLOUT}.do_sample": Unread(True, "training rollouts are sampled"),
    f"{ROLLOUT}.ignore_eos": Unread(False, "a completion ends with its end token"),
    f"{ROLLOUT}.over_sample_rate": Unread(0, "set +rollwise.allocation"),
    f"{ROLLOUT}.calculate_log_probs": Unread(True, "stored log-probs are checked against the trainer's"),
    f"{ROLLOUT}.logprobs_mode": Unread("processed_logprobs", "log-probs are of the distribution that was drawn from"),
    f"{ROLLOUT}.val_kwargs.top_k": Unread(-1, "set val_kwargs.top_p"),
    f"{ROLLOUT}.multi_turn.enable": Unread(False, "completions are single turns"),
    f"{ROLLOUT}.agent.agent_loop_manager_class": Unread(MANAGER, "Rollwise orders the completions itself"),
    f"{ROLLOUT}.agent.default_agent_loop": Unread("single_turn_agent", "Rollwise orders the completions itself"),
    f"{ROLLOUT}.agent.agent_loop_config_path": Unread(None, "Rollwise orders the completions itself"),
    f"{ROLLOUT}.agent.custom_async_server.path": Unread(None, "Rollwise orders the completions itself"),
    f"{ROLLOUT}.agent.custom_async_server.name": Unread(None, "Rollwise orders the completions itself"),
    f"{ROLLOUT}.enable_rollout_routing_replay": Unread(False, "routes of experts are not stored"),
    "data.tokenizer": Unread(None, "the tokenizer is the model's"),
    "data.train_max_samples": Unread(-1, "set +rollwise.task_args.limit"),
    "data.gen_batch_size": Unread(None, "the allocation decides; see +rollwise.allocation"),
    "data.val_batch_size": Unread(None, "evaluations are one batch"),
    "data.tool_config_path": Unread(None, "completions are single turns"),
    "data.function_tool_path": Unread(None, "completions are single turns"),
    "data.return_raw_input_ids": Unread(False, NO_LOADER),
    "data.return_raw_chat": Unread(True, NO_LOADER),
    "data.return_full_prompt": Unread(False, NO_LOADER),
    "data.shuffle": Unread(True, "prompts are drawn in random order; see +rollwise.curriculum"),
    "data.image_patch_size": Unread(14, "the model's processor knows it"),
    "data.truncation": Unread("error", "a prompt is never cut; set data.filter_overlong_prompts=True"),
    "data.video_key": Unread("videos", "there is no video"),
    "data.audio_key": Unread("audios", "there is no audio"),
    "data.custom_cls.path": Unread(None, NO_LOADER),
    "data.custom_cls.name": Unread(None, NO_LOADER),
    "data.return_multi_modal_inputs": Unread(True, NO_LOADER),
    "data.apply_chat_template_kwargs": Unread({}, "chat templates are applied without arguments"),
    "data.mm_processor_kwargs": Unread({}, "set +rollwise.images"),
    "data.trust_remote_code": Unread(False, "code of a model's folder is not run"),
    "distillation.enabled": Unread(False, "there is no distillation"),
    "reward.reward_model.enable": Unread(False, "there are no reward models; rewards are verifiers or functions"),
    "reward.reward_manager.source": Unread("register", "give reward.custom_reward_function, or +rollwise.reward"),
    "reward.reward_manager.name": Unread("naive", "give reward.custom_reward_function, or +rollwise.reward"),
    "reward.reward_manager.module.path": Unread(None, "give reward.custom_reward_function, or +rollwise.reward"),
    "reward.sandbox_fusion.url": Unread(None, "programs run in Rollwise's own jail; see docs/code.md"),
    "trainer.log_val_generations": Unread(0, "set +rollwise.log.rollouts=true"),
    "trainer.rollout_data_dir": Unread(None, "set +rollwise.log.rollouts=true"),
    "trainer.validation_data_dir": Unread(None, "set +rollwise.log.rollouts=true"),
    "trainer.esi_redundant_time": Unread(0, "set +rollwise.budget.seconds"),
    "trainer.resume_from_path": Unread(None, "a run goes on from the newest whole checkpoint of its folder"),
    "trainer.checkpoint_callback_class": Unread(None, "checkpoints are Rollwise's"),
    "trainer.val_only": Unread(False, "use `rollwise eval`"),
    "trainer.critic_warmup": Unread(0, "the critic learns from the first step on, with the policy"),
    "trainer.default_hdfs_dir": Unread(None, "checkpoints are in trainer.default_local_dir"),
    "trainer.del_local_ckpt_after_load": Unread(False, "checkpoints are kept by +rollwise.checkpoint.keep"),
    "trainer.max_critic_ckpt_to_keep": Unread(None, "set trainer.max_actor_ckpt_to_keep, which counts both"),
    "trainer.use_v1": Unread(True, "Rollwise's trainer is one of the V1 trainers"),
    "trainer.v1.sampler.custom_sampler.path": Unread(None, "set +rollwise.replay"),
    "trainer.v1.sampler.custom_sampler.name": Unread(None, "set +rollwise.replay"),
    "trainer.v1.sampler.sampler_kwargs": Unread({}, "set +rollwise.replay"),
    "trainer.v1.sampler.sync_refill_failed_groups": Unread(False, "set +rollwise.allocation"),
    "trainer.v1.sampler.max_off_policy_threshold": Unread(8, "set +rollwise.replay.max_age"),
    "trainer.v1.sampler.max_off_policy_strategy": Unread("drop", "set +rollwise.replay.max_age"),
    "skip.rollout.enable": Unread(False, "every rollout is generated"),
    "skip.rollout_tq.enable": Unread(False, "every rollout is generated"),
    "skip.async_rollout.enable": Unread(False, "every rollout is generated"),
}

# What verl's engines and Ray make of these holds with Rollwise's trainer too; a name with a dot behind is a section.
LEFT_ALONE = (
    "model_engine",
    "actor_rollout_ref.hybrid_engine",
    "actor_rollout_ref.nccl_timeout",
    "actor_rollout_ref.model.",
    "actor_rollout_ref.ref.",
    f"{ACTOR}.",
    f"{ROLLOUT}.",
    "critic.",
    "ray_kwargs.",
    "transfer_queue.",
    "global_profiler.",
    "trainer.nnodes",
    "trainer.n_gpus_per_node",
    "trainer.logger",
    "trainer.project_name",
    "trainer.experiment_name",
    "trainer.balance_batch",
    "trainer.ray_wait_register_center_timeout",
    "trainer.resume_mode",
    "trainer.val_before_train",
    "trainer.v1.",
    "data.use_shm",
    "data.dataloader_num_workers",
    "data.filter_overlong_prompts_workers",
    "data.validation_shuffle",
    "reward.",
    "skip.",
    "distillation.",
    "reward_model.num_workers",
)
# How many there are to be of something that is needed.
COUNTS = (
    "trainer.nnodes",
    "trainer.n_gpus_per_node",
    f"{ROLLOUT}.agent.num_workers",
    "reward.num_workers",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units",
    "ray_kwargs.ray_init.num_cpus",
    "ray_kwargs.ray_init.num_gpus",
)
WORKERS = ("trainer.nnodes", "trainer.n_gpus_per_node")
SIZES = "parallel_size"  # with what all names of the sizes of engines end

OLD = ("reward_model.", "sandbox_fusion.", "custom_reward_function.")  # verl's old names of what is under `reward` now


def check_counts(settings: Mapping[str, Any], said: str = "") -> None:
    """Raises UserError for a number of workers or a size of an engine that is none, and for fewer logical CPUs than
    Ray is asked for, which verl would wait for without an end; `said` stands before its name. Null is what verl makes
    of it, where it makes something."""
    for name, value in settings.items():
        bare = name.lstrip("+")
        if not (bare in COUNTS or bare.endswith(SIZES)) or (value is None and bare not in WORKERS):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UserError(f"{said}{bare} is {show(value)}; it must be a whole number from 1 on")
    have, workers = (settings.get(name) for name in ("ray_kwargs.ray_init.num_cpus", "trainer.n_gpus_per_node"))
    needed = logical_cpus(1 if workers is None else workers)
    if have is not None and have < needed:
        raise UserError(f"{said}ray_kwargs.ray_init.num_cpus is {have}; verl would wait for {needed}: give as many")


def logical_cpus(workers: int) -> int:
    """What verl's actors on a machine of so many workers ask Ray for: three for each worker, and one for its rollout
    server, the trainer's and the storage's."""
    return 4 * workers + 4
