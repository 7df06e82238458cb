"""One verl training worker in this process: the engine, its FSDP wrapping and its optimizer, without Ray."""

from __future__ import annotations

import os
import socket
from typing import Any


def alone() -> None:
    """The environment of a process group of one."""
    from rollwise.backends.verl import cpu

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    one = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "RAY_LOCAL_WORLD_SIZE": "1"}
    os.environ.update({**one, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **cpu.environment()})


def worker(path: str, *, lr: float, tokens: int, kind: str = "language_model") -> Any:
    """A worker with the model at `path`, in float32, passes of at most `tokens` tokens."""
    from verl.trainer.config import CheckpointConfig
    from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig, TrainingWorkerConfig
    from verl.workers.engine_workers import TrainingWorker

    full = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    made = TrainingWorker(
        TrainingWorkerConfig(
            model_type=kind,
            model_config=HFModelConfig(
                path=path,
                use_remove_padding=False,
                enable_gradient_checkpointing=False,
                override_config={"attn_implementation": "sdpa"},
            ),
            engine_config=FSDPEngineConfig(
                strategy="fsdp2",
                use_dynamic_bsz=True,
                max_token_len_per_gpu=tokens,
                infer_max_token_len_per_gpu=tokens,
                use_torch_compile=False,
                mixed_precision=full,
            ),
            optimizer_config=FSDPOptimizerConfig(
                lr=lr, betas=(0.9, 0.999), weight_decay=0.0, clip_grad=1.0, total_training_steps=100
            ),
            checkpoint_config=CheckpointConfig(),
        )
    )
    made.reset()
    return made


class Group:
    """The worker as a group of one, with the methods an actor group has."""

    def __init__(self, one: Any) -> None:
        self.one = one
        self._dispatch_info = {"actor": [0], "train": [0]}
        self.compute_log_prob = self.infer_batch = self._inferred
        self.update_actor = self.train_mini_batch = self._trained
        self.set_loss_fn = one.set_loss_fn

    def _inferred(self, data: Any) -> Any:
        return self.one.infer_batch(data)

    def _trained(self, data: Any) -> Any:
        return self.one.train_mini_batch(data)

    def weights(self) -> dict[str, Any]:
        """Its parameters by name, whole."""
        named, _ = self.one.engine.get_per_tensor_param()
        return {name: value.detach().clone() for name, value in named}
