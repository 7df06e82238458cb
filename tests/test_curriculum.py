"""Filters and MoPPS: by hand, by property, and through the real loop."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise import checkpoint, seeds
from rollwise.config import build
from rollwise.curriculum.filters import DropSolved, Evict
from rollwise.curriculum.mopps import Mopps
from rollwise.curriculum.thompson import beta
from rollwise.curriculum.uniform import Filter, Uniform
from rollwise.errors import UserError
from rollwise.records import Prompt, Purpose, StopReason, Verdict, VerdictKind
from rollwise.tasks.sort_digits import SortDigits
from tests.curricula import Numbers, judged, same

Train = Callable[..., Any]


def mopps(size: int = 40, *, filters: Any = (), **over: Any) -> Mopps:
    base: dict[str, Any] = {
        "pool_factor": 4,
        "strategy": "topk",
        "target": 0.5,
        "band": 0.2,
        "decay": 0.5,
        "prior": (1.0, 1.0),
    }
    return Mopps(Numbers(size), seed=7, filters=filters, **{**base, **over})


def drawn(row: int, epoch: int) -> Prompt:
    return Prompt(uid=f"n:{row}", text="x", row=row, occurrence=epoch)


# --- SRPO's history resampling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "marks,kept", [("++++", False), ("+-+-", True), ("----", True), ("++??", False), ("+-??", True), ("????", True)]
)
def test_drop_rule_by_hand(marks: str, kept: bool) -> None:
    f = DropSolved(3)
    f.observe([judged(drawn(1, 0), marks)])
    assert f.keep(np.arange(3), 0).tolist() == [0, 1, 2], "nothing leaves a running epoch"
    assert f.keep(np.arange(3), 1).tolist() == ([0, 1, 2] if kept else [0, 2])


def test_accuracy_counts_and_not_the_reward() -> None:
    f = DropSolved(2)
    f.observe([judged(drawn(0, 0), "++", rewards=[0.1, 0.9]), judged(drawn(1, 0), "--", rewards=[1.0, 1.0])])
    assert f.keep(np.arange(2), 1).tolist() == [1]


def test_all_groups_of_the_last_epoch_count_and_what_is_dropped_stays_out() -> None:
    f = DropSolved(4)
    f.observe([judged(drawn(0, 0), "++"), judged(drawn(0, 0), "+-"), judged(drawn(1, 0), "+-")])
    assert f.keep(np.arange(4), 1).tolist() == [0, 1, 2, 3]
    f.observe([judged(drawn(1, 1), "++")])
    assert f.keep(np.arange(4), 2).tolist() == [0, 2, 3], "solved in its newest epoch, whatever the one before said"
    f.observe([judged(drawn(0, 0), "++")])
    f.observe([judged(drawn(2, 2), "+-"), judged(drawn(2, 1), "++")])
    assert f.keep(np.arange(4), 9).tolist() == [0, 2, 3], "late groups of an older draw change nothing"
    f.forget()
    assert f.keep(np.arange(4), 10).tolist() == [0, 1, 2, 3]


# --- eviction ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "on,purpose,leaves",
    [
        ("pilot", Purpose.pilot, True),
        ("pilot", Purpose.whole, False),
        ("any", Purpose.whole, True),
        ("any", Purpose.pilot, True),
        ("any", Purpose.commit, False),
    ],
)
def test_which_groups_evict(on: Any, purpose: Purpose, leaves: bool) -> None:
    f = Evict(2, at=1.0, on=on, retest=None)
    f.observe([judged(drawn(0, 0), "++", purpose=purpose)])
    assert f.keep(np.arange(2), 0).tolist() == [0, 1]
    assert f.keep(np.arange(2), 1).tolist() == ([1] if leaves else [0, 1])


def test_what_one_epoch_settled_the_next_does_not_undo() -> None:
    """Two epochs in one step: solved in the first, mixed in the second, seen together."""
    for f in (DropSolved(1), Evict(1, at=1.0, on="any", retest=None)):
        f.observe([judged(drawn(0, 0), "++"), judged(drawn(0, 1), "+-")])
        assert f.keep(np.arange(1), 2).tolist() == []
    f = Evict(1, at=1.0, on="any", retest=1)
    f.observe([judged(drawn(0, 0), "++"), judged(drawn(0, 1), "+-")])
    assert f.keep(np.arange(1), 2).tolist() == [0], "on probation the newest draw decides"


def test_the_threshold_is_reached_not_passed() -> None:
    f = Evict(4, at=0.75, on="any", retest=None)
    f.observe([judged(drawn(i, 0), marks) for i, marks in enumerate(("+++-", "++--", "+++-?", "????"))])
    assert f.keep(np.arange(4), 5).tolist() == [1, 3]


def test_probation_by_hand() -> None:
    """Solved in epoch 0: out for 2, in again in epoch 3; solved again: out for 4 and 5; then not solved: stays."""
    f = Evict(1, at=1.0, on="any", retest=2)
    inside = []
    for epoch in range(9):
        here = bool(len(f.keep(np.arange(1), epoch)))
        inside.append(here)
        if here:
            f.observe([judged(drawn(0, epoch), "++" if epoch < 6 else "+-")])
    assert inside == [True, False, False, True, False, False, True, True, True]


def test_an_untested_prompt_keeps_its_turn() -> None:
    f = Evict(1, at=1.0, on="any", retest=1)
    f.observe([judged(drawn(0, 0), "++")])
    assert [len(f.keep(np.arange(1), e)) for e in range(1, 5)] == [0, 1, 1, 1]


def test_a_pool_that_is_all_out_waits_for_the_retest_or_is_empty() -> None:
    for retest, left in ((3, 4), (None, 0)):
        u = Uniform(Numbers(4), seed=0, filters=[Evict(4, at=1.0, on="any", retest=retest)])
        u.observe([judged(p, "++") for p in u.draw(4)])
        assert u.remaining == left
        again = u.draw(4)
        assert {p.occurrence for p in again} == ({4} if retest else set())
        assert u.metrics()["curriculum/pool"] == left


def test_the_last_prompts_of_an_epoch_are_judged_though_the_next_has_begun() -> None:
    u = Uniform(Numbers(5), seed=0, filters=[DropSolved(5)])
    first = u.draw(3)
    u.observe([judged(p, "+-") for p in first])
    second = u.draw(3)  # the last two of epoch 0 and one of epoch 1
    assert [p.occurrence for p in second] == [0, 0, 1]
    u.observe([judged(p, "++") for p in second[:2]] + [judged(second[2], "+-")])
    rest = {p.row for p in u.draw(5) if p.occurrence == 1}
    assert rest == {0, 1, 2, 3, 4} - {p.row for p in second}


# --- properties of all of them ----------------------------------------------------------------------------------------

KINDS: dict[str, Callable[[int], Uniform]] = {
    "history": lambda n: Uniform(Numbers(n), seed=3, filters=[DropSolved(n)]),
    "probation": lambda n: Uniform(Numbers(n), seed=3, filters=[Evict(n, at=1.0, on="any", retest=1)]),
    "mopps": lambda n: mopps(n),
    "threshold": lambda n: mopps(n, strategy="threshold"),
    "mopps over both": lambda n: mopps(n, filters=[DropSolved(n), Evict(n, at=1.0, on="any", retest=2)]),
}


@pytest.mark.parametrize("kind", list(KINDS))
@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(1, 20),
    script=st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["++", "+-", "--", "?+", "mix"])), max_size=14),
)
def test_saving_anywhere_is_invisible_and_no_prompt_comes_twice_in_an_epoch(
    kind: str, size: int, script: list[tuple[int, str]]
) -> None:
    whole, parts = KINDS[kind](size), KINDS[kind](size)
    seen: list[Prompt] = []
    for count, marks in script:
        prompts = whole.draw(count)
        assert prompts == parts.draw(count)
        pool = set(whole.order.tolist())
        assert all(p.row in pool for p in prompts if p.occurrence == whole.epoch), "filters hold"
        assert len(prompts) == count or not pool
        seen += prompts
        groups = [judged(p, "+-" if marks == "mix" and p.row % 2 else marks.replace("mix", "++")) for p in prompts]
        for each in (whole, parts):
            each.observe(groups)
        state = parts.state_dict()
        parts = KINDS[kind](size)
        parts.load_state_dict(state)
        assert same(parts.state_dict(), whole.state_dict())
        assert parts.metrics() == whole.metrics()
    assert len({p.group_uid for p in seen}) == len(seen)


def test_state_of_something_else_is_refused() -> None:
    for part, other in (
        (DropSolved(2), Evict(2, at=1.0, on="any", retest=None)),
        (mopps(), Uniform(Numbers(40), seed=0)),
    ):
        with pytest.raises(ValueError, match="expected keys"):
            part.load_state_dict(other.state_dict())
    with pytest.raises(ValueError, match="0 filters; this run has 1"):
        Uniform(Numbers(2), seed=0, filters=[DropSolved(2)]).load_state_dict(Uniform(Numbers(2), seed=0).state_dict())


# --- MoPPS ------------------------------------------------------------------------------------------------------------


def test_posterior_of_a_scripted_sequence_equals_counts_by_hand() -> None:
    m = mopps(decay=0.5, prior=(1.0, 1.0))
    m.observe([judged(drawn(3, 0), "+++-"), judged(drawn(5, 0), "----")])
    assert m.posterior[:, 3].tolist() == [4.0, 2.0]  # 0.5 + 0.5 + 3, 0.5 + 0.5 + 1
    m.observe([judged(drawn(3, 1), "--+?")])
    assert m.posterior[:, 3].tolist() == [3.5, 3.5]  # 2 + 0.5 + 1, 1 + 0.5 + 2
    m.observe([judged(drawn(5, 1), "????"), judged(drawn(3, 2), "+-"), judged(drawn(3, 2), "++")])
    assert m.posterior[:, 3].tolist() == [5.25, 3.25]  # two groups of one step are one update
    assert m.posterior[:, 5].tolist() == [1.0, 5.0], "no verdict, no update"
    assert m.posterior[:, [0, 1, 2, 4]].tolist() == [[1.0] * 4] * 2
    assert m.metrics()["mopps/seen"] == 2
    never = mopps(decay=1.0, prior=(2.0, 3.0))
    for _ in range(3):
        never.observe([judged(drawn(0, 0), "+--")])
    assert never.posterior[:, 0].tolist() == [5.0, 9.0]
    never.forget()
    assert never.posterior[:, 0].tolist() == [2.0, 3.0] and never.metrics()["mopps/seen"] == 0


def informed(**over: Any) -> Mopps:
    m = mopps(40, **over)
    for row in range(40):
        m.observe([judged(drawn(row, 0), "+" * (row % 9) + "-" * (8 - row % 9))])
    return m


def test_topk_takes_the_draws_nearest_to_the_target() -> None:
    m = informed(target=0.4)
    pool = m.order[:16].copy()
    chosen = [p.row for p in m.draw(4)]
    value = dict(zip(pool.tolist(), m.sample(pool).tolist(), strict=True))
    assert chosen == sorted(pool.tolist(), key=lambda row: (value[row] - 0.4) ** 2)[:4]
    assert len(set(value.values())) == 16


def test_threshold_takes_any_inside_and_then_the_nearest() -> None:
    inside_taken, short = 0, 0
    for draws in range(30):
        m = informed(strategy="threshold", band=0.1)
        m.draws = draws
        pool = m.order[:16].copy()
        chosen = [p.row for p in m.draw(4)]
        value = dict(zip(pool.tolist(), m.sample(pool).tolist(), strict=True))
        inside = [row for row in pool.tolist() if 0.4 <= value[row] <= 0.6]
        if len(inside) >= 4:
            assert set(chosen) <= set(inside)
            inside_taken += set(chosen) != set(sorted(inside, key=lambda row: abs(value[row] - 0.5))[:4])
        else:
            short += 1
            outside = sorted(set(pool.tolist()) - set(inside), key=lambda row: abs(value[row] - 0.5))
            assert set(chosen) == {*inside, *outside[: 4 - len(inside)]}
    assert inside_taken and short, "both cases occur, and inside it is not the nearest that are taken"


def test_strategy_uniform_does_not_look_at_the_posterior() -> None:
    a, b = informed(strategy="uniform"), mopps(strategy="uniform")
    assert [p.row for p in a.draw(5)] == [p.row for p in b.draw(5)]
    assert [p.row for p in informed().draw(5)] != [p.row for p in mopps().draw(5)]


def test_a_draw_depends_on_seed_number_row_and_posterior_only() -> None:
    m = informed()
    rows = np.arange(20)
    values = m.sample(rows)
    np.testing.assert_array_equal(m.sample(rows[::-1])[::-1], values)
    np.testing.assert_array_equal(m.sample(rows[3:7]), values[3:7])
    m.draws += 1
    assert not np.intersect1d(m.sample(rows), values).size
    m.draws -= 1
    m.seed += 1
    assert not np.intersect1d(m.sample(rows), values).size


def test_unpicked_candidates_are_used_up() -> None:
    m = mopps(40, pool_factor=4)
    for epoch in range(3):
        assert {p.occurrence for _ in range(2) for p in m.draw(5)} == {epoch}
    whole = mopps(40, pool_factor=8)
    assert [len({p.row for p in whole.draw(5)}) for _ in range(4)] == [5] * 4
    assert whole.metrics()["epoch"] == 4.0, "a pool as large as the data makes every draw an epoch"
    uneven = mopps(10, pool_factor=2)
    assert [(p.occurrence) for p in uneven.draw(4)] == [0] * 4
    assert [p.occurrence for p in uneven.draw(4)] == [0, 0, 1, 1], "what is left of the epoch first"


@pytest.mark.parametrize("a,b", [(1.0, 1.0), (4.0, 2.0), (0.3, 0.5), (60.0, 3.0)])
def test_beta_draws_have_the_moments_of_beta(a: float, b: float) -> None:
    n = 40_000
    rows = np.arange(n)
    x = beta(np.full(n, a), np.full(n, b), lambda i, places: seeds.uniforms(0, "test", i, of=rows[places]))
    assert ((x > 0) & (x < 1)).all()
    mean, variance = a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))
    assert abs(x.mean() - mean) < 5 * (variance / n) ** 0.5
    assert abs(x.var() / variance - 1) < 0.05
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 5 / n**0.5, "neighbouring rows are unrelated"


def test_uniforms_are_uniform_and_apart() -> None:
    u = seeds.uniforms(1, "p", 2, of=np.arange(100_000))
    counts = np.histogram(u, bins=20, range=(0, 1))[0]
    assert ((counts - 5000) ** 2 / 5000).sum() < 45  # chi-squared, 19 degrees of freedom: 1 in 1000 is above 43.8
    assert np.array_equal(seeds.uniforms(1, "p", 2, of=np.array([5])), u[5:6])
    assert not np.array_equal(seeds.uniforms(1, "p", 3, of=np.array([5])), u[5:6])


# --- through the real loop --------------------------------------------------------------------------------------------


def check_pools(run: Any, size: int, leaves: Callable[[dict[int, bool], int], bool]) -> list[set[int]]:
    """Rows of every epoch but the last, each checked: drawn, unless `leaves(solved by epoch, epoch)` of its draws in
    earlier epochs and steps. What a step draws of a new epoch, it draws before its own groups are seen."""
    drawn: dict[int, dict[int, int]] = defaultdict(dict)  # epoch: row: step
    solved: dict[tuple[int, int], bool] = {}
    for g in run.groups():
        row, epoch = g["prompt"]["row"], g["prompt"]["occurrence"]
        assert row not in drawn[epoch], "once an epoch"
        drawn[epoch][row] = g["step"]
        solved[row, epoch] = {r["verdict"]["kind"] for r in g["rollouts"]} == {"correct"}
    for epoch in sorted(drawn)[:-1]:
        for row in range(size):
            step = drawn[epoch].get(row, 10**9)
            seen = {e: solved[row, e] for e in sorted(drawn) if e < epoch and drawn[e].get(row, 10**9) < step}
            assert leaves(seen, epoch) is (row not in drawn[epoch]), (row, epoch)
    return [set(drawn[epoch]) for epoch in sorted(drawn)[:-1]]


def test_srpo_drops_what_an_epoch_solved(train: Train) -> None:
    run = train("srpo", {"task_args.train_size": 24, "budget.steps": 14, "log.rollouts": True})
    pools = check_pools(run, 24, lambda seen, epoch: any(seen.values()))
    assert len(pools) > 2 and len(pools[-1]) < 24
    assert run.metric("curriculum/pool")[-1] + run.metric("curriculum/dropped")[-1] == 24


def test_a_run_whose_prompts_are_all_solved_ends_and_says_so(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    def always(text: str, answer: object, stop: StopReason) -> Verdict:
        return Verdict(kind=VerdictKind.correct, score=1.0)

    monkeypatch.setattr(SortDigits, "verify", staticmethod(always))
    run = train("srpo", {"task_args.train_size": 12, "budget.steps": 9})
    assert run.stop["reason"] == "curriculum.empty"
    assert run.ledger["generated"]["rollouts"] == 12 * 4


def test_evicted_prompts_come_back_once_on_probation(train: Train) -> None:
    more = {"curriculum.evict_at": 1.0, "curriculum.evict_on": "any", "curriculum.retest_epochs": 1}
    run = train("grpo", {**more, "task_args.train_size": 12, "budget.steps": 14, "log.rollouts": True})
    pools = check_pools(run, 12, lambda seen, epoch: seen.get(epoch - 1, False))
    assert len(pools) > 3
    gone = [set(range(12)) - pool for pool in pools]
    assert any(gone[i] - gone[i + 1] for i in range(len(gone) - 1)), "some came back"


def test_pilots_that_are_solved_leave_for_good(train: Train) -> None:
    run = train("pilot-commit", {"task_args.train_size": 90, "budget.steps": 12, "log.rollouts": True})
    pilots = [g for g in run.groups() if g["purpose"] == "pilot"]
    solved: dict[int, int] = {}  # row: step of the pilot that evicts it
    later = 0
    for g in pilots:
        row = g["prompt"]["row"]
        assert not solved.get(row, 10**9) < g["step"], "evicted, and drawn in a later step"
        later += g["prompt"]["occurrence"] > 0
        if {r["verdict"]["kind"] for r in g["rollouts"]} == {"correct"}:
            solved[row] = g["step"]
    assert later > 20 and len(solved) > 5
    assert run.metric("curriculum/dropped")[-1] > 0


@pytest.mark.parametrize("method", ["mopps", "mopps-popo"])
def test_posteriors_learn_from_fresh_rollouts_only(train: Train, method: str) -> None:
    run = train(method, {"task_args.train_size": 48, "budget.steps": 8, "log.rollouts": True})
    if method == "mopps-popo":
        assert sum(run.metric("replay/groups")) > 5, "groups are replayed, or this test shows nothing"
    want: dict[int, np.ndarray] = defaultdict(lambda: np.ones(2))
    for g in run.groups():  # of this run every step draws a prompt once at most
        right = sum(r["verdict"]["kind"] == "correct" for r in g["rollouts"])
        row = g["prompt"]["row"]
        want[row] = 0.5 * want[row] + 0.5 + np.array([right, 4 - right])
    state = checkpoint.load(run.folder / "checkpoints" / "step_8")["loop"]["curriculum"]
    assert state["rows"].tolist() == sorted(want)
    np.testing.assert_array_equal(state["posterior"].T, np.array([want[row] for row in sorted(want)]))
    assert run.metric("epoch") == [float(i + 1) for i in range(8)], "8 x 6 candidates are all 48 prompts"


def test_a_posterior_fed_with_replay_would_be_seen(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the batch observed instead of the step's own groups, the counts would differ."""
    from rollwise.replay.recent import RecentGroups

    replayed: list[Any] = []
    compose, observe = RecentGroups.compose, Mopps.observe

    def spy(self: Any, *args: Any) -> Any:
        placed = compose(self, *args)
        replayed[:] = [seat.group for seat in placed if seat.role.value == "replay"]
        return placed

    monkeypatch.setattr(RecentGroups, "compose", spy)
    monkeypatch.setattr(Mopps, "observe", lambda self, groups: observe(self, [*groups, *replayed]))
    with pytest.raises(AssertionError):
        test_posteriors_learn_from_fresh_rollouts_only(train, "mopps-popo")


@pytest.mark.parametrize(
    "tree,words",
    [
        ({"retest_epochs": 2}, "set curriculum.evict_at=1.0"),
        ({"evict_at": 1.0}, "allocation.kind fixed makes no pilots; set curriculum.evict_on=any"),
        ({"evict_at": 1.5}, "curriculum.evict_at is 1.5; it must be at most 1"),
        ({"mopps": {"decay": 1.1}}, "curriculum.mopps.decay is 1.1; it must be at most 1"),
        (
            {"mopps": {"pool_facto": 3}},
            "unknown key 'curriculum.mopps.pool_facto'; did you mean 'curriculum.mopps.pool_factor'?",
        ),
        ({"kind": "thompson"}, "curriculum.kind is 'thompson'; one of uniform, mopps"),
    ],
)
def test_settings_that_are_refused(tree: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as error:
        build({"budget": {"steps": 1}, "curriculum": tree}, "r.yaml")
    assert words in str(error.value) and "\n" not in str(error.value)


def test_methods_say_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    from rollwise.cli.main import main

    for name, parts in (("srpo", "uniform + drop_solved + fixed"), ("mopps-popo", "mopps + fixed + recent")):
        assert main(["methods", name]) == 0
        out = capsys.readouterr().out
        assert parts in out and "arXiv" in out and "differs" in out
    assert main(["methods", "mopps", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["settings"]["curriculum.kind"] == "mopps"


def test_filters_are_filters() -> None:
    both: list[Filter] = [DropSolved(1), Evict(1, at=1.0, on="any", retest=None)]
    assert [f.absence for f in both] == [0, 0]
