"""Every saved field matters: one that is missing is refused, and one that is forgotten shows in what follows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollwise import checkpoint
from rollwise.assemble import load_model, load_tasks, make_loop
from rollwise.config import build, merge, nest, read_yaml
from rollwise.errors import UserError
from tests.kills import SMALL, begin, differing, go_on, outcome

Tree = dict[str, Any]

CUT, END = 3, 6
RUNS: dict[str, Tree] = {
    "pilot-commit-popo": {"method": "pilot-commit-popo", "task_args.train_size": 400},
    "mopps and per": {"method": "per", "curriculum.kind": "mopps", "replay.warmup_steps": 1},
    "stages": {
        "method": "popo",
        "curriculum.drop_solved": True,
        "curriculum.stages": [{"until": {"steps": 2}, "reset": ["optimizer"]}, {}],
    },
    "critic": {"method": "ppo", "allocation.kind": "dynamic", "allocation.surplus": "carry"},
}


# Saved, and of no consequence in these runs.
HARMLESS = {
    ("seconds",): "the clock's; tested with the budget",
    ("curriculum", "predicted"): "shown again only by a step that draws nothing",
    ("curriculum", "shown"): "for whoever asks between two steps",
}


def settings(name: str, steps: int) -> Tree:
    tree = merge(SMALL, {"eval": {"every": None}, "checkpoint": {"every": None}, "task_args": {"train_size": 24}})
    for dotted, value in {**RUNS[name], "budget.steps": steps}.items():
        tree = merge(tree, nest(dotted, value))
    return tree


def fields(state: Tree, depth: int, where: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Keys of nested objects, down to `depth`; an object with keys from the data is one field."""
    for key, value in state.items():
        yield (*where, key)
        if depth > 1 and isinstance(value, dict) and key not in ("moments", "outcomes"):
            yield from fields(value, depth - 1, (*where, key))


def at(state: Tree, path: tuple[str, ...]) -> Tree:
    for key in path[:-1]:
        state = state[key]
    return state


@pytest.fixture(params=list(RUNS))
def cut(request: Any, tmp_path: Path) -> tuple[Path, Tree, Callable[[str, Tree], Path]]:
    """A run stopped in the middle, the end it should have, and how to write a copy of it with another state."""
    name = str(request.param)
    whole, part = tmp_path / "whole", tmp_path / "part"
    begin(settings(name, END), whole)
    begin(settings(name, CUT), part)
    text = (part / "config.yaml").read_text().replace(f"steps: {CUT}", f"steps: {END}")
    (part / "config.yaml").write_text(text)

    def with_state(copy: str, state: Tree) -> Path:
        folder = tmp_path / copy
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(part, folder)
        model = part / "checkpoints" / f"step_{CUT}" / "model"
        checkpoint.save(folder / "checkpoints", CUT, state, lambda path: shutil.copytree(model, path), keep=1)
        return folder

    return part, outcome(whole), with_state


def test_a_field_that_is_missing_is_refused(cut: tuple[Path, Tree, Callable[[str, Tree], Path]]) -> None:
    part, _end, with_state = cut
    path = part / "checkpoints" / f"step_{CUT}"
    every = list(fields(checkpoint.load(path)["loop"], 3))
    assert len(every) > 20
    loop = fresh_loop(part)
    for field in every:
        state = checkpoint.load(path)
        del at(state["loop"], field)[field[-1]]
        with pytest.raises((ValueError, KeyError, TypeError)):
            loop.load_state_dict(state["loop"])
            raise AssertionError(f"{'.'.join(field)} can be missing")
    state = checkpoint.load(path)
    del state["loop"]["learner"]
    with pytest.raises(UserError, match=r"does not fit this run \(state of the loop"):
        go_on(with_state("missing", state))


def fresh_loop(part: Path) -> Any:
    config = build(read_yaml(part / "config.yaml"))
    return make_loop(config, load_tasks(config), load_model(config), None, lambda: False)  # type: ignore[arg-type]


def test_a_field_that_is_forgotten_would_be_seen(cut: tuple[Path, Tree, Callable[[str, Tree], Path]]) -> None:
    """Each field of each part is put to what a new run has: the end must be another, or the state be refused."""
    part, end, with_state = cut
    path = part / "checkpoints" / f"step_{CUT}"
    new = fresh_loop(part).state_dict()
    assert list(differing(outcome(resumed(with_state("same", checkpoint.load(path)))), end)) == []
    tried = 0
    for field in fields(checkpoint.load(path)["loop"], 2):
        state = checkpoint.load(path)
        owner, value = at(state["loop"], field), at(new, field)[field[-1]]
        if field in HARMLESS or not list(differing(owner[field[-1]], value)):
            continue
        owner[field[-1]] = value
        tried += 1
        try:
            got = outcome(resumed(with_state("forgotten", state)))
        except (UserError, AssertionError):  # refused, or caught by the books that no longer balance
            continue
        assert list(differing(got, end)), f"{'.'.join(field)} is saved for nothing"
    assert tried >= 10


def resumed(folder: Path) -> Path:
    go_on(folder)
    return folder
