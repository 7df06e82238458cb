"""vLLM beside the torch sampler: start, distance of log-probs from the trainer's, tokens per second.

    python benchmarks/engines.py --size small
    python benchmarks/engines.py --size medium --prompts 32 --tokens 64

Needs vLLM (docs/engines.md). The model is a random Qwen3 with sharpened weights, which are moved a little before every
round: each round is one weight transfer, then both samplers take turns on the same prompts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from rollwise.config.schema import VllmConfig
from rollwise.learner.logprobs import completion_logprobs, pack, passes, unpadded
from rollwise.policy import Policy, load_policy
from rollwise.records import Prompt, Request, Rollout, Sampling
from rollwise.sampling.torch_sampler import TorchSampler
from rollwise.sampling.vllm_sampler import VllmSampler

SIZES = {"small": (128, 2, 4, 64), "medium": (512, 8, 8, 4096)}  # width, layers, heads, vocabulary
PROMPT = 32


def new_model(size: str, folder: Path) -> None:
    width, layers, heads, vocab = SIZES[size]
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=vocab, hidden_size=width, intermediate_size=3 * width, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=heads, head_dim=width // heads, max_position_embeddings=512,
        tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2.0 if p.ndim > 1 else 1.0)
    model.save_pretrained(folder)
    words = Tokenizer(models.WordLevel({f"<{i}>": i for i in range(vocab)}, unk_token="<3>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<2>", pad_token="<0>").save_pretrained(folder)


def trainer_logprobs(policy: Policy, rollouts: list[Rollout]) -> list[np.ndarray]:
    out: dict[int, np.ndarray] = {}
    with torch.no_grad():
        for micro in passes(rollouts, policy, 8192):
            packed = pack([rollouts[i] for i in micro], policy)
            logp, _ = completion_logprobs(policy, packed, logit_budget=2**25)
            out |= dict(zip(micro, unpadded(logp, packed), strict=True))
    return [out[i] for i in range(len(rollouts))]


def apart(policy: Policy, rollouts: list[Rollout]) -> np.ndarray:
    pairs = zip(rollouts, trainer_logprobs(policy, rollouts), strict=True)
    return np.concatenate([np.abs(r.logprobs - lp) for r, lp in pairs])


def drift(policy: Policy, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in policy.model.parameters():
            p.add_(0.02 * p.std().nan_to_num(1.0) * torch.randn(p.shape, generator=generator))


def one(folder: Path, dtype: str, args: argparse.Namespace) -> None:
    policy = load_policy(str(folder), dtype=dtype)
    version = [0]
    began = time.monotonic()
    sampler = VllmSampler(
        policy,
        VllmConfig(enforce_eager=True, args={"kv_cache_memory_bytes": 2**29}),
        max_prompt_length=PROMPT,
        max_completion_length=args.tokens,
        max_rows=args.prompts * 8,
        version=lambda: version[0],
    )
    started = time.monotonic() - began
    sides: dict[str, Any] = {
        "vllm": sampler,
        "torch": TorchSampler(policy, max_prompt_length=PROMPT, max_rows=args.prompts * 8),
    }
    rng = np.random.default_rng(0)
    vocab = policy.vocab_size
    requests = [
        Request(prompt=Prompt(uid=str(i), text=" ".join(f"<{w}>" for w in rng.integers(3, vocab, PROMPT))), count=8)
        for i in range(args.prompts)
    ]
    sampling = Sampling(max_completion_length=args.tokens)
    speed: dict[str, list[float]] = {name: [] for name in sides}
    gaps, transfers, stale = [], [], []
    for turn in range(args.rounds + 1):
        drift(policy, turn)
        if turn:
            groups = sampler.generate(requests[:2], sampling, run_seed=0, step=turn)
            stale.append(float(apart(policy, [r for g in groups for r in g]).mean()))
        version[0] += 1
        began = time.monotonic()
        sampler.generate(requests[:1], Sampling(max_completion_length=1), run_seed=0, step=turn)
        transfers.append(time.monotonic() - began)
        for name in ("vllm", "torch") if turn % 2 else ("torch", "vllm"):
            began = time.monotonic()
            groups = sides[name].generate(requests, sampling, run_seed=0, step=turn)
            took = time.monotonic() - began
            rollouts = [r for g in groups for r in g]
            if turn:  # the first is a warm-up
                speed[name].append(sum(r.length for r in rollouts) / took)
            if name == "vllm":
                gaps.append(apart(policy, rollouts))
    every = np.concatenate(gaps)
    ratio = {name: f"{statistics.median(s):,.0f}" for name, s in speed.items()}
    print(
        f"{args.size}, {dtype}: start {started:.1f} s; |trainer - vllm| mean {every.mean():.2g} max {every.max():.2g} "
        f"over {len(every):,} tokens and {len(gaps)} transfers, {np.mean(stale):.2g} before a transfer; transfer with "
        f"one token {statistics.median(transfers):.3f} s; tokens/s vllm {ratio['vllm']}, torch {ratio['torch']}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--prompts", type=int, default=64, help="8 completions each")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), action="append")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        new_model(args.size, Path(folder))
        for dtype in args.dtype or ("float32", "bfloat16"):
            one(Path(folder), dtype, args)


if __name__ == "__main__":
    main()
