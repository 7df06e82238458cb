"""Estimators on hand-made batches: published vectors, plain forms, invariants, and what is left out."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.advantage import (
    GeneralizedAdvantage,
    GroupAdvantage,
    LeaveOneOut,
    Overlong,
    ReinforcePlusPlus,
    discounted_sums,
    leave_one_out,
    whiten,
)
from rollwise.records import Credit, Group, Placed, Prompt, Role, Rollout, Sampling, StopReason, Verdict, VerdictKind
from rollwise.verify.shaping import overlong_penalty
from tests import reference

Made = Sequence[tuple[float | None, int]]  # reward (None: the verifier failed) and length of each member


def seat(uid: str, made: Made, *, cut: Sequence[int] = (), credits: Any = None) -> Placed:
    def member(i: int, reward: float | None, length: int) -> Rollout:
        kind = VerdictKind.infra_error if reward is None else VerdictKind.wrong
        return Rollout(
            group_uid=uid,
            member=i,
            prompt_ids=np.array([1], dtype=np.int32),
            completion_ids=np.arange(length, dtype=np.int32),
            logprobs=np.full(length, -0.5, dtype=np.float32),
            sampling=Sampling(),
            stop=StopReason.length if i in cut else StopReason.eos,
            text="",
            birth_step=1,
            verdict=Verdict(kind=kind, score=0.0 if reward is None else reward),
            reward=float("nan") if reward is None else reward,
        )

    rollouts = tuple(member(i, r, n) for i, (r, n) in enumerate(made))
    group = Group(uid=uid, prompt=Prompt(uid=uid, text="x"), rollouts=rollouts)
    return Placed(group=group, role=Role.fresh, credits=credits)


class Known:
    """Signals drawn from a seed; the log-ratio of policy and reference is `gap`."""

    def __init__(self, placed: Sequence[Placed], seed: int = 0) -> None:
        draw = np.random.Generator(np.random.Philox(key=seed))
        lengths = [r.length for p in placed for r in p.group.rollouts]
        self.gap = [draw.normal(0, 0.5, n) for n in lengths]
        self.value = [draw.normal(0, 1, n).astype(np.float32) for n in lengths]

    def logprobs(self) -> list[np.ndarray]:
        return [np.full(len(g), -1.0) + g for g in self.gap]

    def reference_logprobs(self) -> list[np.ndarray]:
        return [np.full(len(g), -1.0) for g in self.gap]

    def values(self) -> list[np.ndarray]:
        return self.value


class Silent:
    """Signals nobody may ask."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")


def flat(credits: list[tuple[Credit, ...]]) -> list[Credit]:
    return [c for seat_ in credits for c in seat_]


ALL: dict[str, Any] = {
    "std": GroupAdvantage(scale="std", ddof=1, eps=1e-6),
    "none": GroupAdvantage(scale="none", ddof=1, eps=1e-6),
    "batch": GroupAdvantage(scale="batch", ddof=1, eps=1e-6),
    "rloo": LeaveOneOut(kl_in_reward=0.0),
    "reinforce++": ReinforcePlusPlus(gamma=1.0, kl_in_reward=0.0, baseline=False),
    "baseline": ReinforcePlusPlus(gamma=1.0, kl_in_reward=0.0, baseline=True),
    "gae": GeneralizedAdvantage(gamma=1.0, gae_lambda=1.0, whiten=True, kl_in_reward=0.0),
}
BATCH = [
    seat("a", [(1.0, 3), (0.0, 5), (0.0, 1), (1.0, 2)]),
    seat("b", [(0.1, 4), (0.1, 2)]),
    seat("c", [(1.0, 2), (None, 3), (0.5, 6)]),
]
RLOO_VECTORS = {1: (2.0, -0.2857), 2: (1.7143, -0.5714), 3: (1.4286, -0.8571), 4: (1.1429, -1.1429)} | {
    6: (0.5714, -1.7143),
    7: (0.2857, -2.0),
}


@pytest.mark.parametrize("correct", RLOO_VECTORS)
def test_published_vectors_of_leave_one_out(correct: int) -> None:
    advantage = leave_one_out([1.0] * correct + [-1.0] * (8 - correct))
    assert (advantage[0], advantage[-1]) == pytest.approx(RLOO_VECTORS[correct], abs=1e-4)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12), st.floats(-100, 100))
def test_leave_one_out_is_its_formula_and_knows_no_constant(rewards: list[float], shift: float) -> None:
    if max(rewards) - min(rewards) > 1e-3:
        np.testing.assert_allclose(leave_one_out(rewards), reference.rloo(rewards), atol=1e-9)
        np.testing.assert_allclose(leave_one_out([r + shift for r in rewards]), reference.rloo(rewards), atol=1e-9)
    assert abs(leave_one_out(rewards).sum()) < 1e-9


def test_leave_one_out_of_one_is_refused_and_one_left_over_gets_nothing() -> None:
    with pytest.raises(ValueError, match="at least 2, got 1"):
        leave_one_out([1.0])
    credits = ALL["rloo"]([seat("a", [(1.0, 2), (None, 2)])], Silent())
    assert [c.advantage for c in flat(credits)] == [0.0, 0.0]


@pytest.mark.parametrize("equal", [[0.1 + 0.2] * 3 + [0.3] * 3, [0.95] * 7, [1e6] * 3])
@pytest.mark.parametrize("name", [n for n in ALL if n != "gae"])
def test_a_batch_of_equal_rewards_teaches_nothing_at_all(name: str, equal: list[float]) -> None:
    placed = [seat("a", [(r, 3) for r in equal]), seat("b", [(r, 2) for r in equal])]
    assert not any(c.teaches for c in flat(ALL[name](placed, Silent())))


@pytest.mark.parametrize("name", ["std", "batch"])
def test_no_cancellation_in_any_scale(name: str) -> None:
    (credits,) = ALL[name]([seat("a", [(0.0, 2)] + [(0.95, 2)] * 7)], Silent())
    assert credits[0].advantage == pytest.approx(-2.4749, abs=1e-3)


def test_the_batch_s_deviation_is_that_of_all_scored_rewards() -> None:
    credits = flat(ALL["batch"](BATCH, Silent()))
    rewards = [1.0, 0.0, 0.0, 1.0, 0.1, 0.1, 1.0, 0.5]
    std = float(np.std(rewards, ddof=1)) + 1e-6
    want = [0.5, -0.5, -0.5, 0.5, 0, 0, 0.25, 0, -0.25]
    assert [c.advantage for c in credits] == pytest.approx([w / std for w in want])


@pytest.mark.parametrize("gamma,beta", [(1.0, 0.0), (0.9, 0.0), (0.95, 0.3), (1.0, 0.3)])
def test_reinforce_is_its_formula(gamma: float, beta: float) -> None:
    signals: Any = Known(BATCH)
    credits = flat(ReinforcePlusPlus(gamma=gamma, kl_in_reward=beta, baseline=False)(BATCH, signals))
    members = [r for p in BATCH for r in p.group.rollouts]
    scored = [i for i, r in enumerate(members) if r.scored]
    returns = [reference.token_returns(members[i].reward, signals.gap[i], gamma, beta) for i in scored]
    for i, want in zip(scored, reference.whiten(returns), strict=True):
        np.testing.assert_allclose(credits[i].advantage, want, atol=1e-6)
    assert credits[7].advantage == 0.0, "no verdict, no advantage"
    assert credits[4].teaches, "a group of equal rewards is measured against the batch"


def test_reinforce_baseline_is_its_formula() -> None:
    credits = flat(ALL["baseline"](BATCH, Silent()))
    centred = [(0.5, 3), (-0.5, 5), (-0.5, 1), (0.5, 2), (0.0, 4), (0.0, 2), (0.25, 2), (-0.25, 6)]
    want = iter(reference.whiten([[a] * n for a, n in centred]))
    for i, c in enumerate(credits):
        if i != 7:
            np.testing.assert_allclose(c.advantage, next(want), atol=1e-9)


@pytest.mark.parametrize("gamma,lam,beta", [(1.0, 1.0, 0.0), (0.9, 0.8, 0.0), (1.0, 0.0, 0.2), (0.99, 0.95, 0.1)])
@pytest.mark.parametrize("white", [True, False])
def test_gae_is_its_formula(gamma: float, lam: float, beta: float, white: bool) -> None:
    signals: Any = Known(BATCH, seed=3)
    estimator = GeneralizedAdvantage(gamma=gamma, gae_lambda=lam, whiten=white, kl_in_reward=beta)
    credits = flat(estimator(BATCH, signals))
    members = [r for p in BATCH for r in p.group.rollouts]
    scored = [i for i, r in enumerate(members) if r.scored]
    raw = []
    for i in scored:
        rewards = [-beta * k for k in signals.gap[i]]
        rewards[-1] += members[i].reward
        raw.append(reference.gae(rewards, signals.value[i].astype(np.float64).tolist(), gamma, lam))
    shown = reference.whiten(raw) if white else raw
    for i, a, b in zip(scored, shown, raw, strict=True):
        np.testing.assert_allclose(credits[i].advantage, a, atol=1e-6)
        returns = credits[i].returns
        assert returns is not None
        np.testing.assert_allclose(returns, np.array(b) + signals.value[i], atol=1e-6)
        assert credits[i].values is signals.value[i]
    assert credits[7].returns is None


def test_with_lambda_one_the_return_is_the_reward_to_go_whatever_the_critic_says() -> None:
    for seed in (1, 2):
        credits = flat(ALL["gae"](BATCH, Known(BATCH, seed=seed)))
        returns = credits[0].returns
        assert returns is not None
        np.testing.assert_allclose(returns, np.ones(3), atol=1e-12)


@given(st.lists(st.lists(st.floats(-2, 2), max_size=6), min_size=1, max_size=5), st.floats(0, 1))
def test_discounted_sums_by_hand(rows: list[list[float]], factor: float) -> None:
    for row, got in zip(rows, discounted_sums([np.array(r) for r in rows], factor), strict=True):
        want = [sum(factor ** (s - t) * row[s] for s in range(t, len(row))) for t in range(len(row))]
        np.testing.assert_allclose(got, want, atol=1e-12)


@given(st.lists(st.lists(st.floats(-9, 9), max_size=5), min_size=1, max_size=5), st.floats(-50, 50))
def test_whitened_numbers_have_mean_0_and_deviation_1(rows: list[list[float]], shift: float) -> None:
    arrays = [np.array(r) for r in rows]
    white = np.concatenate(whiten(arrays))
    spread = np.ptp(np.concatenate(arrays)) if len(white) else 0.0
    if spread <= 1e-6:
        assert not white.any()
    elif spread > 0.01:
        assert abs(white.mean()) < 1e-6 and np.std(white, ddof=1) == pytest.approx(1, abs=1e-2)
        np.testing.assert_allclose(np.concatenate(whiten([a + shift for a in arrays])), white, atol=1e-5)


@st.composite
def batches(draw: Any) -> list[Placed]:
    reward = st.one_of(st.none(), st.sampled_from([0.0, 0.1, 0.5, 1.0, -1.0]))
    groups = draw(
        st.lists(st.lists(st.tuples(reward, st.integers(1, 5)), min_size=1, max_size=5), min_size=1, max_size=4)
    )
    return [seat(str(i), made) for i, made in enumerate(groups)]


@settings(max_examples=60, deadline=None)
@given(batches(), st.sampled_from(sorted(ALL)), st.randoms(use_true_random=False))
def test_order_follows_and_no_verdict_means_no_part_in_it(placed: list[Placed], name: str, coin: random.Random) -> None:
    """In another order all get the same credits; taking members without a verdict away changes nothing."""
    signals: Any = Known(placed)
    by_rollout = {}
    place = 0
    for p, own in zip(placed, ALL[name](placed, signals), strict=True):
        for r, c in zip(p.group.rollouts, own, strict=True):
            by_rollout[r.group_uid, r.member] = (c, signals.value[place])
            place += 1
    moved = []
    for p in placed:
        kept = [r for r in p.group.rollouts if r.scored]
        coin.shuffle(kept)
        moved.append(dataclasses.replace(p, group=dataclasses.replace(p.group, rollouts=tuple(kept))))
    coin.shuffle(moved)
    other: Any = Known(moved)
    other.value = [by_rollout[r.group_uid, r.member][1] for p in moved for r in p.group.rollouts]
    for p, own in zip(moved, ALL[name](moved, other), strict=True):
        for r, c in zip(p.group.rollouts, own, strict=True):
            before = by_rollout[r.group_uid, r.member][0]
            np.testing.assert_allclose(c.advantage, before.advantage, atol=1e-9)
            if before.returns is not None:
                np.testing.assert_allclose(c.returns, before.returns, atol=1e-9)
    for (uid, member), (c, _) in by_rollout.items():
        rollout = next(r for p in placed for r in p.group.rollouts if (r.group_uid, r.member) == (uid, member))
        assert rollout.scored or not c.teaches


@pytest.mark.parametrize("name", [n for n in ALL if n != "gae"])
def test_a_constant_on_all_rewards_changes_nothing(name: str) -> None:
    plain = [seat("a", [(1.0, 3), (0.0, 2)]), seat("b", [(0.5, 1), (0.1, 4)])]
    moved = [seat("a", [(8.0, 3), (7.0, 2)]), seat("b", [(7.5, 1), (7.1, 4)])]
    for a, b in zip(flat(ALL[name](plain, Silent())), flat(ALL[name](moved, Silent())), strict=True):
        np.testing.assert_allclose(a.advantage, b.advantage, atol=1e-6)


@pytest.mark.parametrize("name", sorted(ALL))
def test_frozen_seats_keep_their_credits_and_stay_out_of_the_statistics(name: str) -> None:
    frozen = (Credit(advantage=7.0),)
    lone = seat("z", [(100.0, 3)], credits=frozen)
    signals: Any = Known([BATCH[0], lone, *BATCH[1:]])
    with_it = ALL[name]([BATCH[0], lone, *BATCH[1:]], signals)
    assert with_it[1] is frozen
    without: Any = Known(BATCH)
    without.value = signals.value[:4] + signals.value[5:]
    for a, b in zip(flat([with_it[0], *with_it[2:]]), flat(ALL[name](BATCH, without)), strict=True):
        np.testing.assert_array_equal(a.advantage, b.advantage)


def test_kl_in_the_reward_lets_a_group_of_equal_scores_teach() -> None:
    placed = [seat("a", [(1.0, 3), (1.0, 2), (1.0, 4)])]
    signals: Any = Known(placed)
    (credits,) = LeaveOneOut(kl_in_reward=0.5)(placed, signals)
    want = reference.rloo([1.0 - 0.5 * float(g.sum()) for g in signals.gap])
    assert [c.advantage for c in credits] == pytest.approx(want, abs=1e-6)


# --- cut rollouts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(ALL))
def test_zero_takes_the_advantage_and_mask_the_row(name: str) -> None:
    placed = [
        seat("a", [(1.0, 3), (0.0, 5), (0.2, 5)], cut=[1, 2]),
        seat("b", [(1.0, 2), (None, 5), (0.0, 3)], cut=[1]),
    ]
    plain = flat(ALL[name](placed, Known(placed)))
    zero = flat(Overlong(ALL[name], "zero")(placed, Known(placed)))
    mask = flat(Overlong(ALL[name], "mask")(placed, Known(placed)))
    for i, (p, z, m) in enumerate(zip(plain, zero, mask, strict=True)):
        if i in (1, 2):
            assert z.advantage == 0.0 and z.counts
            assert (z.returns is None) == (p.returns is None), "a critic still learns from it"
            assert not z.teaches and not m.teaches and not m.counts and m.returns is None
        else:
            np.testing.assert_array_equal(z.advantage, p.advantage)
            np.testing.assert_array_equal(m.advantage, p.advantage)
            assert m.counts


@pytest.mark.parametrize("length,want", [(4096, 0), (6144, -0.5), (8192, -1), (5120, -0.25), (1, 0), (9000, -1)])
def test_vectors_of_the_soft_penalty(length: int, want: float) -> None:
    assert overlong_penalty(length, 8192, 4096) == want


@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 60))
def test_the_soft_penalty_is_bounded_and_never_rises(longest: int, buffer: int, length: int) -> None:
    if buffer > longest:
        with pytest.raises(ValueError, match="between 1 and"):
            overlong_penalty(length, longest, buffer)
        return
    here = overlong_penalty(length, longest, buffer)
    assert -1 <= overlong_penalty(length + 1, longest, buffer) <= here <= 0
    assert overlong_penalty(longest, longest, buffer) == -1 and overlong_penalty(longest - buffer, longest, buffer) == 0
