"""The pilot allocation on its own: windows, costs, epochs, ages and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import pytest

from rollwise.allocation.buffer import PilotBuffer
from rollwise.config.pilot import accepted, optimizer_updates, pilot_rollouts
from rollwise.curriculum.mixture import Mixture
from rollwise.curriculum.uniform import Uniform
from rollwise.records import (
    Group,
    Outcome,
    Prompt,
    Purpose,
    Request,
)
from tests.pilots import Numbers, all_of, answered, lost, member, mixed, of, one_step, pilot, rollouts

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
            assert [(r.group_uid, r.member) for r in g.rollouts] == [(g.uid, m) for m in range(6)]
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


def test_commits_alone_can_be_what_is_trained_on() -> None:
    a, source = pilot(train_on="commit"), Uniform(Numbers(100), seed=0)
    for step in (1, 2):
        _, settled = one_step(a, source, mixed, step)
        assert [[r.member for r in g.rollouts] for g in settled.groups] == [[2, 3, 4, 5]] * 2
        spent = lost(settled, Outcome.pilot)
        assert [(g.uid, [r.member for r in g.rollouts]) for g in spent] == [(g.uid, [0, 1]) for g in settled.groups]
        assert {r.birth_step for g in settled.groups for r in g.rollouts} == {step}


@pytest.mark.parametrize("on_limit,slots,stop", [("partial", 0, False), ("replay", 2, False), ("stop", 0, True)])
def test_what_a_short_step_does(on_limit: str, slots: int, stop: bool) -> None:
    a = pilot(on_limit=on_limit, max_rounds=2)
    _, settled = one_step(a, Uniform(Numbers(100), seed=0), all_of("right"), 1)
    assert settled.slots == slots and bool(settled.stop) == stop and settled.note
