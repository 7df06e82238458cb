"""Completions from verl's rollout servers, in the place of its agent-loop manager.

An order is a prompt's token ids and how many members of its group are wanted. Each member has a seed of its own, so
that where the server honours seeds a member's tokens do not depend on what else is asked for.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
import ray

from rollwise import seeds
from rollwise.errors import UserError
from rollwise.policy import Policy
from rollwise.records import IDS, LOGP, Request, Rollout, Sampling, StopReason

ABORTED = {"aborted", "abort"}  # what servers call a request they gave up
SEEDED = {"vllm", "rollwise_cpu"}  # servers that take a seed with a request


@dataclass(frozen=True, slots=True)
class Order:
    """One completion to be drawn."""

    prompt_ids: list[int]
    seed: int
    images: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """One completion as the server gave it."""

    ids: list[int]
    logprobs: list[float]
    stopped: str | None  # vLLM: completed (also at its length) or aborted; SGLang: stop, length or abort


class Orders:
    """Hands orders to the servers and waits. An actor, so that many requests do not crowd the trainer's process."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def complete(self, orders: list[Order], params: dict[str, Any], seeded: bool) -> list[Drawn]:
        async def one(order: Order) -> Drawn:
            own = {**params, "seed": order.seed} if seeded else dict(params)
            images = [_opened(i) for i in order.images] or None
            out = await self.client.generate(
                uuid4().hex, prompt_ids=order.prompt_ids, sampling_params=own, image_data=images
            )
            return Drawn(list(out.token_ids), list(out.log_probs or ()), out.stop_reason)

        return list(await asyncio.gather(*(one(o) for o in orders)))


class RolloutManager:
    """Given to verl as `actor_rollout_ref.rollout.agent.agent_loop_manager_class`."""

    def __init__(
        self, config: Any, llm_client: Any, teacher_client: Any = None, reward_loop_worker_handles: Any = None
    ) -> None:
        self.config = config.actor_rollout_ref.rollout
        actor = ray.remote(Orders)
        self.workers = [
            actor.options(num_cpus=0, max_concurrency=4, scheduling_strategy="SPREAD").remote(llm_client)
            for _ in range(int(self.config.agent.num_workers))
        ]

    @classmethod
    def create(cls, *args: Any, **kwargs: Any) -> RolloutManager:
        return cls(*args, **kwargs)

    def complete(self, orders: Sequence[Order], sampling: Sampling) -> list[Drawn]:
        """Completions in the order of `orders`."""
        params = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": -1,
            "repetition_penalty": 1.0,
            "max_tokens": sampling.max_completion_length,
            "logprobs": True,
        }
        if not orders:
            return []
        seeded = self.config.name in SEEDED
        share = -(-len(orders) // len(self.workers))
        parts = [list(orders[i : i + share]) for i in range(0, len(orders), share)]
        answers = [w.complete.remote(part, params, seeded) for w, part in zip(self.workers, parts, strict=False)]
        return [drawn for part in ray.get(answers) for drawn in part]


class VerlSampler:
    """The sampler of a verl run, with the contract of the embedded one. `reader` encodes and decodes; it has no
    weights."""

    def __init__(self, reader: Policy, manager: RolloutManager, *, max_prompt_length: int) -> None:
        self.reader, self.manager, self.max_prompt_length = reader, manager, max_prompt_length

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, *, run_seed: int, step: int, purpose: str = "sample"
    ) -> list[list[Rollout]]:
        """The rollouts of each request, in order. Raises UserError for a prompt longer than the limit, before any
        token is drawn, and where a server gives no log-probs."""
        prompts = [self.reader.encode(r.prompt, self.max_prompt_length) for r in requests]
        members = [(i, m) for i, r in enumerate(requests) for m in range(r.first_member, r.first_member + r.count)]
        orders = [
            Order(
                prompt_ids=prompts[i].tolist(),
                seed=seeds.derive(run_seed, purpose, step, requests[i].prompt.group_uid, m) >> self._spare_bits,
                images=tuple(image.data for image in requests[i].prompt.images),
            )
            for i, m in members
        ]
        drawn = self.manager.complete(orders, sampling)
        texts = self.reader.decode(np.asarray(d.ids, dtype=IDS) for d in drawn)
        out: list[list[Rollout]] = [[] for _ in requests]
        for (i, m), d, text in zip(members, drawn, texts, strict=True):
            request = requests[i]
            out[i].append(
                Rollout(
                    group_uid=request.prompt.group_uid,
                    member=m,
                    prompt_ids=prompts[i],
                    completion_ids=np.asarray(d.ids, dtype=IDS),
                    logprobs=_logprobs(d, sampling),
                    sampling=sampling,
                    stop=self._stop(d, sampling.max_completion_length),
                    text=text,
                    birth_step=step,
                    images=request.prompt.images,
                )
            )
        return out

    @property
    def _spare_bits(self) -> int:
        """vLLM's seeds are signed."""
        return 1 if self.manager.config.name == "vllm" else 0

    def _stop(self, drawn: Drawn, limit: int) -> StopReason:
        """By the tokens, and by the server's word where they do not tell."""
        if drawn.ids and drawn.ids[-1] in self.reader.eos_ids:
            return StopReason.eos
        if len(drawn.ids) >= limit:
            return StopReason.length
        if drawn.stopped in ABORTED:
            return StopReason.aborted
        return StopReason.eos if drawn.stopped == "stop" else StopReason.length


def _logprobs(drawn: Drawn, sampling: Sampling) -> np.ndarray:
    if sampling.temperature == 0:
        return np.zeros(len(drawn.ids), dtype=LOGP)  # the distribution drawn from is a point
    if len(drawn.logprobs) != len(drawn.ids):
        raise UserError(
            f"rollout server: {len(drawn.logprobs)} log-probs for {len(drawn.ids)} tokens; set "
            "actor_rollout_ref.rollout.calculate_log_probs=True"
        )
    return np.asarray(drawn.logprobs, dtype=LOGP)


def _opened(data: bytes) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(data)).convert("RGB")
