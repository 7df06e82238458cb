"""The vLLM sampler on vLLM itself: run where it is installed (docs/engines.md)."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rollwise.cli.main import main
from rollwise.config.schema import VllmConfig
from rollwise.errors import UserError
from rollwise.policy import Policy, load_policy
from rollwise.records import Prompt, Request, Rollout, Sampling, StopReason
from rollwise.sampling.torch_sampler import TorchSampler, nucleus
from rollwise.sampling.vllm_sampler import VllmSampler
from tests.models import tiny_model

pytestmark = pytest.mark.skipif(
    "vllm" not in sys.modules and importlib.util.find_spec("vllm") is None, reason="vllm is not installed (extra vllm)"
)

HEADS: dict[str, Any] = {
    "head_dim": 32,
    "hidden_size": 64,
    "vocab_size": 259,
}  # the smallest heads that vLLM has CPU kernels for
EXACT = 1e-4  # nats, float32; what was measured is 100 times less
SAMPLING = Sampling(temperature=0.7, max_completion_length=12)
ENGINE = VllmConfig(enforce_eager=True, args={"kv_cache_memory_bytes": 2**27})


class Case:
    """A policy, its sampler, and the version of its weights."""

    def __init__(self, folder: Path, dtype: str) -> None:
        self.policy = load_policy(str(folder), dtype=dtype)
        with torch.no_grad():  # random weights of the usual size give an almost uniform distribution
            for p in self.policy.model.parameters():
                p.mul_(3.0 if p.ndim > 1 else 1.0)
        self.version = 0
        self.sampler = VllmSampler(
            self.policy,
            ENGINE,
            max_prompt_length=64,
            max_completion_length=32,
            max_rows=256,
            version=lambda: self.version,
        )

    def generate(self, sampling: Sampling = SAMPLING, step: int = 1, of: int = 6) -> list[list[Rollout]]:
        return self.sampler.generate(requests(of), sampling, run_seed=7, step=step)

    def shake(self, seed: int, by: float = 0.02) -> None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for p in self.policy.model.parameters():
                p.add_(by * torch.randn(p.shape, generator=generator))


def requests(of: int) -> list[Request]:
    return [Request(prompt=Prompt(uid=f"p{i}", text="abcdefgh" * (1 + i % 4)), count=4) for i in range(of)]


def logits(policy: Policy, rollout: Rollout) -> torch.Tensor:
    """[T, V] at the places that predict the completion, over the temperature."""
    ids = torch.from_numpy(np.concatenate([rollout.prompt_ids, rollout.completion_ids])).long()[None]
    with torch.no_grad(), policy.precision():
        out = policy.model(input_ids=ids).logits[0, len(rollout.prompt_ids) - 1 : -1]
    scaled: torch.Tensor = out.float() / rollout.sampling.temperature
    return scaled


def gaps(policy: Policy, groups: list[list[Rollout]], top_p: float = 1.0) -> np.ndarray:
    out = []
    for r in (r for g in groups for r in g):
        logp = logits(policy, r).log_softmax(-1)
        logp = nucleus(logp, top_p) if top_p < 1 else logp
        mine = logp.gather(1, torch.from_numpy(r.completion_ids).long()[:, None])[:, 0].numpy()
        out.append(np.abs(mine - r.logprobs))
    return np.concatenate(out)


@pytest.fixture(scope="module", params=["tied", "untied"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp(request.param)
    tiny_model(folder, "Qwen3", tie_word_embeddings=request.param == "tied", **HEADS)
    return Case(folder, "float32")


def test_log_probs_are_the_trainers_before_and_after_every_transfer(case: Case) -> None:
    before: list[Any] = []
    for seed in range(4):
        groups = case.generate()
        assert gaps(case.policy, groups).max() < EXACT
        assert {r.stop for g in groups for r in g} <= {StopReason.eos, StopReason.length}
        assert all(r.text == case.policy.decode([r.completion_ids])[0] for g in groups for r in g)
        drawn = [r.completion_ids.tolist() for g in groups for r in g]
        assert drawn != before
        before = drawn
        case.shake(seed)
        case.version += 1


def test_without_a_transfer_they_are_not(case: Case) -> None:
    case.version += 1
    assert gaps(case.policy, case.generate()).max() < EXACT
    apart = []
    for seed in range(3):
        case.shake(10 + seed, by=0.004)
        apart.append(gaps(case.policy, case.generate()).mean())
    assert 0.003 < apart[0] < apart[2]
    case.version += 1
    assert gaps(case.policy, case.generate()).max() < EXACT, "prefixes under the old weights are gone too"


def test_equal_seeds_draw_alike_and_members_and_steps_do_not(case: Case) -> None:
    def ids(step: int) -> list[list[int]]:
        return [r.completion_ids.tolist() for g in case.generate(step=step) for r in g]

    first = ids(1)
    assert first == ids(1) != ids(2)
    assert len({tuple(c) for c in first[:4]}) > 1


def test_greedy_is_the_torch_samplers_and_a_nucleus_is_renormalised(case: Case) -> None:
    greedy = dataclasses.replace(SAMPLING, temperature=0.0)
    mine = TorchSampler(case.policy, max_prompt_length=64, max_rows=64).generate(
        requests(6), greedy, run_seed=7, step=1
    )
    theirs = case.generate(greedy)
    pairs = [(a, b) for g, h in zip(mine, theirs, strict=True) for a, b in zip(g, h, strict=True)]
    assert all(a.completion_ids.tolist() == b.completion_ids.tolist() and a.stop is b.stop for a, b in pairs)
    assert all(not b.logprobs.any() for _, b in pairs)
    cut = case.generate(dataclasses.replace(SAMPLING, top_p=0.6))
    assert gaps(case.policy, cut, 0.6).max() < EXACT < 0.1 < gaps(case.policy, cut).max()


def test_more_prompt_tokens_than_one_pass_reads(case: Case) -> None:
    groups = case.generate(of=120)
    assert sum(len(r.prompt_ids) for g in groups for r in g) > 8192
    assert gaps(case.policy, groups).max() < EXACT


def test_bfloat16_is_near_and_the_weight_has_work(tmp_path: Path) -> None:
    tiny_model(tmp_path, "Qwen3", tie_word_embeddings=True, **HEADS)
    case = Case(tmp_path, "bfloat16")
    for seed in range(2):
        apart = gaps(case.policy, case.generate())
        assert 1e-5 < apart.mean() < 0.05
        case.shake(seed)
        case.version += 1


def test_a_model_vllm_has_no_kernels_for_is_one_line(tmp_path: Path) -> None:
    tiny_model(tmp_path, "Qwen3")
    case = Case(tmp_path, "float32")
    with pytest.raises(UserError, match=r"it cannot run this model \(.*head_dim") as error:
        case.generate()
    assert "\n" not in str(error.value)


def test_a_run_learns_and_a_resumed_one_is_the_same(tmp_path: Path) -> None:
    """A random model learns to write small letters, through the command line."""
    model = tiny_model(tmp_path / "model", "Qwen3", tie_word_embeddings=True, **HEADS)
    (tmp_path / "letters.py").write_text(
        "def score(completion: str, answer, *, prompt, meta):\n"
        "    return sum('a' <= c <= 'z' for c in completion) / max(1, len(completion))\n"
    )
    recipe = {
        "method": "popo",
        "task": "sort_digits",
        "task_args": {"template": "base"},
        "model": str(model),
        "reward": f"{tmp_path / 'letters.py'}:score",
        "prompts_per_step": 8,
        "group_size": 8,
        "learner": {"lr": 5e-3},
        "sampling": {
            "engine": "vllm",
            "max_prompt_length": 512,
            "max_completion_length": 12,
            "vllm": {"enforce_eager": True, "args": {"kv_cache_memory_bytes": 2**27}},
        },
        "eval": {"every": None, "prompts": 4},
        "checkpoint": {"every": 6},
        "log": {"report": False},
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))

    def steps(name: str, *words: str) -> list[dict[str, Any]]:
        assert main([*words, "--quiet"]) == 0
        events = [json.loads(line) for line in (tmp_path / name / "events.jsonl").read_text().splitlines()]
        return [e["metrics"] for e in events if e["event"] == "step"]

    def train(name: str, to: int) -> list[dict[str, Any]]:
        where = ["--output", str(tmp_path / name), "--set", f"budget.steps={to}"]
        return steps(name, "train", str(tmp_path / "recipe.yaml"), *where)

    whole = train("whole", 12)
    assert max(m["sampling/logp_diff_max"] for m in whole) < EXACT
    assert max(m["sampling/weight_max"] for m in whole) < 1 + EXACT
    assert all(m["sampling/weight_truncated"] == 0 for m in whole)
    first, last = (np.mean([m["reward"] for m in part]) for part in (whole[:2], whole[-2:]))
    assert last > first + 0.2
    train("parted", 6)
    assert steps("parted", "resume", str(tmp_path / "parted"), "--set", "budget.steps=12") == whole
