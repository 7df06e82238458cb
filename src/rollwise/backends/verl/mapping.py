"""Our settings as verl's, and verl's as ours. Imports nothing of verl.

A value of verl comes from, later over earlier: the constants this backend stands on (`FIXED`), what it likes better
than verl does (`LIKED`), our settings (`table.ROWS`), the needs of a CPU, and the run's own `verl` settings, which may
not touch what the first and the third decide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rollwise.backends.verl import cpu
from rollwise.backends.verl.classes import MANAGER, OLD, UNDERSTOOD, UNREAD, check_counts
from rollwise.backends.verl.table import ACTOR, ENGINES, REF, ROLLOUT, ROWS, engine, made_from
from rollwise.backends.verl.theirs import from_verl
from rollwise.config import RunConfig, leaves, title, to_tree
from rollwise.errors import UserError, show

__all__ = ["FIXED", "LIKED", "from_verl", "to_verl"]

FIXED: dict[str, Any] = {
    "trainer.use_v1": True,
    "trainer.v1.trainer_mode": "rollwise",
    "+actor_rollout_ref.rollout.agent.agent_loop_manager_class": MANAGER,
    f"{ROLLOUT}.mode": "async",
    f"{ROLLOUT}.do_sample": True,
    f"{ROLLOUT}.top_k": -1,
    f"{ROLLOUT}.calculate_log_probs": True,
    f"{ROLLOUT}.logprobs_mode": "processed_logprobs",
    f"{ROLLOUT}.multi_turn.enable": False,
    f"{ROLLOUT}.log_prob_use_dynamic_bsz": True,
    f"{REF}.log_prob_use_dynamic_bsz": True,
    f"{ACTOR}.use_dynamic_bsz": True,
    f"{ACTOR}.ppo_epochs": 1,
    f"{ACTOR}.shuffle": False,
    "data.train_files": [],
    "data.val_files": [],
    "reward.num_workers": 1,
    "reward.custom_reward_function.path": None,
    "reward.reward_model.enable": False,
    "algorithm.filter_groups.enable": False,
    "distillation.enabled": False,
    "trainer.val_before_train": False,
    "trainer.test_freq": -1,
    "trainer.save_freq": -1,
    "trainer.resume_mode": "disable",
}
LIKED: dict[str, Any] = {
    "trainer.nnodes": 1,
    "trainer.n_gpus_per_node": 1,
    "trainer.logger": ["console"],
    "trainer.project_name": "rollwise",
    f"{ROLLOUT}.name": "vllm",
    f"{ROLLOUT}.tensor_model_parallel_size": 1,
}
STRATEGY = {"dp": {f"{ACTOR}.strategy": "fsdp2", "critic.strategy": "fsdp2"}, "megatron": {}}
NAME = re.compile(r"\+{0,2}[A-Za-z_][\w-]*(?:[./@][\w-]+)*")


def to_verl(config: RunConfig, output: Path) -> dict[str, Any]:
    """verl's settings for a run in the folder `output`, by dotted name; one that is not in verl's own tree has a plus
    before it. Raises UserError for a setting that verl cannot honour."""
    check(config)
    if "${" in str(output):
        raise UserError(f"output: {output} holds '${{', which verl's settings take for a reference; choose another")
    critic = config.critic.kind != "none"
    out: dict[str, Any] = dict(FIXED)
    out |= {**LIKED, "trainer.experiment_name": f"{title(config)}-{config.method}-seed{config.seed}"}
    out |= {k: v for k, v in STRATEGY[engine(config)].items() if critic or not k.startswith("critic.")}
    for row in ROWS:
        out |= row.values(config)
    out["trainer.default_local_dir"] = str(output / "checkpoints")
    out["+rollwise.config"] = str(output / "config.yaml")
    if config.device == "cpu":
        _lay(out, cpu.overrides(config))
    _lay(out, leaves(config.verl))
    return out


def _lay(out: dict[str, Any], over: Mapping[str, Any]) -> None:
    """`over` laid on `out`: a key under either spelling, with a plus or without, is one."""
    spelled = {name.lstrip("+"): name for name in out}
    for name, value in over.items():
        out.pop(spelled.get(name.lstrip("+"), name), None)
        out[name] = value


def check(config: RunConfig) -> None:
    """Raises UserError for the first setting that cannot be carried."""
    values = leaves(to_tree(config))
    if engine(config) not in ENGINES:
        raise UserError(f"verl.model_engine is {show(engine(config))}; one of {', '.join(ENGINES)}")
    if engine(config) == "megatron" and config.device == "cpu":
        raise UserError("verl.model_engine is megatron, which needs accelerators; set device=cuda")
    for row in ROWS:
        if why := row.refused(config):
            name = row.ours[0]
            shown = "" if isinstance(values[name], list | dict) else f" is {show(values[name])}"
            raise UserError(f"{name}{shown} with backend verl; {why}")
    ours, fixed = made_from(), {name.lstrip("+") for name in FIXED}
    for name in leaves(config.verl):
        bare = name.lstrip("+")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise UserError(f"verl.{show(name)} is no setting of verl; give its dotted name, as trainer.nnodes")
        if bare.split(".")[0] == "hydra":
            raise UserError(f"verl.{bare} is of Hydra, which the launcher runs; leave it out")
        if bare in ours:
            raise UserError(f"verl.{bare} is made from {ours[bare]}; set that")
        if bare in fixed or bare.split(".")[0] == "rollwise":
            raise UserError(f"verl.{bare} is not free: Rollwise's trainer runs on the value it sets; leave it out")
        if bare in UNDERSTOOD:
            raise UserError(f"verl.{bare} is {UNDERSTOOD[bare]} here; set that")
        if bare in UNREAD or bare.startswith(OLD):
            why = UNREAD[bare].instead if bare in UNREAD else "see reward"
            raise UserError(f"verl.{bare} is not read by Rollwise's trainer: {why.replace('+rollwise.', '')}")
    check_counts(leaves(config.verl), "verl.")
