"""A run whose curriculum began anew draws prompts by the names they had before: what is stored is told apart by its
step, and the run is the same whether it is interrupted after that or not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rollwise import checkpoint, run
from rollwise.config import build, merge, nest
from rollwise.console import Console
from tests.kills import SMALL, begin, differing, outcome

Tree = dict[str, Any]
RUNS: dict[str, Tree] = {
    "recent": {"method": "popo", "replay.capacity": 20},
    "hybrid": {"method": "popo", "replay.kind": "hybrid", "replay.reservoir_capacity": 20},
    "success": {"method": "arpo"},
    "rollouts": {"method": "per", "replay.warmup_steps": 1},
    "pilot": {"method": "pilot-commit-popo", "task_args.train_size": 400},
    "carry": {"method": "ppo", "allocation.kind": "dynamic", "allocation.surplus": "carry", "task_args.train_size": 40},
}


def resume(folder: Path, anew: list[str], steps: int) -> Tree:
    def changed(stored: Tree) -> Any:
        return build(merge(stored, nest("budget.steps", steps)))

    run.resume(folder, changed, Console(), anew)
    return outcome(folder)


@pytest.mark.parametrize("name", list(RUNS))
def test_a_run_goes_on_exactly_after_its_curriculum_began_anew(name: str, tmp_path: Path) -> None:
    tree = merge(SMALL, {"checkpoint": {"every": 1, "keep": 9}, "eval": {"every": None}})
    for dotted, value in {"task_args.train_size": 8, "group_size": 6, "budget.steps": 4, **RUNS[name]}.items():
        tree = merge(tree, nest(dotted, value))
    whole = tmp_path / "whole"
    begin(tree, whole)
    held = checkpoint.load(whole / "checkpoints" / "step_4")["loop"]["ledger"]["outcomes"]["held"]["rollouts"]
    resume(whole, ["curriculum"], 4)
    ledger = checkpoint.load(whole / "checkpoints" / "step_4")["loop"]["ledger"]
    assert ledger["outcomes"]["held"]["rollouts"] == 0 and (held > 0) == (name in ("pilot", "carry"))
    assert ledger["outcomes"]["lost_at_epoch_end"]["rollouts"] >= held
    end = resume(whole, [], 8)
    for step in (5, 6, 7):
        cut = tmp_path / f"cut{step}"
        shutil.copytree(whole, cut)
        for later in range(step + 1, 9):
            shutil.rmtree(cut / "checkpoints" / f"step_{later}")
        assert list(differing(resume(cut, [], 8), end)) == []
