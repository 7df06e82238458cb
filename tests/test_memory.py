"""Passes that do not fit are halved and counted; and what a run holds does not grow."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rollwise.errors import UserError
from rollwise.memory import PassSize, out_of_memory
from rollwise.policy import Policy
from rollwise.sampling.torch_sampler import TorchSampler

Train = Callable[..., Any]
NO_MEMORY = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to"


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """A machine on which a pass with more than so many tokens fails, half way through for what comes before."""

    def have(most: int) -> list[int]:
        failed: list[int] = []
        original = Policy.trunk

        def trunk(self: Policy, ids: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            if ids.numel() > most:
                failed.append(ids.numel())
                raise RuntimeError(NO_MEMORY)
            return original(self, ids, *args, **kwargs)

        monkeypatch.setattr(Policy, "trunk", trunk)
        return failed

    return have


@pytest.mark.parametrize("method", ["popo", "ppo", "popo-kl"])
def test_a_pass_that_does_not_fit_is_halved_and_the_run_is_the_same(
    train: Train, method: str, small_memory: Callable[[int], list[int]]
) -> None:
    settings = {"prompts_per_step": 8, "budget.steps": 4, "learner.updates_per_batch": 1, "learner.epochs": 2}
    roomy = train(method, settings, name="roomy")
    failed = small_memory(128)
    tight = train(method, settings, name="tight")
    assert failed and max(failed) > 128
    counted = tight.metric("memory/halvings")
    assert counted[-1] >= 1 and roomy.metric("memory/halvings") == [None] * 4
    assert tight.ledger["updates"] == roomy.ledger["updates"]
    for name in ("loss", "grad_norm", "clip_ratio/fresh", "weight/ess", "replay/zero_grad_frac", "value/loss"):
        for a, b in zip(tight.metric(name), roomy.metric(name), strict=True):
            assert (a is None) == (b is None) and (a is None or a == pytest.approx(b, rel=1e-3, abs=1e-5)), name


def test_no_memory_for_a_single_rollout_is_one_line(train: Train, small_memory: Callable[[int], list[int]]) -> None:
    small_memory(7)  # what loading asks for
    with pytest.raises(UserError, match="out of memory with a single rollout in a pass") as error:
        train("grpo", {"budget.steps": 1})
    assert "\n" not in str(error.value)


def test_other_errors_are_not_swallowed() -> None:
    size = PassSize(64)

    def broken(tokens: int) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="mat1"):
        size.fitting(broken)
    assert size.halvings == 0
    tried: list[int] = []

    def fits(tokens: int) -> int:
        tried.append(tokens)
        if tokens > 9:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return tokens

    assert size.fitting(fits) == 8 and tried == [64, 32, 16, 8] and size.fitting(fits) == 8
    assert out_of_memory(MemoryError()) and not out_of_memory(ValueError())


def test_rollouts_that_do_not_fit_at_once_are_drawn_in_parts(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train("popo", {"budget.steps": 3}, name="whole")
    original, sizes = TorchSampler._draw, []

    def draw(self: TorchSampler, prompts: Any, images: Any, rows: Any, sampling: Any) -> Any:
        sizes.append(len(rows))
        if len(rows) > 7:
            raise RuntimeError(NO_MEMORY)
        return original(self, prompts, images, rows, sampling)

    monkeypatch.setattr(TorchSampler, "_draw", draw)
    parts = train("popo", {"budget.steps": 3}, name="parts")
    assert {24, 12, 6} <= set(sizes)
    assert parts.metric("reward") == whole.metric("reward")
    assert [s["ledger"] for s in parts.steps] == [s["ledger"] for s in whole.steps]

    def never(self: TorchSampler, *args: Any) -> Any:
        raise RuntimeError(NO_MEMORY)

    monkeypatch.setattr(TorchSampler, "_draw", never)
    with pytest.raises(UserError, match="sampler: out of memory with a single rollout"):
        train("popo", {"budget.steps": 3}, name="none")


GROWTH = """
import gc, os, sys
from pathlib import Path
import tests.conftest
from rollwise import run
from rollwise.assemble import resolve
from rollwise.config import merge, nest
from rollwise.console import Console
from rollwise.folder import RunFolder

sizes, step = [], RunFolder.step

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def watched(self, record, groups, seconds):
    step(self, record, groups, seconds)
    if record.step % 20 == 0:
        gc.collect()
        sizes.append(resident())

RunFolder.step = watched
method, folder, steps = sys.argv[1:]
tree = merge(tests.conftest.SMALL, {"method": method, "output": folder})
small = {"task_args": {"max_digits": 5}, "prompts_per_step": 3, "group_size": 3, "eval": {"every": None, "prompts": 2},
    "budget": {"steps": int(steps)}, "guard": {"idle_steps": None, "action": "off"}, "checkpoint": {"every": 50}}
if method.startswith("per"):
    small["replay"] = {"warmup_steps": 2, "capacity": 40}
run.start(resolve([("growth", merge(tree, small))]), Console())
print(sizes[len(sizes) * 2 // 3], sizes[-1])
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")
@pytest.mark.parametrize("method", os.environ.get("ROLLWISE_GROWTH", "popo pilot-commit-per").split())
def test_memory_does_not_grow(method: str, tmp_path: Path) -> None:
    """300 small steps, the last third of them by less than 8 MB, a fiftieth of what is resident."""
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, method, str(tmp_path / "run"), "300"],
        capture_output=True,
        text=True,
        timeout=900,
        cwd=root,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{root / 'src'}:{root}"},
    )
    assert done.returncode == 0, done.stderr
    before, end = map(int, done.stdout.split()[-2:])
    assert end - before < 8 * 2**20, f"{(end - before) / 2**20:.1f} MB in 100 steps"
