"""The base algorithms through the real loop, and the settings that are refused together."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rollwise.assemble import resolve
from rollwise.config import merge, nest
from rollwise.errors import UserError
from rollwise.learner.critic import Critic
from rollwise.records import Batch, Role, StopReason, Verdict, VerdictKind
from rollwise.tasks.sort_digits import SortDigits

Train = Callable[..., Any]


def dead(batch: Batch) -> list[list[Any]]:
    units: dict[int, list[Any]] = {}
    for row in batch.rows:
        units.setdefault(row.unit, []).append(row)
    return [u for u in units.values() if len({r.rollout.reward for r in u}) == 1]


@pytest.mark.parametrize("method", ["reinforce++", "ppo"])
def test_groups_of_equal_rewards_teach_and_are_counted_as_trained(
    train: Train, batches: list[Any], method: str
) -> None:
    run = train(method, {"budget.steps": 3})
    assert any(dead(batch) for batch, _ in batches)
    taught = sum(row.credit.teaches for batch, _ in batches for row in batch.rows)
    assert run.ledger["outcomes"]["trained"]["rollouts"] == taught
    assert any(r.credit.teaches for batch, _ in batches for unit in dead(batch) for r in unit)
    assert max(run.metric("frac_reward_zero_std")) > 0, "which still speaks of reward variance"


def test_whitened_advantages_of_a_step_have_mean_0_and_deviation_1(train: Train, batches: list[Any]) -> None:
    train("reinforce++", {"budget.steps": 1})
    tokens = np.concatenate([row.credit.advantage for row in batches[0][0].rows])
    assert abs(tokens.mean()) < 1e-9 and tokens.std(ddof=1) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("kind", ["head", "model"])
def test_the_critic_serves_the_next_step_s_values(train: Train, batches: list[Any], kind: str) -> None:
    run = train("ppo", {"critic.kind": kind, "budget.steps": 3})
    first, second = (np.concatenate([r.credit.values for r in batch.rows]) for batch, _ in batches[:2])
    assert not first.any() and second.any()
    assert all(v is not None and v >= 0 for v in run.metric("value/loss"))
    assert run.metric("value/explained_variance")[0] == 0.0
    for batch, _ in batches:
        for row in batch.rows:
            assert row.credit.returns == pytest.approx(row.rollout.reward), "lambda 1, gamma 1: the reward to go"


def test_a_head_s_run_stopped_and_resumed_is_the_run_never_stopped(train: Train) -> None:
    from tests.test_resume import again, without_settings

    more = {"critic.kind": "head", "advantage.gae_lambda": 0.9}
    whole = train("ppo", {**more, "budget.steps": 4}, name="whole")
    train("ppo", {**more, "budget.steps": 2}, name="cut")
    cut = again(whole.folder.parent / "cut", budget__steps=4)
    assert cut.weights() == whole.weights()
    assert without_settings(cut.events) == without_settings(whole.events)


def test_a_critic_that_is_not_restored_would_be_seen(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.test_resume import again

    more = {"critic.kind": "head", "advantage.gae_lambda": 0.9}
    whole = train("ppo", {**more, "budget.steps": 4}, name="whole")
    train("ppo", {**more, "budget.steps": 2}, name="cut")
    monkeypatch.setattr(Critic, "load_state_dict", lambda self, state: None)
    assert again(whole.folder.parent / "cut", budget__steps=4).weights() != whole.weights()


def test_replayed_groups_are_valued_by_the_current_critic(train: Train, batches: list[Any]) -> None:
    train("popo-ppo", {"budget.steps": 6})
    born: dict[Any, np.ndarray] = {}
    replayed = 0
    for batch, _ in batches:
        for row in batch.rows:
            key = row.rollout.group_uid, row.rollout.member
            if row.role is Role.fresh:
                born[key] = row.credit.values
            else:
                replayed += 1
                assert not np.array_equal(row.credit.values, born[key])
                np.testing.assert_allclose(row.credit.returns, row.rollout.reward, atol=1e-6)
    assert replayed > 8


def test_kl_in_the_reward_reaches_every_token(train: Train, batches: list[Any]) -> None:
    run = train("reinforce++", {"advantage.kl_in_reward": 0.5, "budget.steps": 3, "learner.lr": 1e-3})
    late = [row.credit.advantage for row in batches[-1][0].rows]
    assert any(np.ptp(a) > 1e-3 for a in late), "the policy has left the reference, token by token"
    plain = train("reinforce++", {"budget.steps": 3, "learner.lr": 1e-3}, name="plain")
    assert plain.weights() != run.weights()
    first = [row.credit.advantage for row in batches[0][0].rows]
    assert max(np.ptp(a) for a in first) < 1e-4, "at the start it is the reference"


def cut(self: Any, text: str, answer: object, stop: StopReason) -> Verdict:
    """Right where it ended by itself."""
    kind = VerdictKind.wrong if stop is StopReason.length else VerdictKind.correct
    return Verdict(kind=kind, score=float(kind is VerdictKind.correct))


SHORT = {"sampling.max_completion_length": 5, "sampling.temperature": 3.0, "budget.steps": 2}


@pytest.mark.parametrize("mode", ["keep", "zero", "mask"])
def test_cut_rollouts_are_kept_zeroed_or_left_out(
    train: Train, batches: list[Any], monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(SortDigits, "verify", cut)
    run = train("grpo", {**SHORT, "advantage.overlong": mode})
    rows = [row for batch, _ in batches for row in batch.rows]
    over = [r for r in rows if r.rollout.stop is StopReason.length]
    live = {(batch.step, r.unit) for batch, _ in batches for r in batch.rows if r.credit.teaches}
    assert over and live
    assert all(r.credit.counts == (mode != "mask") for r in over)
    assert any(r.credit.teaches for r in over) == (mode == "keep")
    outcomes = {k: v["rollouts"] for k, v in run.ledger["outcomes"].items()}
    among_taught = [r for batch, _ in batches for r in batch.rows if r in over and (batch.step, r.unit) in live]
    assert outcomes["truncated"] == {"keep": 0, "zero": len(among_taught), "mask": len(over)}[mode]
    assert sum(outcomes.values()) == 48


def test_zeroed_rollouts_count_in_the_reduction_and_masked_ones_do_not(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SortDigits, "verify", cut)
    weights = {m: train("grpo", {**SHORT, "advantage.overlong": m}, name=m).weights() for m in ("keep", "zero", "mask")}
    assert len(set(weights.values())) == 3


def test_a_group_whose_only_spread_is_in_cut_rollouts_could_not_teach(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = itertools.cycle([0.0, 1.0])

    def in_turn(self: Any, text: str, answer: object, stop: StopReason) -> Verdict:
        return Verdict(kind=VerdictKind.wrong, score=next(scores))

    monkeypatch.setattr(SortDigits, "verify", in_turn)
    run = train("grpo", {"sampling.max_completion_length": 1, "budget.steps": 2, "advantage.overlong": "zero"})
    assert run.metric("frac_reward_zero_std") == [0.0, 0.0] and run.metric("completions/clipped_ratio") == [1.0, 1.0]
    outcomes = {k: v["rollouts"] for k, v in run.ledger["outcomes"].items() if v["rollouts"]}
    assert outcomes == {"dropped_hard": 48} and run.ledger["idle_steps"] == 2


def test_the_soft_penalty_is_in_the_reward_and_nowhere_else(train: Train, batches: list[Any]) -> None:
    plain = train("grpo", {"budget.steps": 1}, name="plain")
    shaped = train("grpo", {"budget.steps": 1, "reward.overlong_buffer": 21, "reward.overlong_factor": 0.5}, name="s")
    assert shaped.metric("accuracy")[0] == plain.metric("accuracy")[0]
    assert shaped.evals[0] == plain.evals[0], "evaluation knows no shaping"
    assert shaped.metric("reward")[0] < plain.metric("reward")[0]
    for row in batches[-1][0].rows:
        rollout = row.rollout
        longest = rollout.sampling.max_completion_length
        want = -0.5 * max(0.0, (rollout.length - (longest - 21)) / 21)
        assert rollout.verdict is not None and rollout.reward - rollout.verdict.score == pytest.approx(want)


@pytest.mark.parametrize(
    "settings,words",
    [
        ({"advantage.kind": "gae"}, "advantage.kind is gae without a critic; set critic.kind=model"),
        ({"critic.kind": "head"}, "advantage.kind group reads no values; set critic.kind=none"),
        ({"advantage.kl_in_reward": 0.1}, "set objective.kl_coef"),
        ({"objective.behaviour_weight": True}, "set objective.kind=decoupled"),
        ({"objective.weight_level": "sequence"}, "set objective.kind=decoupled"),
        ({"objective.kind": "cispo"}, "set objective.dual_clip=null"),
        (
            {"objective.kind": "sequence", "objective.weight_level": "sequence"},
            "set objective.behaviour_weight=true",
        ),
        ({"reward.overlong_buffer": 23}, "at most sampling.max_completion_length (22)"),
        ({"reward.overlong_buffer": 3, "reward.overlong_share": 0.1}, "both set; keep one"),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, Any], words: str) -> None:
    tree: dict[str, Any] = {"method": "grpo", "budget": {"steps": 1}}
    for dotted, value in settings.items():
        tree = merge(tree, nest(dotted, value))
    with pytest.raises(UserError) as error:
        resolve([("test", tree)])
    assert words in str(error.value) and "\n" not in str(error.value)
