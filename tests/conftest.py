"""Shared by all tests: one thread, and small runs through the real loop."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

from rollwise.console import Console
from rollwise.learner.learner import Learned, Learner
from rollwise.records import Batch

Tree = dict[str, Any]


class Finished:
    """A run that has ended, read back from its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bytes = (folder / "events.jsonl").read_bytes()
        self.events: list[Tree] = [json.loads(line) for line in self.bytes.splitlines()]
        self.steps = [e for e in self.events if e["event"] == "step"]
        self.evals = [e for e in self.events if e["event"] == "eval"]
        self.stop = self.events[-1]
        self.ledger: Tree = self.stop["ledger"]

    def metric(self, name: str) -> list[Any]:
        return [s["metrics"].get(name) for s in self.steps]

    def weights(self) -> bytes:
        return (self.folder / "checkpoints" / f"step_{self.stop['step']}" / "model" / "model.safetensors").read_bytes()

    def groups(self) -> list[Tree]:
        return [json.loads(line) for line in (self.folder / "rollouts.jsonl").read_text().splitlines()]


SMALL: Tree = {
    "task": "sort_digits",
    "task_args": {"max_digits": 8},
    "prompts_per_step": 6,
    "group_size": 4,
    "budget": {"steps": 4},
    "eval": {"every": None, "prompts": 8, "samples": 1},
    "learner": {"updates_per_batch": 2, "warmup_updates": 2},
    "log": {"report": False},
}


PUBLIC = Path(os.environ.get("ROLLWISE_PUBLIC_DATA") or Path(__file__).parents[2] / "shared")


def _public(name: str) -> Path:
    if not (PUBLIC / name).is_dir():
        pytest.skip(f"no public {name} at hand (ROLLWISE_PUBLIC_DATA names the folder that holds {name}/)")
    return PUBLIC / name


@pytest.fixture(scope="session")
def public_data() -> Path:
    """Folder of rows and model outputs as their publishers wrote them."""
    return _public("data")


@pytest.fixture(scope="session")
def public_cases() -> Path:
    """Folder of single cases with the verdict that is wanted."""
    return _public("cases")


def acting(method: str) -> Tree:
    """What a run of a few steps needs for the replay of a method to act in it."""
    if "stale" in method:
        return {"replay.min_age": 2}
    return {"replay.warmup_steps": 1} if "per" in method.split("-") else {}


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., Finished]:
    """`train('popo', {'a.b': 1}, name='x')`: a few steps on the bundled starter with several groups a step."""
    from rollwise import run
    from rollwise.assemble import resolve
    from rollwise.config import merge, nest

    def go(method: str, settings: Tree | None = None, *, name: str = "run", console: Console | None = None) -> Finished:
        tree = merge(SMALL, {"method": method, "output": str(tmp_path / name)})
        for dotted, value in (settings or {}).items():
            tree = merge(tree, nest(dotted, value))
        folder, _ = run.start(resolve([("test", tree)]), console or Console())
        return Finished(folder)

    return go


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Batch, Learned]]:
    """Every batch the real learner is given, with what it left behind."""
    seen: list[tuple[Batch, Learned]] = []
    original = Learner.update

    def spy(self: Learner, batch: Batch, signals: Any) -> Learned:
        learned = original(self, batch, signals)
        seen.append((batch, learned))
        return learned

    monkeypatch.setattr(Learner, "update", spy)
    return seen
