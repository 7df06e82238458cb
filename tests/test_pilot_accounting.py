"""No rollout of the pilot allocation is lost or counted twice, whatever the verdicts."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.allocation.bounds import Bounds
from rollwise.allocation.dynamic import Dynamic
from rollwise.config import build
from rollwise.curriculum.uniform import Uniform
from rollwise.errors import UserError
from rollwise.ledger import Ledger
from rollwise.records import (
    Batch,
    Credit,
    Group,
    Outcome,
    Prompt,
    Purpose,
    Role,
    Row,
    Settled,
)
from tests.pilots import Judge, Numbers, all_of, answered, lost, member, mixed, of, one_step, pilot, rollouts


def book(ledger: Ledger, settled: Settled, step: int) -> None:
    """A step's end, every handed group in the batch."""
    rows = [
        Row(rollout=r, credit=Credit(advantage=float(g.informative)), role=Role.fresh, unit=unit)
        for unit, g in enumerate(settled.groups)
        for r in g.rollouts
    ]
    ledger.settle(settled, Batch(rows=tuple(rows), step=step), step, [])


def counts(ledger: Ledger) -> dict[str, int]:
    return {o.value: c.rollouts for o, c in ledger.outcomes.items() if c.rollouts}


@pytest.mark.parametrize("named_again", [True, False])
def test_what_is_held_over_several_steps_is_held_once(named_again: bool) -> None:
    """Whether or not a waiting group is named in each step; one member's verifier failed."""
    p = Prompt(uid="a", text="x")
    waiting = Group(
        uid=p.group_uid, prompt=p, rollouts=tuple(member(p, m, ["right", "wrong", "none"][m], 1) for m in range(3))
    )
    ledger = Ledger()
    ledger.generate([waiting])
    for step in (1, 2, 3):
        held = ((Outcome.held, waiting),) if step == 1 or named_again else ()
        book(ledger, Settled(groups=(), slots=0, wanted=1, outcomes=held), step)
        assert counts(ledger) == {"held": 2, "infra_error": 1} and ledger.balanced()
    commits = tuple(member(p, m, "right", 4) for m in (3, 4))
    ledger.generate([Group(uid=p.group_uid, prompt=p, rollouts=commits)])
    union = Group(uid=p.group_uid, prompt=p, rollouts=(*waiting.rollouts, *commits))
    book(ledger, Settled(groups=(union,), slots=1, wanted=1), 4)
    assert counts(ledger) == {"trained": 4, "infra_error": 1} and ledger.balanced()
    assert ledger.replayed.rollouts == 0


def test_carried_groups_of_dynamic_sampling_are_held_once() -> None:
    a = Dynamic(
        prompts=1, group_size=2, bounds=Bounds(max_rounds=5, max_rollouts=None, on_limit="partial"), surplus="carry"
    )
    source, ledger = Uniform(Numbers(100), seed=0), Ledger()
    a.prompts = 4
    groups = answered(a.plan(source, 100), mixed, 1)
    a.observe(groups)
    a.prompts = 1
    ledger.generate(groups)
    for step, held in ((1, 6), (2, 4), (3, 2), (4, 0)):
        assert step == 1 or a.plan(source, 100) == []
        book(ledger, a.settle(), step)
        assert counts(ledger) == {"trained": 8 - held, **({"held": held} if held else {})} and ledger.balanced()


def luck(seed: int) -> Judge:
    """Prompts of all kinds: dead ones, mixed ones, and verifiers that fail. A pure function of prompt and member."""

    def judge(p: Prompt, i: int) -> str:
        rate = Random(f"{seed}/{p.uid}").choice([0.0, 0.1, 0.5, 0.5, 0.9, 1.0])
        coin = Random(f"{seed}/{p.group_uid}/{i}")
        return "none" if coin.random() < 0.1 else "right" if coin.random() < rate else "wrong"

    return judge


plans = st.fixed_dictionaries(
    {
        "prompts": st.integers(1, 4),
        "pilot_prompts": st.integers(1, 8),
        "pilot_rollouts": st.integers(2, 4),
        "commit_rollouts": st.integers(1, 4),
        "max_rounds": st.integers(2, 5),
        "max_age": st.integers(0, 3),
        "capacity": st.one_of(st.none(), st.integers(1, 6)),
        "pick": st.sampled_from(["random", "max_variance", "newest", "oldest"]),
        "p_lower": st.sampled_from([0.0, 0.125, 0.5]),
        "p_upper": st.sampled_from([0.5, 0.75, 1.0]),
        "train_on": st.sampled_from(["group", "commit"]),
    }
)


@settings(max_examples=60, deadline=None)
@given(
    plans, st.integers(1, 60), st.integers(0, 9), st.integers(20, 400), st.one_of(st.none(), st.integers(0, 20)),
    st.lists(st.booleans(), min_size=8, max_size=8),
)  # fmt: skip
def test_every_rollout_has_one_outcome(
    plan: dict[str, Any], size: int, seed: int, budget: int, spare: int | None, reloads: list[bool]
) -> None:
    """Through a real ledger, beside a twin that is saved and loaded now and then."""
    commits = plan["commit_rollouts"]
    given_ = {k: v for k, v in plan.items() if k != "commit_rollouts"} | {
        "group_size": plan["pilot_rollouts"] + commits,
        "seed": seed,
        "max_rollouts": None
        if spare is None
        else spare + plan["pilot_prompts"] * plan["pilot_rollouts"] + plan["prompts"] * commits,
    }
    a, twin = pilot(**given_), pilot(**given_)
    source, other = Uniform(Numbers(size), seed=seed), Uniform(Numbers(size), seed=seed)
    judge, ledger, left = luck(seed), Ledger(), budget
    generated: set[tuple[str, int, int]] = set()
    final: dict[tuple[str, int, int], Outcome] = {}
    for step, reload in enumerate(reloads, start=1):
        if left < a.least:
            break
        if reload:
            states = twin.state_dict(), other.state_dict()
            twin, other = pilot(**given_), Uniform(Numbers(size), seed=seed)
            twin.load_state_dict(states[0])
            other.load_state_dict(states[1])
        rounds = spent = 0
        committed: list[str] = []
        while requests := a.plan(source, left):
            assert twin.plan(other, left) == requests
            rounds += 1
            left -= rollouts(requests)
            spent += rollouts(requests)
            groups = answered(requests, judge, step)
            a.observe(groups)
            twin.observe(answered(requests, judge, step))
            ledger.generate(groups)
            made = [r.key for g in groups for r in g.rollouts]
            assert len(set(made)) == len(made) and not generated & set(made)
            generated |= set(made)
            committed += [r.prompt.group_uid for r in of(requests, Purpose.commit)]
        assert twin.plan(other, left) == []
        assert rounds >= 1 and left >= 0 and rounds <= plan["max_rounds"]
        assert given_["max_rollouts"] is None or spent <= given_["max_rollouts"]
        settled, same = a.settle(), twin.settle()
        assert repr(same) == repr(settled), "saving and loading anywhere is invisible"
        assert len(settled.groups) <= plan["prompts"] and (len(settled.groups) == plan["prompts"]) != bool(settled.note)
        assert sorted(g.uid for g in settled.groups) == sorted(committed) and len(set(committed)) == len(committed)
        for g in settled.groups:
            assert step - g.birth_step <= plan["max_age"]
            first = 0 if plan["train_on"] == "group" else plan["pilot_rollouts"]
            assert [r.member for r in g.rollouts] == list(range(first, given_["group_size"]))
        book(ledger, settled, step)
        assert ledger.balanced() and min(c.rollouts for c in ledger.outcomes.values()) >= 0
        ends = [(Outcome.trained, g) for g in settled.groups]
        ends += [(o, g) for o, g in settled.outcomes if o is not Outcome.held]
        for outcome, g in ends:
            for r in g.rollouts:
                assert r.key not in final, "one end each"
                final[r.key] = outcome
        held = {r.key for g in lost(settled, Outcome.held) for r in g.rollouts}
        assert not held & set(final) and held | set(final) == generated
        assert plan["capacity"] is None or len(a.buffer) <= plan["capacity"]
        scored_held = sum(r.scored for g in a.buffer.entries for r in g.rollouts)
        assert ledger.outcomes[Outcome.held].rollouts == scored_held


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 99), st.integers(2, 8), st.integers(1, 6))
def test_with_the_default_band_every_whole_group_is_mixed(seed: int, pilots: int, commits: int) -> None:
    a = pilot(group_size=pilots + commits, pilot_rollouts=pilots, prompts=3, pilot_prompts=9)
    source = Uniform(Numbers(200), seed=seed)
    for step in (1, 2, 3):
        assert all(g.informative for g in one_step(a, source, luck(seed), step)[1].groups)


def test_an_open_band_lets_dead_groups_through() -> None:
    """The check above can fail."""
    a = pilot(p_upper=1.0)
    _, settled = one_step(a, Uniform(Numbers(50), seed=0), all_of("right"), 1)
    assert settled.groups and not any(g.informative for g in settled.groups)


def test_foreign_state_is_refused() -> None:
    with pytest.raises(ValueError, match="state of allocation"):
        pilot().load_state_dict({"carried": []})
    with pytest.raises(ValueError, match="state of pilot buffer"):
        pilot().load_state_dict({"step": 1, "era": [0, 0], "left": 0, "buffer": {}})


@pytest.mark.parametrize(
    "tree,words",
    [
        ({"group_size": 2}, "2 pilot rollouts with group_size 2 leave none to commit; set group_size=3 or more"),
        ({"allocation.pilot.rollouts": 8}, "8 pilot rollouts with group_size 8 leave none"),
        ({"group_size": 3, "allocation.pilot.train_on": "commit"}, "set group_size=4 or more"),
        ({"allocation.pilot.p_lower": 0.6}, "no pass rate of 2 pilot rollouts is within"),
        ({"allocation.max_rounds": 1}, "allocation.max_rounds is 1; at least 2"),
        ({"allocation.max_rollouts": 383}, "allocation.max_rollouts is 383; at least 384"),
        ({"budget.rollouts": 7}, "budget.rollouts is 7; the first step needs 8"),
    ],
)
def test_settings_under_which_nothing_could_be_committed(tree: dict[str, Any], words: str) -> None:
    from rollwise.config import merge, nest

    whole: dict[str, Any] = {"budget": {"steps": 1}, "allocation": {"kind": "pilot"}}
    for dotted, value in tree.items():
        whole = merge(whole, nest(dotted, value))
    with pytest.raises(UserError) as error:
        build(whole, "run.yaml")
    assert words in str(error.value) and "\n" not in str(error.value)
