"""Every method for twenty steps on a bundled model: it acts, its weights stay finite, its ledger balances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rollwise.methods import METHODS, method_names
from rollwise.starters import starter_path
from tests.conftest import acting

Train = Callable[..., Any]


@pytest.mark.parametrize("method", method_names())
def test_twenty_steps(train: Train, method: str) -> None:
    run = train(method, {**acting(method), "budget.steps": 20})
    assert len(run.steps) == 20 and run.stop["reason"] == "budget.steps"
    for step in run.steps:
        ledger = step["ledger"]
        for unit in ("rollouts", "tokens"):
            assert sum(o[unit] for o in ledger["outcomes"].values()) == ledger["generated"][unit]
    assert run.ledger["updates"] > 0 and run.ledger["skipped_updates"] == 0
    after = load_file(run.folder / "checkpoints" / "step_20" / "model" / "model.safetensors")
    before = load_file(starter_path("sort_digits") / "model.safetensors")
    assert all(bool(torch.isfinite(t).all()) for t in after.values())
    assert any(not torch.equal(after[name], before[name]) for name in before)


def test_each_says_its_paper_its_parts_and_its_differences() -> None:
    for m in METHODS.values():
        assert m.paper.startswith("arXiv "), m.name
        assert len(m.summary) > 20 and len(m.differs) > 20, m.name
        for part in ("curriculum.kind", "allocation.kind", "replay.kind", "advantage.kind", "objective.kind"):
            assert part in m.settings, f"{m.name} names no {part}"
