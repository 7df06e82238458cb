"""Runs that have stopped learning say so, and end where they are told to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwise import run
from rollwise.assemble import resolve
from rollwise.config import GuardConfig
from rollwise.console import Console
from rollwise.guard import Guard
from tests.conftest import Finished

Train = Callable[..., Any]


def numbers(right: float = 0.3, wrong: float = 0.3, entropy: float = 0.5) -> dict[str, float]:
    return {
        "frac_reward_zero_std": right + wrong,
        "dead/all_right": right,
        "dead/all_wrong": wrong,
        "entropy": entropy,
    }


def notes(guard: Guard, metrics: dict[str, float], steps: int) -> list[str]:
    return [n for _ in range(steps) for n in guard.observe(metrics, idle=False).notes]


@pytest.mark.parametrize(
    "metrics,words",
    [
        (numbers(right=0.96, wrong=0), "96% of groups were all right over the last 5 steps: too easy"),
        (numbers(right=0, wrong=0.95), "95% of groups were all wrong over the last 5 steps: too hard"),
        (numbers(right=0.5, wrong=0.49), "99% of groups had no reward variance over the last 5 steps"),
        (numbers(entropy=0.01), "entropy fell to 0.01 over the last 5 steps, from 0.5"),
    ],
)
def test_each_sign_is_told_once_and_again_after_it_has_gone(metrics: dict[str, float], words: str) -> None:
    guard = Guard(GuardConfig(window=5))
    assert notes(guard, numbers(), 5) == []
    assert notes(guard, metrics, 4) == []
    assert notes(guard, metrics, 5) == [words]
    assert notes(guard, numbers(), 5) == []
    assert notes(guard, metrics, 5) == [words]
    stopping = Guard(GuardConfig(window=5, action="stop"))
    notes(stopping, numbers(), 5)
    notes(stopping, metrics, 4)
    assert stopping.observe(metrics, idle=False).stop == ("collapse", words)
    silent = Guard(GuardConfig(window=5, action="off"))
    assert notes(silent, numbers(), 5) + notes(silent, metrics, 9) == []


@given(
    st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0, 2), st.booleans()), max_size=30), st.data()
)
def test_saving_in_the_middle_changes_nothing(steps: list[Any], data: Any) -> None:
    config = GuardConfig(window=3, dead=0.5, all_right=0.3, all_wrong=0.3, entropy_share=0.5, idle_steps=4)
    cut = data.draw(st.integers(0, len(steps)))
    whole, part = Guard(config), Guard(config)
    for i, (right, wrong, entropy, idle) in enumerate(steps):
        if i == cut:
            saved = json.loads(json.dumps(part.state_dict()))
            part = Guard(config)
            part.load_state_dict(saved)
        metrics = numbers(right, wrong, entropy)
        assert whole.observe(metrics, idle=idle) == part.observe(metrics, idle=idle)
    with pytest.raises(ValueError, match="state of guard"):
        part.load_state_dict({**part.state_dict(), "odd": 1})


NOBODY = {"nums": [1, 1, 1], "target": 999}  # no expression makes it


def unsolvable(tmp_path: Path, method: str, **more: Any) -> Finished:
    data, held = tmp_path / "train.jsonl", tmp_path / "held.jsonl"
    data.write_text("".join(json.dumps({**NOBODY, "target": 900 + i}) + "\n" for i in range(50)))
    held.write_text("".join(json.dumps({**NOBODY, "target": 800 + i}) + "\n" for i in range(8)))
    tree = {
        "method": method,
        "task": "countdown",
        "task_args": {"data": str(data), "heldout_data": str(held)},
        "prompts_per_step": 4,
        "group_size": 4,
        "budget": {"steps": 60, "rollouts": None},
        "guard": {"idle_steps": 6, "window": 3},
        "eval": {"every": None, "prompts": 8, "samples": 1},
        "allocation": {"max_rounds": 3},
        "log": {"report": False},
        "output": str(tmp_path / "run"),
        **more,
    }
    folder, _ = run.start(resolve([("test", tree)], shared=True), Console())  # by methods with and without rounds
    return Finished(folder)


@pytest.mark.parametrize("method", ["grpo", "dapo", "popo", "per", "pilot-commit", "srpo", "mopps-popo", "ppo", "arpo"])
def test_a_data_set_nobody_solves_ends_with_that_reason(tmp_path: Path, method: str) -> None:
    """Within its limits, and with the sign noted before."""
    done = unsolvable(tmp_path, method)
    said = [n for s in done.steps for n in s["notes"]]
    assert any("100% of groups were all wrong over the last 3 steps" in n for n in said)
    assert sum("of groups were all wrong" in n for n in said) == 1
    assert done.stop["reason"] == "dead", done.stop
    assert done.stop["detail"] == "no group could teach in 6 steps in a row (guard.idle_steps)"
    assert done.stop["step"] == 6 and done.ledger["idle_steps"] == 6
    assert done.ledger["outcomes"]["trained"]["rollouts"] == 0


def test_a_sign_ends_the_run_where_it_is_told_to(tmp_path: Path) -> None:
    done = unsolvable(tmp_path, "grpo", guard={"action": "stop", "window": 3})
    assert (done.stop["reason"], done.stop["step"]) == ("collapse", 3)
    assert "100% of groups were all wrong" in done.stop["detail"]


def test_a_run_that_learns_is_left_alone(train: Train) -> None:
    done = train("popo", {"budget.steps": 4, "guard.window": 2, "guard.action": "stop"})
    assert done.stop["reason"] == "budget.steps"


def test_seconds_end_a_step_between_its_rounds(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds that would go on for long are not begun once the time is over; a checkpoint knows the time used."""
    from rollwise import checkpoint

    now = [1000.0]
    monkeypatch.setattr("rollwise.loop.time.monotonic", lambda: now[0])
    from rollwise.sampling.torch_sampler import TorchSampler

    original = TorchSampler.generate

    def slow(self: Any, *args: Any, **kwargs: Any) -> Any:
        now[0] += 10
        return original(self, *args, **kwargs)

    monkeypatch.setattr(TorchSampler, "generate", slow)
    settings = {"budget.seconds": 35, "budget.steps": 50, "checkpoint.every": 1, "allocation.max_rounds": 50}
    done = train("dapo", {**settings, "task_args": {"min_digits": 19, "max_digits": 20}})
    assert done.stop["reason"] == "budget.seconds"
    assert sum(done.metric("rounds")) <= 4
    assert "the run's budget" in done.steps[-1]["notes"][0]
    last = checkpoint.steps(done.folder / "checkpoints")[-1]
    assert checkpoint.load(done.folder / "checkpoints" / f"step_{last}")["loop"]["seconds"] >= 35
