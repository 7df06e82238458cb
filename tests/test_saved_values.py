"""A checkpoint whose files are whole may still hold what no run has saved: each value is taken as it is, or refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from rollwise import checkpoint
from rollwise.assemble import load_model, load_tasks, make_loop
from rollwise.config import build, merge, nest, read_yaml
from rollwise.loop import Loop
from tests.curricula import same
from tests.kills import SMALL, begin

Tree = dict[str, Any]
Where = tuple[Any, ...]

REFUSED = (ValueError, KeyError, TypeError, AttributeError)  # what a resume makes a line of
ODD: list[Any] = [math.nan, "x", [], True, -1, 10**9, None, 4.0]
RUNS: dict[str, Tree] = {
    "grpo": {"method": "grpo", "eval.every": 1},
    "popo": {"method": "popo"},
    "hybrid": {"method": "popo", "replay.kind": "hybrid", "replay.reservoir_max_age": 4},
    "per": {"method": "per", "replay.warmup_steps": 1, "curriculum.kind": "mopps"},
    "arpo": {"method": "arpo", "curriculum.drop_solved": True},
    "pilot-commit": {"method": "pilot-commit", "task_args.train_size": 400, "curriculum.evict_at": 0.9},
    "ppo": {"method": "ppo", "allocation.kind": "dynamic", "allocation.surplus": "carry"},
    "stages": {
        "method": "grpo",
        "curriculum.stages": [{"until": {"steps": 2}}, {"until": {"plateau": "accuracy", "window": 2}}, {}],
    },
}
LAST = 3


@pytest.fixture(scope="module", params=list(RUNS))
def saved(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Loop, Callable[[], Tree]]:
    """A method, its loop, and how to read what it has saved after some steps."""
    folder = tmp_path_factory.mktemp("saved") / "run"
    tree = merge(SMALL, {"checkpoint": {"every": None}, "eval": {"every": None}})
    for dotted, value in {**RUNS[request.param], "budget.steps": LAST}.items():
        tree = merge(tree, nest(dotted, value))
    begin(tree, folder)
    config = build(read_yaml(folder / "config.yaml"))
    loop = make_loop(config, load_tasks(config), load_model(config), None, lambda: False)  # type: ignore[arg-type]
    return request.param, loop, lambda: checkpoint.load(folder / "checkpoints" / f"step_{LAST}")["loop"]


def leaves(value: Any, where: Where = ()) -> Iterator[Where]:
    """Where the values are; the first of a list stands for all, and so does that of the optimizer's moments."""
    yield where
    if isinstance(value, dict):
        for key in list(value)[: 1 if where[-1:] == ("moments",) else None]:
            yield from leaves(value[key], (*where, key))
    elif isinstance(value, list) and value:
        yield from leaves(value[0], (*where, 0))


def put(state: Tree, where: Where, value: Any) -> Any:
    """Put a value in its place; returns what was there."""
    owner: Any = state
    for key in where[:-1]:
        owner = owner[key]
    before, owner[where[-1]] = owner[where[-1]], value
    return before


def alike(a: Any, b: Any) -> bool:
    """Whether two saved states are equal; a truth value is no number."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and same(a, b)
    return not isinstance(b, np.ndarray) and (type(a) is bool) == (type(b) is bool) and bool(a == b)


def spoilt(array: np.ndarray) -> Iterator[np.ndarray]:
    """Arrays that are not what one was."""
    yield from (array.astype(t) for t in (np.float64, np.float32, np.int64, np.int32, np.bool_) if t != array.dtype)
    yield array[None]
    if array.ndim == 2:
        yield array.T.copy()
    if array.ndim and len(array):
        yield array[1:]
    for value in (-5, 10**9, math.nan, math.inf):
        if array.size and array.dtype != np.bool_ and (math.isfinite(value) or array.dtype.kind == "f"):
            other = array.copy()
            other.flat[-1] = value
            yield other


def test_every_odd_value_is_refused_or_taken_as_it_is(saved: tuple[str, Loop, Callable[[], Tree]]) -> None:
    _name, loop, read = saved
    state = read()
    loop.load_state_dict(state)
    assert same(loop.state_dict(), read())
    refused, silent = 0, []
    for where in list(leaves(state))[1:]:
        before = put(state, where, None)
        arrays = list(spoilt(before)) if isinstance(before, np.ndarray) else []
        for value in (*ODD, *arrays):
            put(state, where, value)
            try:
                loop.load_state_dict(state)
            except REFUSED as error:
                assert len(str(error).splitlines()) == 1 and len(str(error)) < 1000
                refused += 1
                continue
            counted = type(before) is int and not set(where) & {"answer", "messages", "meta"}
            if not alike(loop.state_dict(), state) or (counted and type(value) is not int):
                silent.append((where, value))
        put(state, where, before)
    assert [(where, str(value)[:99]) for where, value in silent] == []
    loop.load_state_dict(state)
    assert same(loop.state_dict(), read()), "what was refused has left nothing behind"
    assert refused > 200


def first_moments(s: Tree) -> Tree:
    return next(m for m in s["learner"]["moments"].values() if m["exp_avg"].ndim == 2)


def one(s: Tree) -> Tree:
    return s["replay"]["entries"][0]["group"]["rollouts"][0]  # type: ignore[no-any-return]


def ahead(s: Tree) -> None:
    for r in s["replay"]["entries"][0]["group"]["rollouts"]:
        r["birth_step"] = LAST + 1
    s["replay"]["entries"][0]["born"] = LAST + 1


FAULTS: dict[str, tuple[str, Callable[[Tree], Any], str]] = {
    "moments of another shape": (
        "popo",
        lambda s: first_moments(s).update(exp_avg=first_moments(s)["exp_avg"].T.copy()),
        "an array of shape",
    ),
    "no moments": ("popo", lambda s: s["learner"].update(moments={}), "moments after 4 updates"),
    "moments and no updates": ("popo", lambda s: s["learner"].update(updates=0), "moments after 0 updates"),
    "moments of two updates": (
        "popo",
        lambda s: first_moments(s).update(step=np.array(1, dtype=np.float32)),
        "not all of one update",
    ),
    "moments ahead of the updates": (
        "popo",
        lambda s: first_moments(s).update(step=np.array(99, dtype=np.float32)),
        "from 0 to 4",
    ),
    "a negative second moment": (
        "popo",
        lambda s: first_moments(s).update(exp_avg_sq=-first_moments(s)["exp_avg_sq"] - 1),
        "finite numbers from 0",
    ),
    "fewer log-probs than tokens": ("popo", lambda s: one(s)["logprobs"].pop(), "other log-probs than tokens"),
    "fewer birth log-probs": ("popo", lambda s: one(s)["birth_logprobs"].pop(), "other log-probs than tokens"),
    "no tokens": (
        "popo",
        lambda s: one(s).update(completion_ids=[], logprobs=[], birth_logprobs=[]),
        "no tokens",
    ),
    "more tokens than allowed": ("popo", lambda s: one(s).update(completion_ids=[3] * 999), "more tokens than"),
    "tokens that the model has not": (
        "popo",
        lambda s: one(s).update(completion_ids=[999] * len(one(s)["completion_ids"])),
        "token ids that this model has not",
    ),
    "negative tokens": (
        "popo",
        lambda s: one(s).update(completion_ids=[-1] * len(one(s)["completion_ids"])),
        "negative token ids",
    ),
    "a prompt of its own": ("popo", lambda s: one(s)["prompt_ids"].append(3), "different prompts"),
    "no rollouts": ("popo", lambda s: s["replay"]["entries"][0]["group"].update(rollouts=[]), "other members"),
    "one rollout twice": (
        "popo",
        lambda s: s["replay"]["entries"][0]["group"]["rollouts"].append(one(s)),
        "other members",
    ),
    "born after the step": ("popo", ahead, "holds a group that is newer"),
    "more groups than were stored": (
        "popo",
        lambda s: s["replay"].update(entries=s["replay"]["entries"] * 200),
        "stands in it twice",
    ),
    "more groups than are counted": (
        "popo",
        lambda s: s["replay"].update(admitted=s["replay"]["admitted"] + 1),
        "not what its counts say",
    ),
    "a group that could not teach": (
        "popo",
        lambda s: [r.update(reward=1.0) for r in s["replay"]["entries"][0]["group"]["rollouts"]],
        "without reward variance",
    ),
    "books that do not balance": (
        "popo",
        lambda s: s["ledger"]["generated"].update(tokens=s["ledger"]["generated"]["tokens"] + 1),
        "no outcome, or two",
    ),
    "updates that were not booked": (
        "popo",
        lambda s: s["ledger"].update(updates=s["ledger"]["updates"] + 1),
        "not those of the learner",
    ),
    "a place beyond the epoch": ("popo", lambda s: s["curriculum"].update(place=10**12), "curriculum, place"),
    "a step before the groups": ("popo", lambda s: s.update(step=0), "is newer|more idle steps"),
    "a row drawn twice": (
        "arpo",
        lambda s: s["curriculum"].update(order=np.zeros(3, dtype=np.int64)),
        "different rows",
    ),
    "a success that is none": (
        "arpo",
        lambda s: s["replay"]["groups"]["verdict"][0].update(kind="wrong"),
        "not a correct rollout",
    ),
    "sizes that do not add up": (
        "per",
        lambda s: s["replay"]["groups"].update(size=s["replay"]["groups"]["size"] + 1),
        "the sizes of their groups",
    ),
    "one group that two stores tell apart": (
        "hybrid",
        lambda s: s["replay"]["reservoir"]["entries"][-1].update(uses=7),
        "not the same in both",
    ),
    "a waiting prompt of other data": (
        "pilot-commit",
        lambda s: s["allocation"]["buffer"]["entries"][0]["prompt"].update(answer="x"),
        "not one of this run's",
    ),
    "held and not booked": (
        "pilot-commit",
        lambda s: s["allocation"]["buffer"]["entries"].pop(),
        "not what the allocation holds",
    ),
}


def test_what_does_not_fit_together_is_refused(saved: tuple[str, Loop, Callable[[], Tree]]) -> None:
    name, loop, read = saved
    for fault, (method, spoil, told) in FAULTS.items():
        if method == name:
            state = read()
            spoil(state)
            with pytest.raises(ValueError, match=told):
                loop.load_state_dict(state)
                raise AssertionError(f"{fault} was taken")
    loop.load_state_dict(read())
