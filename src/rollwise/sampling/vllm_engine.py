"""A vLLM engine inside this process, kept on the weights of a `Policy`. vLLM is imported here and nowhere else.

Everything goes through vLLM's public interface: `LLM`, `SamplingParams`, `TokensPrompt`, `LLM.apply_model`, and for the
weights `LLM.collective_rpc("reload_weights", weights_iterator=...)` followed by `LLM.reset_prefix_cache` (vLLM's pages
on layerwise reloading).

* The engine begins with dummy weights. What it samples from has come over by the way that every later update takes, and
  the first transfer is held against the trainer's own log-probs: an engine that a transfer does not reach is refused.
* A model whose output embedding is its input embedding is built with two: a reload does not renew a tied output
  embedding that vLLM has repacked.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers.core_model_loading import revert_weight_conversion

from rollwise.config.schema import VllmConfig
from rollwise.errors import UserError, show
from rollwise.policy import Policy
from rollwise.records import IDS, LOGP

ENVIRONMENT = {  # read by vLLM when it is imported; what the user has set stays
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the trainer's threads live in this process too
}
OWN_ARGS = {  # arguments of the engine that follow from other settings
    "model": "model",
    "dtype": "sampling.vllm.dtype",
    "gpu_memory_utilization": "sampling.vllm.gpu_memory_utilization",
    "enforce_eager": "sampling.vllm.enforce_eager",
    "max_num_seqs": "sampling.max_rows",
    "max_model_len": "sampling.max_prompt_length and sampling.max_completion_length",
    **dict.fromkeys(("logprobs_mode", "load_format", "hf_overrides", "skip_tokenizer_init", "generation_config"), ""),
}
MISSING = "sampling.engine is vllm, which is not installed; pip install 'rollwise[vllm]', or see docs/engines.md"
LEAST_BATCH = 4096  # tokens vLLM reads in one pass on CPU; more where a single prompt is longer
PROBE_TOKENS = 16
FURTHEST = 0.2  # nats between trainer and engine, mean over the probe's tokens, under which both have the same weights


class VllmEngine:
    """Token ids in, token ids and log-probs out."""

    def __init__(self, policy: Policy, settings: VllmConfig, *, max_tokens: int, max_rows: int) -> None:
        """`max_tokens` of prompt and completion together. Raises UserError where vLLM is missing or does not start."""
        check(policy, settings)
        self.policy = policy
        self.vllm = _vllm()
        head = policy.model.get_output_embeddings().weight
        self._tied = head is policy.model.get_input_embeddings().weight
        self.llm = self._start(settings, max_tokens, max_rows)
        if self._tied and not any(map(any, self.llm.apply_model(_has_head))):
            self._left_out = {n for n, p in policy.model.named_parameters(remove_duplicate=False) if p is head}
            self._left_out -= {n for n, _ in policy.model.named_parameters()}
        else:
            self._left_out = set()
        self._max_tokens = max_tokens
        self._probed = False

    def _start(self, settings: VllmConfig, max_tokens: int, max_rows: int) -> Any:
        own = {
            "model": self.policy.model.name_or_path,
            "dtype": settings.dtype or ("bfloat16" if self.policy.bfloat16 else "float32"),
            "gpu_memory_utilization": settings.gpu_memory_utilization,
            "enforce_eager": settings.enforce_eager,
            "max_num_seqs": max_rows,
            "max_model_len": max_tokens,
            "logprobs_mode": "processed_logprobs",
            "load_format": "dummy",
            "hf_overrides": {"tie_word_embeddings": False} if self._tied else {},
            "skip_tokenizer_init": True,
            "generation_config": "vllm",
        }
        if self.policy.device.type == "cpu":  # where vLLM cannot read a prompt in parts if its request has a seed
            own |= {"enable_chunked_prefill": False, "max_num_batched_tokens": max(LEAST_BATCH, max_tokens)}
        try:
            return self.vllm.LLM(**{**own, **settings.args})
        except Exception as error:  # configuration, memory, kernels: vLLM raises what it likes
            raise UserError(f"sampling.engine is vllm, and it does not start ({_brief(error)})") from error

    def follow(self, prompt_ids: np.ndarray) -> None:
        """Take over the policy's weights as they are now. `prompt_ids` [P] is a prompt to compare log-probs on, after
        the first transfer. Raises UserError where the engine then is not the policy."""
        model = self.policy.model
        weights = {name: w for name, w in model.state_dict().items() if name not in self._left_out}
        as_saved = list(revert_weight_conversion(model, weights).items())  # vLLM knows names and layouts of checkpoints
        try:
            self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": as_saved})
        except Exception as error:
            raise UserError(
                f"sampling.engine is vllm, and it does not take this model's weights ({_brief(error)}); set "
                "sampling.engine=torch"
            ) from error
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("vLLM kept its prefix cache, computed under weights that are gone")
        if not self._probed:
            self._probe(prompt_ids)
            self._probed = True

    def _probe(self, prompt_ids: np.ndarray) -> None:
        room = min(PROBE_TOKENS, self._max_tokens - len(prompt_ids))
        params = self.params(temperature=1.0, top_p=1.0, max_tokens=room, seed=0)
        try:
            ((ids, logprobs, _),) = self.draw([prompt_ids], [params])
            own = _trainer_logprobs(self.policy, prompt_ids, ids)
        except UserError:
            raise
        except Exception as error:  # no kernel for this model on this device, as a rule
            raise UserError(
                f"sampling.engine is vllm, and it cannot run this model ({_brief(error)}); set sampling.engine=torch"
            ) from error
        apart = float(np.abs(own - logprobs).mean())
        if not apart <= FURTHEST:
            raise UserError(
                f"sampling.engine is vllm, and with this model's weights its log-probs are {apart:.2f} from the "
                "trainer's on average: it computes another model; set sampling.engine=torch"
            )

    def params(self, *, temperature: float, top_p: float, max_tokens: int, seed: int) -> Any:
        """vLLM's `SamplingParams` of one completion: a log-prob for each token, no text, the policy's end tokens."""
        return self.vllm.SamplingParams(
            n=1,
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            seed=seed,
            logprobs=0,
            detokenize=False,
            skip_special_tokens=False,
            ignore_eos=True,  # the model's folder may name others than the policy's, which `stop_token_ids` has all of
            stop_token_ids=list(self.policy.eos_ids),
        )

    def draw(self, prompts: Sequence[np.ndarray], params: Sequence[Any]) -> list[tuple[np.ndarray, np.ndarray, bool]]:
        """One completion of each prompt: ids [T], log-probs [T] under the distribution it was drawn from, and whether
        an end token ended it."""
        asked = [self.vllm.TokensPrompt(prompt_token_ids=p.tolist()) for p in prompts]
        found = self.llm.generate(asked, list(params), use_tqdm=False)
        return [_completion(out.outputs[0]) for out in found]


def check(policy: Policy, settings: VllmConfig) -> None:
    """What can be said before an engine is started. Raises UserError."""
    if "vllm" not in sys.modules and importlib.util.find_spec("vllm") is None:
        raise UserError(MISSING)
    if policy.vision is not None or policy.blind:
        raise UserError(
            "sampling.engine is vllm, which samples from text models only; set sampling.engine=torch for this one"
        )
    device = policy.device
    if device.type not in ("cpu", "cuda") or device.index not in (None, 0):
        raise UserError(
            f"sampling.engine is vllm with device {device}; it takes cpu or cuda, and with CUDA_VISIBLE_DEVICES any GPU"
        )
    for name, value in settings.args.items():
        if name in OWN_ARGS:
            instead = f"set {OWN_ARGS[name]}" if OWN_ARGS[name] else "leave it out"
            raise UserError(f"sampling.vllm.args: {name} follows from other settings; {instead}")
        if name.endswith("_parallel_size") and value != 1:
            raise UserError(f"sampling.vllm.args: {name} is {show(value)}; the engine lives in this process, on 1")


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _vllm() -> Any:
    """The package, set up to stay in this process and quiet."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # tensors are handed over as they are, and order is fixed
    try:
        return importlib.import_module("vllm")
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "vllm":
            raise UserError(MISSING) from None
        raise UserError(f"sampling.engine is vllm, and it cannot be imported ({_brief(error)})") from error


def _has_head(model: Any) -> list[bool]:
    """Whether vLLM's model has an output embedding of its own. Run beside it."""
    return [name.endswith("lm_head.weight") for name, _ in model.named_parameters()]


def _completion(out: Any) -> tuple[np.ndarray, np.ndarray, bool]:
    if out.finish_reason not in ("stop", "length"):
        raise UserError(f"sampling.engine is vllm, and a completion of it ended with {show(out.finish_reason)}")
    ids = np.asarray(out.token_ids, dtype=IDS)
    try:
        logprobs = [at[token].logprob for token, at in zip(out.token_ids, out.logprobs, strict=True)]
    except (KeyError, TypeError, ValueError):
        raise UserError("sampling.engine is vllm, and it gave a token without its log-prob") from None
    return ids, np.asarray(logprobs, dtype=LOGP), out.finish_reason == "stop"


@torch.no_grad()
def _trainer_logprobs(policy: Policy, prompt_ids: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Log-probs [T] of a completion by a plain forward pass."""
    whole = torch.from_numpy(np.concatenate([prompt_ids, ids]).astype(np.int64)).to(policy.device)
    with policy.precision():
        logits = policy.model(input_ids=whole[None], use_cache=False).logits[0, len(prompt_ids) - 1 : -1].float()
    logp = policy.open(logits).log_softmax(dim=-1)
    return logp.gather(1, whole[len(prompt_ids) :, None])[:, 0].cpu().numpy()
