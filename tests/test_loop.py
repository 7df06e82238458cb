"""The loop: ledger, budget, bounded rounds, equal runs, evaluation."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.allocation.bounds import Bounds
from rollwise.allocation.dynamic import Dynamic
from rollwise.curriculum.uniform import Uniform
from rollwise.evaluate import pass_at_k
from rollwise.methods import METHODS, method_names
from rollwise.records import Group, Outcome, Prompt, Request, StopReason, Verdict, VerdictKind
from rollwise.tasks.sort_digits import SortDigits
from tests.conftest import acting
from tests.samples import group

Train = Callable[..., Any]


# Estimators with statistics of the batch or a critic: a group of equal rewards can teach.
DEAD_GROUPS_TEACH = ("reinforce++", "reinforce++-baseline", "gae")


def never(text: str, answer: object, stop: StopReason) -> Verdict:
    return Verdict(kind=VerdictKind.wrong, score=0.0)


def recount(run: Any) -> dict[str, list[int]]:
    """Rollouts and tokens of each step, from the groups written out."""
    out: dict[str, list[int]] = {}
    for g in run.groups():
        entry = out.setdefault(str(g["step"]), [0, 0])
        entry[0] += len(g["rollouts"])
        entry[1] += sum(len(r["completion_ids"]) for r in g["rollouts"])
    return out


@pytest.mark.parametrize("method", method_names())
def test_ledger_balances_after_every_step_and_equals_a_recount(train: Train, method: str) -> None:
    run = train(method, {"log.rollouts": True, **acting(method)})
    counted = recount(run)
    rollouts = tokens = 0
    for step in run.steps:
        rollouts += counted[str(step["step"])][0]
        tokens += counted[str(step["step"])][1]
        ledger = step["ledger"]
        assert ledger["generated"] == {"rollouts": rollouts, "tokens": tokens}
        for unit, total in (("rollouts", rollouts), ("tokens", tokens)):
            assert sum(o[unit] for o in ledger["outcomes"].values()) == total
    whole: dict[str, list[Any]] = {}
    for g in run.groups():  # a group may be generated in parts
        whole.setdefault(g["uid"], []).extend(g["rollouts"])
    dead = [rs for rs in whole.values() if len({r["reward"] for r in rs}) == 1]
    right = sum(len(rs) for rs in dead if all(r["verdict"]["kind"] == "correct" for r in rs))
    mixed = sum(map(len, whole.values())) - sum(map(len, dead))
    outcomes = {name: count["rollouts"] for name, count in run.ledger["outcomes"].items()}
    living = ("trained", "surplus", "truncated", "held", "stale", "lost_at_epoch_end")
    used = sum(outcomes[o] for o in living)
    if METHODS[method].settings["advantage.kind"] in DEAD_GROUPS_TEACH:
        assert used > mixed and outcomes["dropped_easy"] < right
    else:
        assert used == mixed and outcomes["dropped_easy"] == right
    assert run.ledger["replayed"]["rollouts"] == sum(run.metric("replay/rollouts"))
    assert run.ledger["evaluation"]["rollouts"] == 8 * len(run.evals)


@pytest.mark.parametrize("method", ["grpo", "dapo", "popo", "popo-kl"])
def test_two_runs_with_one_seed_write_the_same_bytes(train: Train, method: str) -> None:
    a, b = train(method, name="a"), train(method, name="b")
    assert a.bytes == b.bytes
    assert a.weights() == b.weights()
    c = train(method, {"seed": 1}, name="c")
    assert c.weights() != a.weights()


def test_events_hold_no_clock_time(train: Train) -> None:
    run = train("popo")
    said = [e for e in run.events if e["event"] != "run"]  # that one holds the settings, budget.seconds among them
    assert len(said) > 3
    assert not [k for e in said for k in json.dumps(e).split('"') if k in ("seconds", "time", "date", "total")]
    assert (run.folder / "clock.jsonl").read_text().count("\n") == len(run.steps)


@pytest.mark.parametrize(
    "budget,reason,steps",
    [
        ({"budget.steps": 3}, "budget.steps", 3),
        ({"budget.rollouts": 60}, "budget.rollouts", 2),
        ({"budget.rollouts": 24, "budget.steps": 9}, "budget.rollouts", 1),
        ({"budget.tokens": 150}, "budget.tokens", None),
        ({"budget.seconds": 0.001}, "budget.seconds", 0),
    ],
)
def test_a_run_stops_at_its_budget_and_says_why(
    train: Train, budget: dict[str, Any], reason: str, steps: int | None
) -> None:
    run = train("grpo", {"budget.steps": None, **budget})
    assert run.stop["event"] == "stop" and run.stop["reason"] == reason
    assert run.stop["detail"]
    if steps is not None:
        assert len(run.steps) == steps
    if reason == "budget.rollouts":
        assert run.ledger["generated"]["rollouts"] <= budget["budget.rollouts"]
    if reason == "budget.tokens":
        before = run.steps[-2]["ledger"]["generated"]["tokens"] if len(run.steps) > 1 else 0
        assert before < 150 <= run.ledger["generated"]["tokens"]


def test_dapo_generates_until_full_and_counts_its_rounds(train: Train) -> None:
    run = train("dapo", {"log.rollouts": True})
    assert max(run.metric("rounds")) > 1
    for step in run.steps:
        assert step["metrics"]["replay/filled"] == 1.0 and step["metrics"]["batch/groups"] == 6
        generated = [g for g in run.groups() if g["step"] == step["step"]]
        assert len(generated) == 6 * step["metrics"]["rounds"]
    assert run.ledger["rounds"] == sum(run.metric("rounds"))
    assert run.ledger["outcomes"]["surplus"]["rollouts"] > 0
    assert run.ledger["refill"] == {"rollouts": 0.0, "unknown": 0}


@pytest.mark.parametrize("limit,rounds", [({"allocation.max_rounds": 2}, 2), ({"allocation.max_rollouts": 40}, 2)])
@pytest.mark.parametrize("on_limit", ["partial", "stop"])
def test_dead_data_ends_within_its_bounds(
    train: Train, monkeypatch: pytest.MonkeyPatch, limit: dict[str, int], rounds: int, on_limit: str
) -> None:
    monkeypatch.setattr(SortDigits, "verify", staticmethod(never))
    run = train("dapo", {**limit, "allocation.on_limit": on_limit})
    assert run.metric("rounds") == [float(rounds)] * len(run.steps)
    assert "0 of 6 informative groups" in run.steps[0]["notes"][0]
    assert run.stop["reason"] == ("allocation.limit" if on_limit == "stop" else "budget.steps")
    assert len(run.steps) == (1 if on_limit == "stop" else 4)
    assert run.stop["ledger"]["updates"] == 0
    assert run.ledger["outcomes"]["dropped_hard"]["rollouts"] == run.ledger["generated"]["rollouts"]
    if "allocation.max_rollouts" in limit:
        assert run.steps[0]["ledger"]["generated"]["rollouts"] == 40


@pytest.mark.parametrize("method", ["grpo", "popo", "grpo-filter", "popo-ineff"])
def test_no_informative_group_and_no_buffer_means_no_update(
    train: Train, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(SortDigits, "verify", staticmethod(never))
    run = train(method)
    assert run.steps[-1]["updates"] == 0 and len(run.steps) == 4
    unknown = run.ledger["refill"]["unknown"]
    assert unknown == 24, "nothing can be said of the cost of filling these slots"


def test_dapo_leaves_the_gap_to_replay(train: Train) -> None:
    settings_ = {
        "replay.kind": "recent",
        "objective.kind": "decoupled",
        "allocation.on_limit": "replay",
        "allocation.max_rounds": 1,
        "budget.steps": 6,
    }
    run = train("dapo", settings_)
    assert max(run.metric("replay/groups")) > 0
    assert run.metric("batch/groups")[-1] == 6


def test_carried_surplus_is_held_then_trained(train: Train) -> None:
    run = train("dapo", {"allocation.surplus": "carry", "budget.steps": 6, "log.rollouts": True})
    held = [s["ledger"]["outcomes"]["held"]["rollouts"] for s in run.steps]
    assert max(held) > 0
    assert run.ledger["outcomes"]["surplus"]["rollouts"] == 0
    for step in run.steps:
        ledger = step["ledger"]
        assert sum(o["rollouts"] for o in ledger["outcomes"].values()) == ledger["generated"]["rollouts"]
    assert held[-1] == 4 * run.metric("surplus_carried")[-1]


def test_a_failing_verifier_is_no_verdict(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    original = SortDigits.verify

    def flaky(self: Any, text: str, answer: object, stop: StopReason) -> Verdict:
        nonlocal calls
        calls += 1
        if calls % 5 == 0:
            raise RuntimeError("the judge fell asleep")
        if calls % 7 == 0:
            return Verdict(kind=VerdictKind.correct, score=float("nan"))
        return original(self, text, answer, stop)

    monkeypatch.setattr(SortDigits, "verify", flaky)
    run = train("popo", {"log.rollouts": True})
    lost = sum(r["verdict"]["kind"] == "infra_error" for g in run.groups() for r in g["rollouts"])
    assert lost > 20
    assert run.ledger["outcomes"]["infra_error"]["rollouts"] == lost
    assert run.metric("verifier/infra_error")[0] > 0


def test_evaluations_come_at_both_cadences(train: Train) -> None:
    run = train("grpo", {"budget.steps": 7, "eval.every": 3, "eval.every_rollouts": 50})
    assert [(e["step"], e["on"]) for e in run.evals] == [
        (0, ["start"]),
        (3, ["steps", "rollouts"]),
        (5, ["rollouts"]),
        (6, ["steps"]),
        (7, ["rollouts"]),
    ]
    assert {json.dumps(e["sampling"]) for e in run.evals} == {json.dumps(run.evals[0]["sampling"])}


def test_pass_at_k_vectors() -> None:
    assert pass_at_k(8, 1, 4) == 0.5
    assert pass_at_k(16, 3, 8) == pytest.approx(0.9)
    assert pass_at_k(16, 2, 1) == 0.125
    assert pass_at_k(8, 3, 8) == 1.0
    assert pass_at_k(8, 0, 3) == 0.0
    assert [pass_at_k(4, 1, k) for k in (1, 2, 4)] == [0.25, 0.5, 1.0]
    for bad in ((4, 5, 1), (4, 1, 5), (4, 1, 0)):
        with pytest.raises(ValueError):
            pass_at_k(*bad)


# --- allocation and curriculum on their own --------------------------------------------------------------------------


class Numbers:
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Prompt:
        return Prompt(uid=f"n:{index}", text=str(index))


@given(st.integers(1, 30), st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(0, 3))
def test_uniform_draws_each_prompt_once_an_epoch(size: int, counts: list[int], seed: int) -> None:
    whole, parts = Uniform(Numbers(size), seed=seed), Uniform(Numbers(size), seed=seed)
    drawn = []
    for c in counts:
        drawn += parts.draw(c)
        state = parts.state_dict()
        parts = Uniform(Numbers(size), seed=seed)
        parts.load_state_dict(state)
    assert drawn == whole.draw(sum(counts)), "saving and loading anywhere is invisible"
    assert len({p.group_uid for p in drawn}) == len(drawn)
    for epoch in range(len(drawn) // size):
        assert {p.uid for p in drawn[epoch * size : (epoch + 1) * size]} == {f"n:{i}" for i in range(size)}


def test_uniform_state_of_other_data_is_refused() -> None:
    state = Uniform(Numbers(4), seed=0).state_dict()
    with pytest.raises(ValueError, match="for 4 prompts; this data set has 5"):
        Uniform(Numbers(5), seed=0).load_state_dict(state)


@settings(max_examples=200, deadline=None)
@given(
    prompts=st.integers(1, 6),
    max_rounds=st.integers(1, 4),
    max_rollouts=st.one_of(st.none(), st.integers(2, 20)),
    room=st.integers(0, 40),
    surplus=st.sampled_from(["drop", "carry"]),
    coin=st.randoms(use_true_random=False),
)
def test_dynamic_is_bounded_and_loses_nothing(
    prompts: int, max_rounds: int, max_rollouts: int | None, room: int, surplus: Any, coin: Any
) -> None:
    allocation = Dynamic(
        prompts=prompts,
        group_size=2,
        bounds=Bounds(max_rounds=max_rounds, max_rollouts=max_rollouts, on_limit="partial"),
        surplus=surplus,
    )
    source = Uniform(Numbers(1000), seed=0)
    number = 0

    waiting = 0
    for step in (1, 2, 3):
        left, made, rounds = room, 0, 0
        while requests := allocation.plan(source, left):
            rounds += 1
            assert all(isinstance(r, Request) and r.count == 2 for r in requests)
            left -= 2 * len(requests)
            made += len(requests)
            number += 100
            groups: Sequence[Group] = [
                group(number + i, alive=coin.random() < 0.5, step=step) for i in range(len(requests))
            ]
            allocation.observe(groups)
        assert rounds <= max_rounds and left >= 0 and 2 * made <= (max_rollouts or 10**9)
        settled = allocation.settle()
        held = sum(o is Outcome.held for o, _ in settled.outcomes)
        assert len(settled.groups) + len(settled.outcomes) == made + waiting, "every group comes out once"
        assert len(settled.groups) <= prompts and all(g.informative for g in settled.groups)
        assert (len(settled.groups) == prompts) != bool(settled.note)
        waiting = held
        assert len(allocation.carried) == held
