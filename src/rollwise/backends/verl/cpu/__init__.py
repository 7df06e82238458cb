"""verl without accelerators: a platform for the CPU and rollout servers on the embedded sampler. For tests, and for
finding faults in a verl run on a laptop."""

from __future__ import annotations

import os
from typing import Any

from rollwise.backends.verl.classes import logical_cpus
from rollwise.config import RunConfig

ROLLOUT = "rollwise_cpu"  # name of the rollout engine


def environment() -> dict[str, str]:
    """What verl's processes need to be told; all of them inherit it."""
    return {
        "VERL_PLATFORM": "cpu",
        # The engines are registered for "cuda"; this is the name they are looked up under, not a device.
        "VERL_ENGINE_DEVICE": "cuda",
        "VERL_USE_EXTERNAL_MODULES": "rollwise.backends.verl.cpu.platform",
        "RAY_AUTH_MODE": "disabled",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        "TOKENIZERS_PARALLELISM": "false",
        "WANDB_MODE": "disabled",
    }


def overrides(config: RunConfig) -> dict[str, Any]:
    """verl's settings, by dotted name, without which it waits for accelerators, or for cores that are not there."""
    processes = int(config.verl.get("trainer.n_gpus_per_node", 1))
    return {
        "trainer.device": "cpu",
        "actor_rollout_ref.rollout.name": ROLLOUT,
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
        "actor_rollout_ref.rollout.agent.num_workers": 1,
        "actor_rollout_ref.model.use_remove_padding": False,
        "actor_rollout_ref.model.enable_gradient_checkpointing": False,
        "+actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
        "actor_rollout_ref.actor.use_torch_compile": False,
        "actor_rollout_ref.actor.fsdp_config.use_torch_compile": False,
        "critic.model.use_remove_padding": False,
        "critic.model.enable_gradient_checkpointing": False,
        "+critic.model.override_config.attn_implementation": "sdpa",
        "reward.num_workers": 1,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        # Logical: Ray counts what actors ask for, and a run of verl asks for more than a laptop has.
        "ray_kwargs.ray_init.num_cpus": max(16, logical_cpus(processes)),
        "+ray_kwargs.ray_init.num_gpus": processes,
        "+ray_kwargs.ray_init.include_dashboard": False,
    }
