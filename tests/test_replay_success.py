"""Success injection: who is replaced by what, and the books, through the real loop over several epochs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.advantage import group_advantage
from rollwise.learner.learner import Learner
from rollwise.records import Batch, Group, Placed, Role, Verdict, VerdictKind
from rollwise.replay.success import SuccessReplay
from tests.samples import group
from tests.test_resume import again, without_settings

Train = Callable[..., Any]
# A small data set of hard prompts, so that some are solved once and failed later.
EPOCHS = {
    "task_args.train_size": 12,
    "task_args.min_digits": 7,
    "task_args.max_digits": 12,
    "sampling.temperature": 1.3,
    "budget.steps": 12,
    "learner.lr": 3e-4,
    "log.rollouts": True,
}


def nothing(rollouts: Any) -> list[np.ndarray]:
    raise AssertionError("no log-probs are needed")


def of_prompt(uid: str, right: list[bool], step: int) -> Group:
    """A group of prompt `uid`, drawn in `step`."""
    first = group(1, step=step)
    good, bad = first.rollouts
    prompt = dataclasses.replace(first.prompt, uid=uid, occurrence=step)
    members = tuple(
        dataclasses.replace(good if r else bad, group_uid=prompt.group_uid, member=i) for i, r in enumerate(right)
    )
    return Group(uid=prompt.group_uid, prompt=prompt, rollouts=members)


def store(**over: Any) -> SuccessReplay:
    return SuccessReplay(**{"seed": 0, "per_prompt": 8, "max_age": None, "capacity": 1000, **over})


def seats(groups: list[Group]) -> list[Placed]:
    return [Placed(group=g, role=Role.fresh) for g in groups]


def only(placed: list[Placed]) -> Group:
    (seat,) = placed
    assert seat.role is Role.fresh and seat.credits is None
    return seat.group


def test_beyond_the_capacity_the_prompts_solved_longest_ago_give_up_theirs() -> None:
    s = store(capacity=4)
    for step, uid in enumerate("abca", 1):
        s.store(seats([of_prompt(uid, [True], step)]), step)
    assert [len(kept) for kept in s.successes.values()] == [1, 1, 2] and list(s.successes) == ["b", "c", "a"]
    s.store(seats([of_prompt("d", [True, True, False], 5)]), 5)
    assert {uid: len(kept) for uid, kept in s.successes.items()} == {"a": 2, "d": 2}
    assert s.metrics()["replay/size"] == s.size == 4
    again = store(capacity=4)
    again.load_state_dict(s.state_dict())
    for part in (s, again):
        part.store(seats([of_prompt("e", [True], 6)]), 6)
    assert list(again.successes) == list(s.successes) == ["a", "d", "e"]
    assert again.metrics() == s.metrics() and len(s.successes["a"]) == 1


def test_the_first_member_of_a_failed_group_gives_way() -> None:
    s = store()
    solved = of_prompt("p", [False, True, False], 1)
    s.store(seats([solved]), 1)
    failed = of_prompt("p", [False, False, False], 2)
    mixed = only(s.compose([failed], 1, 2, nothing))
    assert mixed.uid == failed.uid and mixed.rollouts[1:] == failed.rollouts[1:]
    assert mixed.rollouts[0] is solved.rollouts[1]
    for other in (of_prompt("p", [True] * 3, 3), of_prompt("p", [False, True, False], 3), of_prompt("q", [False], 3)):
        assert only(s.compose([other], 1, 3, nothing)) is other


def test_injection_comes_before_this_steps_successes() -> None:
    s = store()
    fresh = [of_prompt("p", [True, False], 1), of_prompt("p", [False, False], 1)]
    assert [p.group for p in s.compose(fresh, 2, 1, nothing)] == fresh
    s.store(seats(fresh), 1)
    assert only(s.compose([of_prompt("p", [False, False], 2)], 1, 2, nothing)).rollouts[0].correct


def test_the_latest_successes_are_kept_and_drawn_evenly() -> None:
    s = store(per_prompt=3)
    for step in range(1, 6):
        s.store(seats([of_prompt("p", [True, False], step)]), step)
    assert [x.rollout.birth_step for x in s.successes["p"]] == [3, 4, 5]
    counts = dict.fromkeys((3, 4, 5), 0)
    for seed in range(900):
        s.seed = seed
        counts[only(s.compose([of_prompt("p", [False, False], 6)], 1, 6, nothing)).rollouts[0].birth_step] += 1
    assert sum((n - 300) ** 2 / 300 for n in counts.values()) < 13.8, "0.001 of chi-square with 2 degrees"


def test_no_success_serves_twice_in_a_step() -> None:
    s = store()
    s.store(seats([of_prompt("p", [True, False], 1)]), 1)
    again = [of_prompt("p", [False, False], 2), of_prompt("p", [False, False], 3)]
    placed = s.compose(again, 2, 4, nothing)
    assert [p.group.rollouts[0].correct for p in placed] == [True, False]


def test_a_failing_verifier_is_no_failure_of_the_group() -> None:
    s = store()
    s.store(seats([of_prompt("p", [True, False], 1)]), 1)
    g = of_prompt("p", [False, False], 2)
    lost = Verdict(kind=VerdictKind.infra_error, score=0.0)
    unknown = dataclasses.replace(g, rollouts=tuple(dataclasses.replace(r, verdict=lost) for r in g.rollouts))
    assert only(s.compose([unknown], 1, 2, nothing)) is unknown


def test_age_limit() -> None:
    s = store(max_age=2)
    s.store(seats([of_prompt("p", [True, False], 1)]), 1)
    right = [only(s.compose([of_prompt("p", [False, False], t)], 1, t, nothing)).rollouts[0].correct for t in (2, 3, 4)]
    assert right == [True, True, False]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("pqr"), st.lists(st.booleans(), min_size=2, max_size=4)), max_size=3),
            st.booleans(),
        ),
        max_size=10,
    ),
    st.integers(1, 4),
)
def test_saving_and_loading_is_invisible(steps: list[Any], per_prompt: int) -> None:
    s, twin = store(per_prompt=per_prompt), store(per_prompt=per_prompt)
    for step, (drawn, reload) in enumerate(steps, start=1):
        fresh = [of_prompt(uid, right, step) for uid, right in dict(drawn).items()]
        if reload:
            state = twin.state_dict()
            twin = store(per_prompt=per_prompt)
            twin.load_state_dict(state)
        before = {uid: {x.rollout.key for x in kept} for uid, kept in s.successes.items()}
        a, b = (each.compose(fresh, len(fresh), step, nothing) for each in (s, twin))
        assert [[r.key for r in p.group.rollouts] for p in a] == [[r.key for r in p.group.rollouts] for p in b]
        assert s.metrics() == twin.metrics()
        for placed, own in zip(a, fresh, strict=True):
            first = placed.group.rollouts[0]
            if own.pass_rate > 0 or not before.get(own.prompt.uid):
                assert placed.group is own
            else:
                assert first.correct and first.key in before[own.prompt.uid]
        for each in (s, twin):
            each.store(seats(fresh), step)
        assert all(len(kept) <= per_prompt for kept in s.successes.values())


def test_injections_through_the_real_loop(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, credits of the mixed group, roles and the ledger, over six epochs of twelve prompts."""
    batches: list[Batch] = []
    original = Learner.update

    def spy(self: Learner, batch: Batch, signals: Any) -> Any:
        batches.append(batch)
        return original(self, batch, signals)

    monkeypatch.setattr(Learner, "update", spy)
    run = train("arpo", EPOCHS)
    born: dict[Any, Any] = {}
    injected = 0
    groups = [Group.from_json({k: v for k, v in g.items() if k != "step"}) for g in run.groups()]
    prompts = {r.key: g.prompt.uid for g in groups for r in g.rollouts}
    for batch in batches:
        units: dict[int, list[Any]] = {}
        for row in batch.rows:
            units.setdefault(row.unit, []).append(row)
        for rows in units.values():
            advantage = group_advantage([r.rollout.reward for r in rows], ddof=1).tolist()
            assert [r.credit.advantage for r in rows] == advantage
            first, *rest = rows
            assert all(r.role is Role.fresh for r in rest)
            if first.role is Role.replay:
                injected += 1
                assert first.rollout.correct and not any(r.rollout.correct for r in rest)
                assert first.age == batch.step - first.rollout.birth_step > 0
                source = born[first.rollout.key]
                np.testing.assert_array_equal(first.rollout.completion_ids, source.completion_ids)
                assert prompts[first.rollout.key] == prompts[rest[0].rollout.key]
                assert all(r.credit.teaches for r in rows)
            born.update({r.rollout.key: r.rollout for r in rows if r.role is Role.fresh})
    assert injected > 3
    assert injected == run.ledger["replayed"]["rollouts"] == sum(run.metric("replay/rollouts"))
    alive = sum(g.informative for g in groups)
    hard = sum(not g.informative and g.pass_rate != 1 for g in groups)
    outcomes = {k: v["rollouts"] for k, v in run.ledger["outcomes"].items()}
    assert outcomes["trained"] == 4 * alive + 3 * injected
    assert outcomes["dropped_hard"] == 4 * (hard - injected) + injected
    assert sum(outcomes.values()) == run.ledger["generated"]["rollouts"]
    assert {v for v in run.metric("weight/applied_mean") if v is not None} <= {1.0}, "treated as on-policy"


def test_on_prompts_that_never_come_again_it_is_grpo(train: Train) -> None:
    a = train("arpo", {"budget.steps": 3}, name="a")
    b = train("grpo", {"budget.steps": 3, "objective.clip_high": 0.3}, name="b")
    assert a.weights() == b.weights()
    assert train("arpo", EPOCHS, name="c").weights() != train("grpo", EPOCHS, name="d").weights()


def test_stopped_and_resumed_between_injections(train: Train) -> None:
    whole = train("arpo", EPOCHS, name="whole")
    train("arpo", {**EPOCHS, "budget.steps": 7}, name="cut")
    cut = again(whole.folder.parent / "cut", budget__steps=12)
    assert sum(cut.metric("replay/rollouts")[7:]) > 0
    assert without_settings(cut.events) == without_settings(whole.events)
    assert cut.weights() == whole.weights()


def test_foreign_state_is_refused() -> None:
    with pytest.raises(ValueError, match="state of replay"):
        store().load_state_dict({"groups": {}})
