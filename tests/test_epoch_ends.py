"""What happens to what waits, and to the run, where an epoch, a stage or the data ends; and what short batches cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollwise import run
from rollwise.assemble import resolve
from rollwise.config import merge, nest
from rollwise.console import Console
from rollwise.ledger import price_of_a_group
from rollwise.records import Group, Outcome, Prompt, Purpose, Settled, StopReason
from tests.conftest import SMALL, Finished
from tests.pilots import member

Train = Callable[..., Any]

TWO = {
    "a": {"task": "sort_digits", "args": {"min_digits": 9, "max_digits": 13, "train_size": 4000}},
    "b": {"task": "sort_digits", "args": {"min_digits": 8, "max_digits": 12, "train_size": 4000}},
}
COMMON = {"prompts_per_step": 4, "group_size": 8, "log.rollouts": True}


@pytest.fixture
def several(tmp_path: Path) -> Callable[..., Finished]:
    """A run on several data sets."""

    def go(method: str, settings: dict[str, Any]) -> Finished:
        tree = {k: v for k, v in SMALL.items() if k != "task_args"} | {
            "method": method,
            "output": str(tmp_path / "run"),
        }
        for dotted, value in {**COMMON, **settings}.items():
            tree = merge(tree, nest(dotted, value))
        folder, _ = run.start(resolve([("test", tree)]), Console())
        return Finished(folder)

    return go


def test_pilots_do_not_outlive_their_stage(several: Train) -> None:
    stages = [{"tasks": {"a": 1}, "until": {"steps": 3}}, {"tasks": {"b": 1}}]
    done = several("pilot-commit", {"tasks": TWO, "curriculum.stages": stages, "budget.steps": 6})
    of = [(g["step"], g["prompt"]["task"], g["purpose"]) for g in done.groups()]
    assert {task for step, task, _ in of if step > 3} == {"b"}
    waiting = done.steps[2]["ledger"]["outcomes"]["held"]["rollouts"]
    lost = [s["ledger"]["outcomes"]["lost_at_epoch_end"]["rollouts"] for s in done.steps]
    assert waiting > 0 and lost[3] - lost[2] == waiting
    assert {purpose for step, _, purpose in of if step == 4} >= {"pilot"}


@pytest.mark.parametrize("kind", ["uniform", "mopps"])
def test_pilots_do_not_outlive_their_epoch(train: Train, kind: str) -> None:
    """MoPPS passes through the data faster than it draws: unchosen candidates are used up."""
    settings = {
        **COMMON,
        "task_args": {"min_digits": 9, "max_digits": 14, "train_size": 60},
        "curriculum.kind": kind,
        "curriculum.mopps.pool_factor": 2 if kind == "mopps" else 8,
        "budget.steps": 8,
    }
    done = train("pilot-commit-keep", settings)
    assert done.metric("epoch")[-1] > 2
    born = {g["uid"]: g["prompt"]["occurrence"] for g in done.groups() if g["purpose"] == "pilot"}
    commits = [g for g in done.groups() if g["purpose"] == "commit"]
    assert commits and all(born[g["uid"]] == g["prompt"]["occurrence"] for g in commits)
    assert done.ledger["outcomes"]["lost_at_epoch_end"]["rollouts"] > 0


def test_a_stage_without_prompts_gives_way_to_the_next(several: Train) -> None:
    """Data set a is solved in the first step and left out; two stages want it, and the third goes on with b."""
    tasks = {"a": {"task": "sort_digits", "args": {"min_digits": 2, "max_digits": 2, "train_size": 4}}, "b": TWO["b"]}
    stages = [
        {"tasks": {"a": 1}, "until": {"epochs": 9}},
        {"tasks": {"a": 1}, "until": {"steps": 2}, "reset": []},
        {"tasks": {"b": 1}, "reset": ["optimizer"]},
    ]
    settings = {"tasks": tasks, "curriculum.stages": stages, "curriculum.drop_solved": True}
    done = several("grpo", {**settings, "sampling.temperature": 0.05, "budget.steps": 6})
    assert done.stop["reason"] == "budget.steps"
    said = [n for s in done.steps for n in s["notes"] if "stage" in n]
    assert said == [said[0]] and "stage 1 of 3 ended" in said[0] and "stage 2 of 3 ended after 0 steps" in said[0]
    assert all(
        s["metrics"]["task/a/rollouts" if "task/a/rollouts" in s["metrics"] else "task/b/rollouts"] for s in done.steps
    )
    assert done.steps[-1]["metrics"]["curriculum/stage"] == 3
    assert all(s["ledger"]["generated"]["rollouts"] == 32 * s["step"] for s in done.steps), "no step without rollouts"


def test_a_run_whose_data_is_used_up_ends_without_an_empty_step(train: Train) -> None:
    settings = {"task_args": {"min_digits": 2, "max_digits": 2, "train_size": 6}, "sampling.temperature": 0.05}
    done = train("grpo", {**settings, "curriculum.drop_solved": True, "budget.steps": 30})
    assert (done.stop["reason"], done.stop["detail"]) == (
        "curriculum.empty",
        "the curriculum has no prompt left to draw",
    )
    generated = [s["ledger"]["generated"]["rollouts"] for s in done.steps]
    assert all(b > a for a, b in zip([0, *generated], generated, strict=False))


def test_short_batches_are_not_called_full(train: Train) -> None:
    done = train("dapo", {"allocation.max_rounds": 1, "budget.steps": 4})
    short = [s for s in done.steps if s["notes"]]
    assert short and done.ledger["refill"]["rollouts"] + done.ledger["refill"]["unknown"] > 0
    for s in short:
        groups = s["metrics"]["batch/groups"]
        assert s["metrics"]["replay/filled"] == pytest.approx(groups / 6) and groups < 6


def test_what_one_more_group_would_have_cost() -> None:
    def group(i: int, marks: str, purpose: Purpose = Purpose.whole) -> Group:
        p = Prompt(uid=str(i), text="x")
        words = {"+": "right", "-": "wrong"}
        rollouts = tuple(member(p, m, words[c], 1) for m, c in enumerate(marks))
        return Group(uid=p.group_uid, prompt=p, rollouts=rollouts, purpose=purpose)

    def settled(groups: list[Group], *dropped: Group) -> Settled:
        out = tuple((Outcome.dropped_hard, g) for g in dropped)
        return Settled(groups=tuple(groups), slots=9, wanted=9, outcomes=out)

    whole = [group(1, "++--"), group(2, "----"), group(3, "++++"), group(4, "+---")]
    assert price_of_a_group(settled(whole), whole) == 8  # 4 rollouts, half of the groups alive
    assert price_of_a_group(settled([whole[1]]), [whole[1]]) is None
    pilots = [group(i, "+-", Purpose.pilot) for i in range(11)] + [group(i, "--", Purpose.pilot) for i in range(11, 36)]
    commits = [group(i, "++--++", Purpose.commit) for i in range(5)]
    union = [group(i, "+-++--++") for i in range(5)]
    fresh = [*pilots, *commits]
    assert price_of_a_group(settled(union, *pilots[11:]), fresh) == pytest.approx(2 * 36 / 11 + 6)
    assert price_of_a_group(settled([*union, group(9, "++++++++")], *pilots[11:]), fresh) == pytest.approx(
        (2 * 36 / 11 + 6) * 6 / 5
    )
    assert price_of_a_group(settled([], *pilots[11:]), pilots) is None


def test_rollouts_without_advantage_for_their_length_are_not_called_trained(train: Train, batches: list[Any]) -> None:
    settings = {"sampling.max_completion_length": 8, "task_args": {"min_digits": 5, "max_digits": 9}, "budget.steps": 4}
    done = train("srpo", settings)
    taught = {row.unit: batch.step for batch, _ in batches for row in batch.rows if row.credit.teaches}
    assert taught
    cut = trained = 0
    for batch, _ in batches:
        units = {row.unit for row in batch.rows if row.credit.teaches}
        for row in batch.rows:
            is_cut = row.rollout.stop is StopReason.length and not row.credit.teaches
            cut += row.unit in units and is_cut
            trained += row.unit in units and not is_cut
    assert cut > 0
    assert done.ledger["outcomes"]["truncated"]["rollouts"] == cut
    assert done.ledger["outcomes"]["trained"]["rollouts"] == trained
