"""Rollout servers on the embedded sampler, for verl on a CPU: tokens in, tokens and log-probs out.

A request's tokens depend on its own seed and the weights, as they do in the local engine.
"""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Iterable
from typing import Any

import numpy as np
import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from rollwise.policy import load_policy
from rollwise.records import IDS, Image, Sampling, StopReason
from rollwise.sampling.torch_sampler import TorchSampler

GATHER = 0.02  # seconds to wait for more requests before a batch is drawn


class CpuServer:
    """Draws what it is asked for in batches. An actor."""

    def __init__(self, config: Any, model_path: str) -> None:
        torch.set_num_threads(1)
        self.policy = load_policy(model_path)
        self.limit = int(config.response_length)
        self.sampler = TorchSampler(self.policy, max_prompt_length=int(config.prompt_length), max_rows=512)
        self.waiting: list[tuple[np.ndarray, dict[str, Any], tuple[Image, ...], asyncio.Future[Any]]] = []
        self.drawing: asyncio.Task[None] | None = None
        self.global_steps: int | None = None

    async def ready(self) -> bool:
        return True

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: list[Any] | None = None,
        video_data: list[Any] | None = None,
        **_: Any,
    ) -> TokenOutput:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        images = tuple(Image(_png(i)) for i in image_data or ())
        self.waiting.append((np.asarray(prompt_ids, dtype=IDS), dict(sampling_params), images, future))
        if self.drawing is None or self.drawing.done():
            self.drawing = asyncio.create_task(self._draw_all())
        return await future

    async def _draw_all(self) -> None:
        while self.waiting:
            await asyncio.sleep(GATHER)
            batch, self.waiting = self.waiting, []
            kinds: dict[tuple[float, float, int], list[Any]] = {}
            for entry in batch:
                p = entry[1]
                kind = (float(p["temperature"]), float(p["top_p"]), int(p.get("max_tokens") or self.limit))
                kinds.setdefault(kind, []).append(entry)
            for (temperature, top_p, limit), entries in kinds.items():
                sampling = Sampling(temperature=temperature, top_p=top_p, max_completion_length=limit)
                try:
                    drawn = await asyncio.to_thread(self._draw, entries, sampling)
                except Exception as error:
                    for *_, future in entries:
                        future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
                    continue
                for (*_, future), output in zip(entries, drawn, strict=True):
                    future.set_result(output)

    def _draw(self, entries: list[Any], sampling: Sampling) -> list[TokenOutput]:
        drawn = self.sampler.draw(
            [prompt for prompt, *_ in entries],
            [int(params.get("seed") or 0) for _, params, *_ in entries],
            sampling,
            [images for _, _, images, _ in entries],
        )
        return [
            TokenOutput(
                token_ids=ids.tolist(),
                log_probs=logprobs.tolist(),
                stop_reason="completed" if stop is StopReason.eos else "length",
                num_preempted=0,
                extra_fields={"global_steps": self.global_steps},
            )
            for ids, logprobs, stop in drawn
        ]

    async def update_weights(self, weights: dict[str, torch.Tensor], global_steps: int | None) -> None:
        own = self.policy.model.state_dict()
        strange = sorted(set(weights) - set(own))
        if strange:
            raise RuntimeError(f"weights the server's model has not: {strange[:3]}")
        self.policy.model.load_state_dict(weights, strict=False)  # tied weights come under one of their names
        self.global_steps = global_steps

    # What a server that holds accelerator memory does here; this one holds none.
    async def wake_up(self) -> None: ...

    async def sleep(self) -> None: ...

    async def abort_all_requests(self, reject_request: bool = False) -> None: ...

    async def resume_generation(self) -> None: ...

    async def clear_kv_cache(self) -> None: ...

    async def release_kv_cache(self) -> None: ...

    async def resume_kv_cache(self) -> None: ...

    async def start_profile(self, **_: Any) -> None: ...

    async def stop_profile(self) -> None: ...


class CpuReplica(RolloutReplica):  # type: ignore[misc]
    """One server for each trainer process."""

    async def launch_servers(self) -> None:
        server = (
            ray.remote(CpuServer)
            .options(num_cpus=1, name=_server(self.replica_rank), max_concurrency=10_000)
            .remote(self.config, self.model_config.path)
        )
        await server.ready.remote()
        self.servers, self._server_handle, self._server_address = [server], server, f"cpu-{self.replica_rank}:0"


class CpuAdapter(BaseRollout):  # type: ignore[misc]
    """The trainer process's end: hands new weights to its server."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        self.replica = int(os.environ["RANK"]) if replica_rank == -1 else replica_rank

    async def resume(self, tags: list[str]) -> None: ...

    async def release(self) -> None: ...

    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]] | AsyncIterator[tuple[str, torch.Tensor]],
        global_steps: int | None = None,
        **_: Any,
    ) -> None:
        found: dict[str, torch.Tensor] = {}
        if isinstance(weights, AsyncIterator):
            async for name, weight in weights:
                found[name] = weight.detach().float().cpu().clone()
        else:
            for name, weight in weights:
                found[name] = weight.detach().float().cpu().clone()
        await ray.get_actor(_server(self.replica)).update_weights.remote(found, global_steps)


def _server(replica: int) -> str:
    return f"rollwise_cpu_server_{replica}"


def _png(image: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, format="PNG")
    return out.getvalue()
