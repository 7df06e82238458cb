"""A CPU platform for verl, registered when this module is imported (VERL_USE_EXTERNAL_MODULES).

verl asks its device module and its process groups for things torch has for accelerators only; those are filled in here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from verl.plugin.platform import PlatformBase, PlatformRegistry
from verl.utils import model as _model
from verl.workers.rollout.base import _ROLLOUT_REGISTRY
from verl.workers.rollout.replica import RolloutReplicaRegistry

from rollwise.backends.verl.cpu import ROLLOUT

MEMORY = 8 << 30, 24 << 30  # bytes free and in all, for code that only ever compares them


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _zero(*_: Any, **__: Any) -> int:
    return 0


_ACCELERATOR: dict[str, Callable[..., Any]] = {
    "empty_cache": _nothing,
    "ipc_collect": _nothing,
    "set_per_process_memory_fraction": _nothing,
    "reset_peak_memory_stats": _nothing,
    "memory_allocated": _zero,
    "memory_reserved": _zero,
    "max_memory_allocated": _zero,
    "max_memory_reserved": _zero,
    "get_rng_state": torch.get_rng_state,
    "set_rng_state": torch.set_rng_state,
    "manual_seed": torch.manual_seed,
    "manual_seed_all": torch.manual_seed,
    "get_device_name": lambda *_: "CPU",
    "mem_get_info": lambda *_: MEMORY,
}
for _name, _function in _ACCELERATOR.items():
    if not hasattr(torch.cpu, _name):
        setattr(torch.cpu, _name, _function)

_init_process_group = dist.init_process_group


def _one_backend(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
    """verl asks for "cpu:gloo,<device>:<backend>"; with the CPU as the device torch refuses the pair."""
    return _init_process_group("gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)


dist.init_process_group = _one_backend


def _value_model(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
    """verl asks for a critic's model with FlashAttention, whatever the settings say."""
    from transformers import AutoModelForTokenClassification

    return AutoModelForTokenClassification.from_pretrained(
        local_path,
        dtype=torch_dtype,
        config=model_config,
        attn_implementation="sdpa",
        trust_remote_code=trust_remote_code,
    )


_model.load_valuehead_model = _value_model


def _not_pinned(self: torch.Tensor, device: Any = None) -> torch.Tensor:
    """verl pins the memory of a reference model, which is offloaded always; without an accelerator there is none."""
    return self


torch.Tensor.pin_memory = _not_pinned  # type: ignore[method-assign, assignment]


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):  # type: ignore[misc]
    """The CPU as verl's device."""

    device_name = property(lambda self: "cpu")
    vendor_name = property(lambda self: "generic")
    device_module = property(lambda self: torch.cpu)

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return os.environ.get("VERL_PLATFORM") == "cpu"

    def current_device(self) -> str:
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        return "GPU"  # what verl counts before it starts; Ray is given as many as there are processes

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


def _replica() -> type:
    from rollwise.backends.verl.cpu.rollout import CpuReplica

    return CpuReplica


RolloutReplicaRegistry.register(ROLLOUT, _replica)
_ROLLOUT_REGISTRY[(ROLLOUT, "async")] = "rollwise.backends.verl.cpu.rollout.CpuAdapter"
