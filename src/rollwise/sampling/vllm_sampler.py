"""vLLM as the sampler: the contract of the torch sampler, on vLLM's kernels.

* Prompts go over as token ids; completions come back as token ids. Texts are the policy's own decoding.
* The stored log-prob of a token is vLLM's, under the very distribution it was drawn from: after temperature and nucleus
  cut, renormalised. At temperature 0 that distribution is a point, so the log-prob is 0.
* Before anything is drawn, the engine takes over the policy's weights if these have changed since it last did.
* Each member of a group has its own derived seed. What else is in the batch does not enter the draw, but it does enter
  the rounding of the logits under it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rollwise import seeds
from rollwise.config.schema import VllmConfig
from rollwise.policy import Policy
from rollwise.records import Request, Rollout, Sampling, StopReason
from rollwise.sampling.vllm_engine import VllmEngine

LARGEST_SEED = 2**63  # vLLM keeps seeds in signed 64-bit numbers


class VllmSampler:
    """Draws completions from a `Policy` by vLLM. See the module's docstring for what is guaranteed."""

    def __init__(
        self,
        policy: Policy,
        settings: VllmConfig,
        *,
        max_prompt_length: int,
        max_completion_length: int,
        max_rows: int,
        version: Callable[[], int],
    ) -> None:
        """`version` changes whenever the policy's weights do. Raises UserError where vLLM cannot be used."""
        self.policy = policy
        self.max_prompt_length = max_prompt_length
        self.version = version
        self.engine = VllmEngine(
            policy, settings, max_tokens=max_prompt_length + max_completion_length, max_rows=max_rows
        )
        self._at: int | None = None  # version of the engine's weights

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, *, run_seed: int, step: int, purpose: str = "sample"
    ) -> list[list[Rollout]]:
        """The rollouts of each request, in order. Raises UserError for a prompt longer than the limit, before any
        token is drawn. The seeds depend on (run_seed, purpose, step, group uid, member) only.
        """
        prompts = [self.policy.encode(r.prompt, self.max_prompt_length) for r in requests]
        if not requests:
            return []
        if self._at != (version := self.version()):
            self.engine.follow(prompts[0])
            self._at = version
        each = [(r, p, r.first_member + m) for r, p in zip(requests, prompts, strict=True) for m in range(r.count)]
        params = [
            self.engine.params(
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                max_tokens=sampling.max_completion_length,
                seed=seeds.derive(run_seed, purpose, step, r.prompt.group_uid, member) % LARGEST_SEED,
            )
            for r, _, member in each
        ]
        drawn = self.engine.draw([p for _, p, _ in each], params)
        texts = self.policy.decode(ids for ids, _, _ in drawn)
        rollouts = iter(
            [
                Rollout(
                    group_uid=request.prompt.group_uid,
                    member=member,
                    prompt_ids=prompt_ids,
                    completion_ids=ids,
                    logprobs=np.zeros_like(logprobs) if sampling.temperature == 0 else logprobs,
                    sampling=sampling,
                    stop=StopReason.eos if ended else StopReason.length,
                    text=text,
                    birth_step=step,
                    images=request.prompt.images,
                )
                for (request, prompt_ids, member), (ids, logprobs, ended), text in zip(each, drawn, texts, strict=True)
            ]
        )
        return [[next(rollouts) for _ in range(r.count)] for r in requests]
