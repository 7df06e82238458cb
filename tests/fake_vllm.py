"""A stand-in for vLLM's public interface as far as it is used: an engine with weights, and a prefix cache, of its own.

It is strict where vLLM is: unknown arguments and parameter names raise, weights that nobody sends stay random, and a
prompt that is in the prefix cache of other weights is an error here, where vLLM would silently answer from it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from rollwise.sampling.torch_sampler import nucleus


@dataclass(kw_only=True)
class SamplingParams:
    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    stop_token_ids: list[int] = field(default_factory=list)
    ignore_eos: bool = False
    max_tokens: int = 16
    logprobs: int | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True

    def __post_init__(self) -> None:
        assert self.temperature >= 0 and 0 < self.top_p <= 1 and self.max_tokens >= 1
        assert self.seed is None or -(2**63) <= self.seed < 2**63


class Engine:
    """One `vllm.LLM`. `calls` are those that were made of it, in order."""

    bend = 0.0  # by how much its logits are off, as a share
    own_head = True  # whether it heeds being told that the embeddings are not tied
    loses = ""  # a part of parameter names that its reloads pass over
    unknown = ""  # a part of parameter names it does not know
    fails = ""  # what is raised by every draw, where it cannot
    ends = ""  # the finish reason of every completion, where it is neither

    def __init__(
        self,
        model: str,
        *,
        dtype: str = "auto",
        gpu_memory_utilization: float = 0.92,
        enforce_eager: bool = False,
        max_num_seqs: int = 256,
        max_model_len: int = 0,
        logprobs_mode: str = "raw_logprobs",
        load_format: str = "auto",
        hf_overrides: dict[str, Any] | None = None,
        skip_tokenizer_init: bool = False,
        generation_config: str = "auto",
        kv_cache_memory_bytes: int | None = None,
        enable_chunked_prefill: bool = True,
        max_num_batched_tokens: int = 8192,
    ) -> None:
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.from_pretrained(model)
        if max_model_len > config.max_position_embeddings:
            raise ValueError(
                f"max_model_len ({max_model_len}) is greater than the derived {config.max_position_embeddings}"
            )
        assert load_format == "dummy", "only dummy weights are known here"
        self.given = {k: v for k, v in locals().items() if k not in ("self", "config", "__class__")}
        if self.own_head:
            config.update(hf_overrides or {})
        with torch.random.fork_rng():
            self.model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        self.calls: list[Any] = []
        self.cached: dict[tuple[int, ...], int] = {}
        self.version = 0
        engines.append(self)

    def apply_model(self, function: Callable[[Any], Any]) -> list[Any]:
        return [function(self.model)]

    def collective_rpc(
        self, method: str, timeout: float | None = None, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> list[Any]:
        assert method == "reload_weights" and timeout is None and not args
        self.calls.append("reload")
        own = self.model.state_dict() if self.own_head else dict(self.model.named_parameters())
        with torch.no_grad():
            for name, weight in (kwargs or {})["weights_iterator"]:
                if name not in own or (self.unknown and self.unknown in name):
                    raise ValueError(f"There is no module or parameter named {name!r}")
                if not self.loses or self.loses not in name:
                    own[name].copy_(weight)
        self.version += 1
        return [None]

    def reset_prefix_cache(self) -> bool:
        self.calls.append("reset")
        self.cached.clear()
        return True

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[dict[str, Any]], sampling_params: Sequence[SamplingParams], *, use_tqdm: bool = True
    ) -> list[Any]:
        assert len(prompts) == len(sampling_params) and not use_tqdm
        self.calls.append(list(zip([p["prompt_token_ids"] for p in prompts], sampling_params, strict=True)))
        if self.fails:
            raise RuntimeError(self.fails)
        asked = [tuple(p["prompt_token_ids"]) for p in prompts]
        found: dict[int, Any] = {}
        for prompt in dict.fromkeys(asked):
            rows = [i for i, other in enumerate(asked) if other == prompt]
            found |= zip(rows, self._of_one_prompt(prompt, [sampling_params[i] for i in rows]), strict=True)
        return [found[i] for i in range(len(asked))]

    def _of_one_prompt(self, prompt: tuple[int, ...], params: list[SamplingParams]) -> list[Any]:
        assert self.cached.setdefault(prompt, self.version) == self.version, "answered from a stale cache"
        assert len(prompt) + max(p.max_tokens for p in params) <= self.given["max_model_len"]
        streams = [torch.Generator().manual_seed(p.seed or 0) for p in params]
        outs = [SimpleNamespace(token_ids=[], logprobs=[], finish_reason=None) for _ in params]
        ids = torch.tensor([prompt] * len(params))
        while any(out.finish_reason is None for out in outs):
            logits = self.model(input_ids=ids).logits[:, -1] * (1 + self.bend)
            drawn = [self._token(row, p, s) for row, p, s in zip(logits, params, streams, strict=True)]
            ids = torch.cat([ids, torch.tensor([[token] for token, _ in drawn])], dim=1)
            for (token, logp), p, out in zip(drawn, params, outs, strict=True):
                if out.finish_reason is None:
                    out.token_ids.append(token)
                    out.logprobs.append({token: SimpleNamespace(logprob=logp, rank=1)})
                    ended = token in p.stop_token_ids
                    if ended or len(out.token_ids) == p.max_tokens:
                        out.finish_reason = self.ends or ("stop" if ended else "length")
        for p, out in zip(params, outs, strict=True):
            out.logprobs = None if p.logprobs is None else out.logprobs
        return [SimpleNamespace(prompt_token_ids=list(prompt), outputs=[out]) for out in outs]

    @staticmethod
    def _token(logits: torch.Tensor, params: SamplingParams, stream: torch.Generator) -> tuple[int, float]:
        logp = (logits / (params.temperature or 1.0)).log_softmax(-1)
        logp = nucleus(logp[None], params.top_p)[0] if params.top_p < 1 else logp
        token = int(logp.argmax() if params.temperature == 0 else torch.multinomial(logp.exp(), 1, generator=stream))
        return token, float(logp[token])


engines: list[Engine] = []  # every one that was started


def install(monkeypatch: pytest.MonkeyPatch, **habits: Any) -> None:
    """Put it where `import vllm` finds it, its engines with these class attributes."""
    engines.clear()
    module = ModuleType("vllm")
    for name, value in {"LLM": type("LLM", (Engine,), habits), "SamplingParams": SamplingParams}.items():
        setattr(module, name, value)
    module.TokensPrompt = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", module)
