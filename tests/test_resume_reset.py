"""Going on with something changed on purpose, and the checkpoints that are kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollwise import checkpoint, run
from rollwise.assemble import resolve
from rollwise.cli import main
from rollwise.config import build, merge, nest
from rollwise.console import Console
from rollwise.errors import UserError
from tests.conftest import Finished

Train = Callable[..., Any]


def go_on(folder: Path, anew: list[str], **changes: Any) -> Finished:
    def changed(stored: dict[str, Any]) -> Any:
        tree = stored
        for name, value in changes.items():
            tree = merge(tree, nest(name.replace("__", "."), value))
        return build(tree)

    run.resume(folder, changed, Console(), anew)
    return Finished(folder)


CHANGES = [
    ("optimizer", "popo", {"learner__lr": 1e-3}),
    ("replay", "popo", {"replay__capacity": 24}),
    ("replay", "popo", {"replay__kind": "none"}),
    ("curriculum", "popo", {"task_args": {"max_digits": 6}}),
    ("curriculum", "popo", {"curriculum__kind": "mopps"}),
    ("allocation", "popo", {"group_size": 6}),
    ("allocation", "pilot-commit", {"allocation__pilot__pick": "oldest"}),
    ("objective", "popo", {"objective__clip_high": 0.4}),
]


@pytest.mark.parametrize("part,method,change", CHANGES)
def test_a_part_that_begins_anew_may_change_its_settings(
    train: Train, part: str, method: str, change: dict[str, Any]
) -> None:
    done = train(method, {"budget.steps": 3})
    with pytest.raises(UserError, match=f"--resume-reset {part} allows it"):
        go_on(done.folder, [], budget__steps=6, **change)
    other = "replay" if part != "replay" else "optimizer"
    with pytest.raises(UserError, match=f"--resume-reset {part} allows it"):
        go_on(done.folder, [other], budget__steps=6, **change)
    after = go_on(done.folder, [part], budget__steps=6, **change)
    assert after.stop["reason"] == "budget.steps" and after.stop["step"] == 6
    (noted,) = [e for e in after.events if e["event"] == "config"]
    assert noted["anew"] == [part] and next(iter(change)).replace("__", ".") in noted["changed"]
    outcomes = after.ledger["outcomes"]
    assert after.ledger["generated"]["rollouts"] == sum(c["rollouts"] for c in outcomes.values())
    assert [e["step"] for e in after.steps] == list(range(1, 7))


def test_what_an_allocation_held_is_booked_as_lost(train: Train) -> None:
    done = train("pilot-commit", {"budget.steps": 2})
    held = done.ledger["outcomes"]["held"]["rollouts"]
    lost = done.ledger["outcomes"]["lost_at_epoch_end"]["rollouts"]
    assert held > 0
    after = go_on(done.folder, ["allocation"], budget__steps=3)
    assert after.ledger["outcomes"]["lost_at_epoch_end"]["rollouts"] == lost + held
    state = checkpoint.load(after.folder / "checkpoints" / "step_3")["loop"]["allocation"]
    assert state["step"] == 4, "ages go on counting in the run's steps"


def test_anew_really_forgets_and_nothing_else_does(train: Train) -> None:
    def end(name: str, anew: list[str]) -> bytes:
        done = train("popo", {"budget.steps": 3, "learner.lr": 1e-3}, name=name)
        return Finished(go_on(done.folder, anew, budget__steps=5).folder).weights()

    ends = {
        name: end(f"run-{name}", [name] if name != "none" else [])
        for name in ("none", "objective", "replay", "optimizer")
    }
    assert ends["objective"] == ends["none"]
    assert len({ends["none"], ends["replay"], ends["optimizer"]}) == 3


def test_new_rows_are_taken_where_the_curriculum_begins_anew(tmp_path: Path) -> None:
    data = tmp_path / "d.jsonl"
    rows: list[dict[str, Any]] = [
        {"nums": [a, b, a + b], "target": a * b + a + b} for a in range(2, 9) for b in range(2, 9)
    ]
    data.write_text("".join(json.dumps(r) + "\n" for r in rows))
    settings = {"task": "countdown", "task_args": {"data": str(data)}, "budget": {"steps": 2}, "prompts_per_step": 4}
    folder, _ = run.start(resolve([("test", {**settings, "output": str(tmp_path / "run")})]), Console())
    rows[11]["target"] += 1
    data.write_text("".join(json.dumps(r) + "\n" for r in rows))
    with pytest.raises(UserError, match="or train on the new ones with --resume-reset curriculum"):
        go_on(folder, [], budget__steps=3)
    assert go_on(folder, ["curriculum"], budget__steps=3).stop["step"] == 3
    assert go_on(folder, [], budget__steps=4).stop["step"] == 4, "the new rows are the run's now"


def test_the_command_takes_parts_and_refuses_others(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    done = train("popo", {"budget.steps": 2})
    argv = ["resume", str(done.folder), "--set", "budget.steps=3", "--quiet"]
    assert main([*argv, "--resume-reset", "optimiser"]) == 2
    assert "unknown part 'optimiser'; did you mean 'optimizer'?" in capsys.readouterr().err
    assert main([*argv, "--resume-reset", "optimizer,replay", "--set", "learner.lr=1e-4"]) == 0
    assert Finished(done.folder).stop["step"] == 3


def nothing(path: Path) -> None:
    path.mkdir()


def test_a_run_that_went_back_keeps_what_it_went_back_to(tmp_path: Path) -> None:
    """Later checkpoints were refused; they must not push the good ones out."""
    for step in (2, 4, 6, 8):
        checkpoint.save(tmp_path, step, {"n": np.arange(step)}, nothing, keep=9)
    for step in (6, 8):
        (tmp_path / f"step_{step}" / "state.json").write_text("{}")
    path, refused = checkpoint.newest(tmp_path)
    assert path.name == "step_4" and len(refused) == 2
    checkpoint.save(tmp_path, 5, {"n": 5}, nothing, keep=2)
    assert checkpoint.steps(tmp_path) == [4, 5]


def test_every_flipped_bit_of_a_manifest_is_detected(tmp_path: Path) -> None:
    saved = checkpoint.save(tmp_path, 1, {"a": np.arange(3), "b": 1}, nothing, keep=1)
    manifest = saved / "manifest.json"
    data = manifest.read_bytes()
    for i in range(len(data)):
        for bit in range(8):
            manifest.write_bytes(data[:i] + bytes([data[i] ^ 1 << bit]) + data[i + 1 :])
            assert checkpoint.verify(saved) is not None, f"byte {i}, bit {bit}"
    manifest.write_bytes(data)
    assert checkpoint.verify(saved) is None


def test_the_best_is_kept_beside_the_newest(train: Train) -> None:
    settings = {"eval.every": 1, "checkpoint.best": "accuracy", "checkpoint.keep": 1, "learner.lr": 2e-3}
    done = train("popo", {**settings, "budget.steps": 7})
    scores = {e["step"]: e["results"]["accuracy"] for e in done.evals if e["on"] == ["steps"]}
    best = max(scores, key=lambda s: (scores[s], -s))
    assert len(set(scores.values())) > 1
    assert checkpoint.steps(done.folder / "checkpoints") == sorted({best, 7})
    cut = train("popo", {**settings, "budget.steps": 3}, name="cut")
    after = go_on(cut.folder, [], budget__steps=7)
    assert checkpoint.steps(after.folder / "checkpoints") == sorted({best, 7})
    assert after.weights() == done.weights()


def test_best_by_what_no_evaluation_gives_is_refused(train: Train) -> None:
    for wrong in ("acuracy", "pass@2", "task/x/accuracy"):
        with pytest.raises(UserError, match=r"checkpoint.best is .*; an evaluation gives accuracy, reward, pass@1"):
            train("popo", {"checkpoint.best": wrong})
    train("popo", {"checkpoint.best": "pass@2", "eval.samples": 2, "budget.steps": 1})
