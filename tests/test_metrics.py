"""Numbers of a step whose groups are generated in two parts, and the causes a short step names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rollwise.allocation.bounds import Bounds
from rollwise.records import Group, Purpose
from tests.conftest import Finished, Tree

Train = Callable[..., Any]


def joined(groups: list[Tree]) -> list[list[Tree]]:
    """Rollouts of each prompt first asked in a step: a pilot with the commit of the same step, or a whole group."""
    commits = {g["uid"]: g["rollouts"] for g in groups if g["purpose"] == "commit"}
    return [g["rollouts"] + commits.get(g["uid"], []) for g in groups if g["purpose"] != "commit"]


def test_shares_of_a_pilot_commit_run_are_of_the_prompts_asked_in_the_step(train: Train) -> None:
    run: Finished = train(
        "pilot-commit",
        {
            "task_args.max_digits": 12,
            "prompts_per_step": 4,
            "group_size": 8,
            "allocation.pilot.prompts": 8,
            "budget.steps": 5,
            "log.rollouts": True,
        },
    )
    lone = 0
    for step in run.steps:
        groups = [g for g in run.groups() if g["step"] == step["step"]]
        first = joined(groups)
        lone += sum(g["purpose"] == "commit" for g in groups) - sum(len(r) == 8 for r in first)
        metrics = step["metrics"]
        rewards = [[r["reward"] for r in members] for members in first]
        dead = [values for values in rewards if max(values) == min(values)]
        assert metrics["frac_reward_zero_std"] == pytest.approx(len(dead) / len(first))
        assert metrics["dead/all_right"] == pytest.approx(sum(v[0] == 1 for v in dead) / len(first))
        assert metrics["informative"] == pytest.approx(1 - len(dead) / len(first))
        everyone = [r["reward"] for g in groups for r in g["rollouts"]]
        assert metrics["reward"] == pytest.approx(sum(everyone) / len(everyone)), "of all rollouts, commits too"
    assert lone > 0, "some commits follow a pilot of an earlier step and make no group of their own"


def test_rounds_that_the_budget_made_small_name_the_budget() -> None:
    def ended(room: int) -> str:
        bounds = Bounds(max_rounds=2, max_rollouts=None, on_limit="partial")
        for size in (48, 10):
            assert bounds.allow(room + 58, 4)
            bounds.take(size)
        assert not bounds.allow(room, 4)
        return bounds.close("pilot and commit", 3, 8)[1]

    assert ended(47).startswith("pilot and commit reached the run's budget with 3 of 8 informative groups")
    assert ended(48).startswith("pilot and commit reached max_rounds (2) with")


def test_commits_join_their_pilots() -> None:
    from rollwise.metrics import asked
    from rollwise.records import Prompt
    from tests.pilots import member

    def part(uid: str, members: range, purpose: Purpose) -> Group:
        prompt = Prompt(uid=uid, text=uid)
        return Group(
            uid=prompt.group_uid,
            prompt=prompt,
            purpose=purpose,
            rollouts=tuple(member(prompt, i, "right" if i else "wrong", 1) for i in members),
        )

    groups = [
        part("a", range(2), Purpose.pilot),
        part("b", range(2, 6), Purpose.commit),
        part("a", range(2, 5), Purpose.commit),
        part("c", range(4), Purpose.whole),
    ]
    assert [(g.prompt.uid, g.size) for g in asked(groups)] == [("a", 5), ("c", 4)]
