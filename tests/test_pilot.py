"""The pilot allocation on its own: windows, costs, epochs, ages, bounds, and that no rollout is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.allocation.base import Prompts
from rollwise.allocation.bounds import Bounds
from rollwise.allocation.buffer import PilotBuffer
from rollwise.allocation.dynamic import Dynamic
from rollwise.allocation.pilot import Pilot
from rollwise.config import build
from rollwise.config.pilot import accepted, optimizer_updates, pilot_rollouts
from rollwise.curriculum.mixture import Mixture
from rollwise.curriculum.uniform import Uniform
from rollwise.errors import UserError
from rollwise.ledger import Ledger, key
from rollwise.records import (
    Batch,
    Credit,
    Group,
    Outcome,
    Prompt,
    Purpose,
    Request,
    Role,
    Rollout,
    Row,
    Sampling,
    Settled,
    StopReason,
    Verdict,
    VerdictKind,
)

IDS = np.array([1, 2], dtype=np.int32)
LOGP = np.array([-0.5, -0.25], dtype=np.float32)
Judge = Callable[[Prompt, int], str]  # (prompt, member) -> "right", "wrong" or "none"


class Numbers:
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Prompt:
        return Prompt(uid=f"n:{index}", text=str(index))


def member(prompt: Prompt, i: int, found: str, step: int) -> Rollout:
    kind = {"right": VerdictKind.correct, "wrong": VerdictKind.wrong, "none": VerdictKind.infra_error}[found]
    score = float(found == "right")
    return Rollout(
        group_uid=prompt.group_uid,
        member=i,
        prompt_ids=IDS,
        completion_ids=IDS,
        logprobs=LOGP,
        sampling=Sampling(),
        stop=StopReason.eos,
        text="",
        birth_step=step,
        verdict=Verdict(kind=kind, score=score),
        reward=float("nan") if found == "none" else score,
    )


def answered(requests: Sequence[Request], judge: Judge, step: int) -> list[Group]:
    return [
        Group(
            uid=r.prompt.group_uid,
            prompt=r.prompt,
            rollouts=tuple(
                member(r.prompt, m, judge(r.prompt, m), step) for m in range(r.first_member, r.first_member + r.count)
            ),
            purpose=r.purpose,
        )
        for r in requests
    ]


def pilot(**settings_: Any) -> Pilot:
    over = {
        "prompts": 2, "group_size": 6, "pilot_prompts": 5, "pilot_rollouts": 2, "p_lower": 0.125, "p_upper": 0.75,
        "max_rounds": 10, "max_rollouts": None, "on_limit": "partial",
        "capacity": None, "max_age": 4, "pick": "random", "seed": 0, **settings_,
    }  # fmt: skip
    bounds = Bounds(**{k: over.pop(k) for k in ("max_rounds", "max_rollouts", "on_limit")})
    buffer = PilotBuffer(**{k: over.pop(k) for k in ("capacity", "max_age", "pick", "seed")})
    return Pilot(**over, buffer=buffer, bounds=bounds)


def mixed(prompt: Prompt, i: int) -> str:
    return "right" if i % 2 else "wrong"


def all_of(found: str) -> Judge:
    return lambda prompt, i: found


def one_step(
    allocation: Pilot, source: Prompts, judge: Judge, step: int, room: int = 10**9
) -> tuple[list[list[Request]], Settled]:
    rounds = []
    while requests := allocation.plan(source, room):
        rounds.append(requests)
        room -= sum(r.count for r in requests)
        allocation.observe(answered(requests, judge, step))
    return rounds, allocation.settle()


def of(requests: Sequence[Request], purpose: Purpose) -> list[Request]:
    return [r for r in requests if r.purpose is purpose]


def rollouts(requests: Sequence[Request]) -> int:
    return sum(r.count for r in requests)


def lost(settled: Settled, outcome: Outcome) -> list[Group]:
    return [g for o, g in settled.outcomes if o is outcome]


# --- numbers of the paper --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pilots,window", [(8, range(1, 7)), (16, range(2, 13)), (32, range(4, 25))])
def test_acceptance_windows(pilots: int, window: range) -> None:
    """Inclusive at both ends; and the allocation keeps exactly those."""
    assert accepted(pilots, 0.125, 0.75) == window
    kept = []
    for right in range(pilots + 1):
        a = pilot(group_size=2 * pilots, pilot_rollouts=pilots, pilot_prompts=1)
        requests = a.plan(Uniform(Numbers(9), seed=0), 10**9)
        a.observe(answered(requests, lambda p, i, right=right: "right" if i < right else "wrong", 1))  # type: ignore[misc]
        kept += [right] if len(a.buffer) else []
        assert [o for o, _ in a.outcomes] == (
            [] if right in window else [Outcome.dropped_easy if right > window[-1] else Outcome.dropped_hard]
        )
    assert kept == list(window)


TABLE = {  # true pass rate: kept by a pilot of 8, all right; the same of 16, of 32
    0.02: (0.149, 0, 0.040, 0, 0.004, 0),
    0.05: (0.337, 0, 0.189, 0, 0.074, 0),
    0.10: (0.570, 0, 0.485, 0, 0.400, 0),
    0.20: (0.832, 0, 0.859, 0, 0.907, 0),
    0.50: (0.961, 0.004, 0.989, 0, 0.999, 0),
    0.70: (0.745, 0.058, 0.754, 0.003, 0.788, 0),
    0.80: (0.497, 0.168, 0.402, 0.028, 0.302, 0.001),
    0.90: (0.187, 0.430, 0.068, 0.185, 0.012, 0.034),
    0.95: (0.057, 0.663, 0.007, 0.440, 0, 0.194),
    0.98: (0.010, 0.851, 0, 0.724, 0, 0.524),
}


def test_chance_of_being_kept_and_of_being_all_right() -> None:
    def binomial(n: int, ks: Sequence[int], p: float) -> float:
        return sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in ks)

    for p, row in TABLE.items():
        found = [binomial(n, ks, p) for n in (8, 16, 32) for ks in (accepted(n, 0.125, 0.75), [n])]
        assert found == pytest.approx(row, abs=5.1e-4)
    open_ended = [k for k in range(9) if 0.125 < k / 8 < 0.75]
    assert binomial(8, open_ended, 0.1) != pytest.approx(TABLE[0.10][0], abs=5.1e-4), "the band includes its ends"


@pytest.mark.parametrize("pilots,commits,of_grpo", [(8, 24, 1.5), (4, 12, 1.5), (8, 8, 2.0)])
def test_a_step_costs_its_pilots_and_its_commits(pilots: int, commits: int, of_grpo: float) -> None:
    """b_g x n_pilot + b_t x n_commit once something waits; another round of pilots in the first step."""
    a = pilot(prompts=4, pilot_prompts=12, group_size=pilots + commits, pilot_rollouts=pilots, p_lower=0.0, p_upper=1.0)
    source = Uniform(Numbers(1000), seed=0)
    costs = [sum(map(rollouts, one_step(a, source, mixed, step)[0])) for step in range(1, 6)]
    nominal = 12 * pilots + 4 * commits
    assert costs == [nominal + 12 * pilots, nominal, nominal, nominal, nominal]
    assert nominal == of_grpo * 4 * (pilots + commits)


@pytest.mark.parametrize(
    "size,pilots,released", [(128, 32, 6), (64, 16, 6), (16, 8, 8), (64, 8, 5), (8, 2, 6), (64, 48, 16)]
)
def test_optimizer_updates_as_released(size: int, pilots: int, released: int) -> None:
    assert optimizer_updates(4, size, pilots, "group") == 4
    assert optimizer_updates(4, size, pilots, "commit") == released


def test_pilots_as_a_share_of_the_group() -> None:
    assert [pilot_rollouts(None, 0.25, g) for g in (4, 8, 16, 64, 128)] == [2, 2, 4, 16, 32]
    assert pilot_rollouts(None, 0.125, 64) == 8
    assert pilot_rollouts(7, 0.25, 64) == 7


# --- the schedule ----------------------------------------------------------------------------------------------------


def test_pilots_of_the_next_step_and_commits_of_this_one_share_a_round() -> None:
    a, source = pilot(), Uniform(Numbers(100), seed=0)
    rounds, first = one_step(a, source, mixed, 1)
    assert [(len(of(r, Purpose.pilot)), len(of(r, Purpose.commit))) for r in rounds] == [(5, 0), (5, 2)]
    rounds, second = one_step(a, source, mixed, 2)
    assert [(len(of(r, Purpose.pilot)), len(of(r, Purpose.commit))) for r in rounds] == [(5, 2)]
    for step, settled in ((1, first), (2, second)):
        assert settled.slots == 2 and not settled.note
        for g in settled.groups:
            assert g.purpose is Purpose.whole and g.uid == g.prompt.group_uid
            assert [key(r) for r in g.rollouts] == [(g.uid, m) for m in range(6)]
            assert {r.birth_step for r in g.rollouts[2:]} == {step}
            assert g.birth_step in range(1, step + 1)
    for r in of(rounds[0], Purpose.commit):
        assert (r.first_member, r.count) == (2, 4)
    assert len(lost(second, Outcome.held)) == 15 - 4 and a.metrics()["pilot/waiting"] == 11


def test_several_rounds_in_one_step_until_the_batch_is_full() -> None:
    """One prompt in five is mixed: a pilot found in a round is committed in the next, at age 0."""
    a, source = pilot(prompts=3), Uniform(Numbers(1000), seed=0)

    def judge(p: Prompt, i: int) -> str:
        return mixed(p, i) if int(p.uid[2:]) % 5 == 0 else "right"

    rounds, settled = one_step(a, source, judge, 1)
    assert len(rounds) > 2 and len(settled.groups) == 3
    assert {g.birth_step for g in settled.groups} == {1}
    assert a.metrics()["pilot/prompts"] == 5 * len(rounds) and a.metrics()["pilot/age_max"] == 0


def test_an_epoch_begins_with_pilots_only_and_with_nothing_waiting() -> None:
    """23 prompts, 5 a round: the last 3 of each epoch are left out, and what waits at the end of it is lost."""
    a, source = pilot(), Uniform(Numbers(23), seed=0)
    seen: dict[int, set[str]] = {}
    first_rounds: dict[int, list[Request]] = {}
    committed: list[tuple[int, int]] = []
    ends = 0
    for step in range(1, 40):
        before = len(a.buffer)
        rounds, settled = one_step(a, source, mixed, step)
        for r in rounds:
            for q in of(r, Purpose.pilot):
                seen.setdefault(q.prompt.occurrence, set()).add(q.prompt.uid)
                first_rounds.setdefault(q.prompt.occurrence, r)
            committed += [(q.prompt.occurrence, step) for q in of(r, Purpose.commit)]
        gone = lost(settled, Outcome.lost_at_epoch_end)
        if gone:
            ends += 1
            assert len(gone) == before and not of(rounds[0], Purpose.commit)
    whole = sorted(seen)[:-1]
    assert len(whole) > 4 and {len(seen[e]) for e in whole} == {20}
    assert all(not of(r, Purpose.commit) for r in first_rounds.values())
    assert ends == len(seen) - 1
    assert committed == sorted(committed), "no commit of an epoch after the next has begun"


@pytest.mark.parametrize("size", [1, 2, 4, 5, 6, 9, 10, 11])
def test_data_of_any_size_is_trained_on(size: int) -> None:
    """No round holds pilots of two epochs, and the first round of an epoch no commits."""
    a, source = pilot(), Uniform(Numbers(size), seed=0)
    begun: set[int] = set()
    for step in range(1, 30):
        rounds, settled = one_step(a, source, mixed, step)
        assert len(settled.groups) == 2 and len(rounds) <= 4
        assert len({g.uid for g in settled.groups}) == 2
        for requests in rounds:
            epochs = {r.prompt.occurrence for r in of(requests, Purpose.pilot)}
            assert len(epochs) <= 1
            assert epochs <= begun or not of(requests, Purpose.commit)
            begun |= epochs
    assert source.epoch > 3


def test_a_mixture_of_data_sets_is_piloted() -> None:
    """What it says is left is exact only to a prompt for each; one of the two is smaller than a round."""

    class Named(Numbers):
        def __init__(self, name: str, size: int) -> None:
            super().__init__(size)
            self.name = name

        def __getitem__(self, index: int) -> Prompt:
            return Prompt(uid=f"{self.name}:{index}", text="x", task=self.name)

    parts = {name: Uniform(Named(name, size), seed=0) for name, size in (("a", 4), ("b", 30))}
    a, source = pilot(), Mixture(parts, {"a": 1.0, "b": 2.0}, seed=0)
    uids = []
    for step in range(1, 40):
        rounds, settled = one_step(a, source, mixed, step)
        assert len(settled.groups) == 2 and len(rounds) <= 4
        uids += [g.uid for g in settled.groups]
    assert len(set(uids)) == len(uids) and {u[0] for u in uids} == {"a", "b"}


@pytest.mark.parametrize("found,outcome", [("wrong", Outcome.dropped_hard), ("right", Outcome.dropped_easy)])
@pytest.mark.parametrize("size", [3, 12, 10_000])
@pytest.mark.parametrize("limit,rounds_", [({"max_rounds": 3}, 3), ({"max_rollouts": 25}, None)])
def test_dead_data_ends_with_its_reason(
    found: str, outcome: Outcome, size: int, limit: dict[str, int], rounds_: int | None
) -> None:
    a, source = pilot(**limit), Uniform(Numbers(size), seed=0)
    for step in (1, 2, 3):
        rounds, settled = one_step(a, source, all_of(found), step)
        assert rounds_ is None or len(rounds) == rounds_
        assert sum(map(rollouts, rounds)) <= limit.get("max_rollouts", 10**9)
        assert settled.groups == () and settled.slots == 0
        assert {o for o, _ in settled.outcomes} == {outcome}
        assert f"{next(iter(limit))} ({next(iter(limit.values()))})" in settled.note


def test_no_data_left_is_said() -> None:
    class Few(Uniform):
        """Ten prompts and no second epoch."""

        @property
        def remaining(self) -> int:
            return max(0, 10 - self.place)

    a, source = pilot(), Few(Numbers(10), seed=0)
    done = [one_step(a, source, mixed, step) for step in range(1, 9)]
    assert "the end of the data" in done[-1][1].note and done[-1][0] == []


@pytest.mark.parametrize("max_age", [0, 1, 3])
def test_a_pilot_is_used_up_to_its_age_and_never_older(max_age: int) -> None:
    """Twenty prompts wait from step 1; nothing piloted later is mixed. Age is step of use minus step of birth."""
    a, source = pilot(prompts=4, pilot_prompts=20, max_age=max_age), Uniform(Numbers(10_000), seed=0)
    ages, stale = [], 0
    for step in range(1, 7):
        judge = mixed if step == 1 else all_of("wrong")
        _, settled = one_step(a, source, judge, step)
        ages += [step - g.birth_step for g in settled.groups]
        expired = lost(settled, Outcome.stale)
        stale += len(expired)
        assert all(step - g.birth_step == max_age + 1 for g in expired)
    # step 1: two rounds of 20, four committed; later steps take four each
    assert sorted(ages) == [i for i in range(max_age + 1) for _ in range(4)]
    assert stale == 40 - len(ages)


@pytest.mark.parametrize(
    "pick,expected", [("newest", [5, 4, 3]), ("oldest", [0, 1, 2]), ("max_variance", [4, 1, 5]), ("random", None)]
)
def test_which_waiting_prompt_is_taken(pick: Any, expected: list[int] | None) -> None:
    """Of 8 pilots 1, 4, 2, 6, 4, 3 are right: p (1 - p) is greatest for the second and the fifth."""

    def entries() -> PilotBuffer:
        buffer = PilotBuffer(capacity=None, max_age=4, pick=pick, seed=3)
        for i, right in enumerate((1, 4, 2, 6, 4, 3)):
            p = Prompt(uid=str(i), text="x")
            rows = tuple(member(p, m, "right" if m < right else "wrong", 1) for m in range(8))
            assert buffer.add(Group(uid=p.group_uid, prompt=p, rollouts=rows, purpose=Purpose.pilot)) == []
        return buffer

    buffer = entries()
    taken = [int(g.prompt.uid) for g in buffer.take(3, step=1, round=0)]
    left = [int(g.prompt.uid) for g in buffer.entries]
    assert sorted(taken + left) == list(range(6)) and left == sorted(left)
    assert taken == [int(g.prompt.uid) for g in entries().take(3, step=1, round=0)]
    if expected is not None:
        assert taken == expected
    else:
        orders = {tuple(g.prompt.uid for g in entries().take(3, step=s, round=0)) for s in range(20)}
        assert len(orders) > 10


def test_the_oldest_give_way_in_a_full_buffer() -> None:
    a, source = pilot(capacity=3), Uniform(Numbers(100), seed=0)
    _, settled = one_step(a, source, mixed, 1)
    surplus = lost(settled, Outcome.surplus)
    assert len(a.buffer) == 3 and len(surplus) == 2 + (3 - 2 + 5 - 3)
    assert not {g.uid for g in surplus} & {g.uid for g in a.buffer.entries}


def test_members_without_a_verdict_leave_the_pass_rate() -> None:
    a, source = pilot(pilot_rollouts=3, group_size=6), Uniform(Numbers(100), seed=0)
    for judge, kept in (
        (lambda p, i: ("right", "none", "wrong")[i], True),  # 1 of 2
        (lambda p, i: ("right", "none", "none")[i], False),  # 1 of 1
        (all_of("none"), False),
    ):
        before = len(a.buffer)
        a.observe(answered(a.plan(source, 15)[:1], judge, 1))
        assert (len(a.buffer) > before) == kept
        a.committing.clear()
    assert [o for o, _ in a.outcomes] == [Outcome.dropped_easy, Outcome.dropped_hard]


def test_near_the_end_of_a_budget_pilots_are_drawn_as_far_as_commits_can_be_paid() -> None:
    for room in range(6, 40):
        a = pilot()
        _, settled = one_step(a, Uniform(Numbers(100), seed=0), mixed, 1, room=room)
        assert len(settled.groups) == min(2, room // 6), room
    a, source = pilot(), Uniform(Numbers(100), seed=0)
    one_step(a, source, mixed, 1)
    requests = a.plan(source, 2 * 4 + 2 * 6 + 1)
    assert len(of(requests, Purpose.commit)) == 2
    assert len(of(requests, Purpose.pilot)) == 2, "those of a next step that could still be paid"
    a = pilot()
    assert a.plan(Uniform(Numbers(100), seed=0), 5) == [] and a.bounds.limit == "the run's budget"


@pytest.mark.parametrize("on_limit,slots,stop", [("partial", 0, False), ("replay", 2, False), ("stop", 0, True)])
def test_what_a_short_step_does(on_limit: str, slots: int, stop: bool) -> None:
    a = pilot(on_limit=on_limit, max_rounds=2)
    _, settled = one_step(a, Uniform(Numbers(100), seed=0), all_of("right"), 1)
    assert settled.slots == slots and bool(settled.stop) == stop and settled.note


# --- accounting ------------------------------------------------------------------------------------------------------


def book(ledger: Ledger, settled: Settled, step: int) -> None:
    """A step's end, every handed group in the batch."""
    rows = [
        Row(rollout=r, credit=Credit(advantage=float(g.informative)), role=Role.fresh, unit=unit)
        for unit, g in enumerate(settled.groups)
        for r in g.rollouts
    ]
    ledger.settle(settled, Batch(rows=tuple(rows), step=step), step)


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
        book(ledger, Settled(groups=(), slots=0, outcomes=held), step)
        assert counts(ledger) == {"held": 2, "infra_error": 1} and ledger.balanced()
    commits = tuple(member(p, m, "right", 4) for m in (3, 4))
    ledger.generate([Group(uid=p.group_uid, prompt=p, rollouts=commits)])
    union = Group(uid=p.group_uid, prompt=p, rollouts=(*waiting.rollouts, *commits))
    book(ledger, Settled(groups=(union,), slots=1), 4)
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
    generated: set[tuple[str, int]] = set()
    final: dict[tuple[str, int], Outcome] = {}
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
            made = [key(r) for g in groups for r in g.rollouts]
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
            assert [r.member for r in g.rollouts] == list(range(given_["group_size"]))
        book(ledger, settled, step)
        assert ledger.balanced() and min(c.rollouts for c in ledger.outcomes.values()) >= 0
        ends = [(Outcome.trained, g) for g in settled.groups]
        ends += [(o, g) for o, g in settled.outcomes if o is not Outcome.held]
        for outcome, g in ends:
            for r in g.rollouts:
                assert key(r) not in final, "one end each"
                final[key(r)] = outcome
        held = {key(r) for g in lost(settled, Outcome.held) for r in g.rollouts}
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
        pilot().load_state_dict({"step": 1, "left": 0, "buffer": {}})


@pytest.mark.parametrize(
    "tree,words",
    [
        ({"group_size": 2}, "2 pilot rollouts with group_size 2 leave none to commit; set group_size=3 or more"),
        ({"allocation.pilot.rollouts": 8}, "8 pilot rollouts with group_size 8 leave none"),
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
