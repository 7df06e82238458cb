"""The critic: what its values are, that a head leaves the trunk alone, splits, state, and what is not finite."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from rollwise.advantage import GeneralizedAdvantage
from rollwise.config import LearnerConfig, ObjectiveConfig
from rollwise.errors import UserError
from rollwise.learner.critic import Critic
from rollwise.learner.learner import Learner
from rollwise.policy import Policy
from rollwise.records import Batch, Group, Placed, Role, Row
from tests.test_learner import groups as groups  # the fixture
from tests.test_learner import policy, relative


def critic(base: Policy | None = None, *, own: bool = False, lr: float = 1e-2, **settings: Any) -> Critic:
    config = LearnerConfig(**{"max_grad_norm": None, **settings})
    return Critic(base or policy(), config, own=own, lr=lr, clip_value=0.2)


def shaken(one: Critic) -> Critic:
    """With a head that is not zero."""
    with torch.no_grad():
        one.head.weight.copy_(torch.linspace(-1, 1, one.head.weight.numel())[None])
        one.head.bias.fill_(0.3)
    return one


def batch_of(groups: list[Group], one: Critic) -> Batch:
    placed = [Placed(group=g, role=Role.fresh) for g in groups]
    signals: Any = type("Known", (), {"values": lambda _: one.values([r for g in groups for r in g.rollouts])})()
    credits = GeneralizedAdvantage(gamma=1.0, gae_lambda=0.9, whiten=True, kl_in_reward=0.0)(placed, signals)
    rows = [
        Row(rollout=r, credit=c, role=Role.fresh, unit=unit)
        for unit, g in enumerate(groups)
        for r, c in zip(g.rollouts, credits[unit], strict=True)
    ]
    return Batch(rows=tuple(rows), step=1)


def test_a_value_is_that_of_the_place_that_predicts_the_token(groups: list[Group]) -> None:
    one = shaken(critic())
    rollouts = [r for g in groups for r in g.rollouts]
    for rollout, values in zip(rollouts, one.values(rollouts), strict=True):
        ids = torch.from_numpy(np.concatenate([rollout.prompt_ids, rollout.completion_ids])).long()[None]
        with torch.no_grad():
            hidden = one.policy.trunk(ids)[0]
            start = len(rollout.prompt_ids) - 1
            want = one.head(hidden[start : start + rollout.length])[:, 0]
        np.testing.assert_allclose(values, want.numpy(), atol=1e-5)
        assert values.dtype == np.float32 and len(values) == rollout.length


def test_a_new_critic_knows_nothing(groups: list[Group]) -> None:
    assert not np.concatenate(critic().values(list(groups[0].rollouts))).any()


def gradient(one: Critic, batch: Batch) -> torch.Tensor:
    seen: list[torch.Tensor] = []
    step = one.optimizer.adamw.step

    def recorded(*a: Any, **k: Any) -> Any:
        seen.append(torch.cat([p.grad.flatten() for p in one.optimizer.parameters if p.grad is not None]).clone())
        return step(*a, **k)

    one.optimizer.adamw.step = recorded  # type: ignore[method-assign]
    one.update(batch.rows, [list(range(len(batch.rows)))])
    return seen[0]


@pytest.mark.parametrize("own", [False, True])
def test_gradient_does_not_depend_on_the_micro_batches(groups: list[Group], own: bool) -> None:
    gradients = []
    for tokens in (100_000, 60, 1):
        one = shaken(critic(own=own, micro_batch_tokens=tokens))
        gradients.append(gradient(one, batch_of(groups, shaken(critic()))))
    for other in gradients[1:]:
        assert relative(other, gradients[0]) < 1e-5


def test_gradient_of_the_head_by_hand(groups: list[Group]) -> None:
    """0.5 (V - R)^2 over all tokens: the bias gets the mean error, the weights the mean of error x hidden state."""
    one = shaken(critic())
    batch = batch_of(groups, one)
    got = gradient(one, batch)
    fresh = shaken(critic())
    errors, hidden = [], []
    for row in batch.rows:
        rollout = row.rollout
        ids = torch.from_numpy(np.concatenate([rollout.prompt_ids, rollout.completion_ids])).long()[None]
        start = len(rollout.prompt_ids) - 1
        with torch.no_grad():
            hidden.append(fresh.policy.trunk(ids)[0, start : start + rollout.length].double())
        assert row.credit.returns is not None and row.credit.values is not None
        errors.append(torch.from_numpy(row.credit.values - row.credit.returns))
    error, states = torch.cat(errors), torch.cat(hidden)
    want = torch.cat([(error[:, None] * states).mean(0), error.mean()[None]])
    assert relative(got.double(), want) < 1e-4


def test_a_head_leaves_the_policy_alone_and_a_model_has_its_own(groups: list[Group]) -> None:
    base = policy()
    before = {n: p.detach().clone() for n, p in base.model.named_parameters()}
    head = shaken(critic(base))
    head.update(batch_of(groups, head).rows, [list(range(8)), list(range(8, 16))])
    assert all(torch.equal(p, before[n]) and p.grad is None for n, p in base.model.named_parameters())
    assert head.optimizer.updates == 2 and len(head.optimizer.parameters) == 2
    own = shaken(critic(own=True))
    trunk = [p.detach().clone() for p in own.policy.model.base_model.parameters()]
    own.update(batch_of(groups, own).rows, [list(range(16))])
    assert any(not torch.equal(a, b) for a, b in zip(trunk, own.policy.model.base_model.parameters(), strict=True))


def test_it_learns_what_it_is_shown(groups: list[Group]) -> None:
    one = critic(own=True, lr=3e-3)
    batch = batch_of(groups, one)
    everything = [list(range(len(batch.rows)))]
    first = one.update(batch.rows, everything)[0]
    for _ in range(60):
        batch = batch_of(groups, one)
        last, stop = one.update(batch.rows, everything)
    assert not stop and last["value/loss"] < 0.5 * first["value/loss"]
    assert first["value/explained_variance"] == pytest.approx(0) and last["value/explained_variance"] > 0.3


def test_rows_that_do_not_count_teach_no_critic(groups: list[Group]) -> None:
    rows = batch_of(groups, critic()).rows
    dropped = [
        dataclasses.replace(r, credit=dataclasses.replace(r.credit, counts=False)) if i % 2 else r
        for i, r in enumerate(rows)
    ]
    kept = rows[::2]
    a, b = critic(), critic()
    a.update(dropped, [list(range(len(rows)))])
    b.update(kept, [list(range(len(kept)))])
    torch.testing.assert_close(a.head.weight, b.head.weight, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("own", [False, True])
def test_saved_state_continues_bit_for_bit(groups: list[Group], own: bool) -> None:
    def made() -> Critic:
        return critic(own=own)

    batch = batch_of(groups, critic())
    plan = [list(range(12)), list(range(12, len(batch.rows)))]
    one, other = made(), made()
    one.update(batch.rows, plan)
    other.load_state_dict(one.state_dict())
    for each in (one, other):
        each.update(batch.rows, plan)
    for a, b in zip(one.optimizer.parameters, other.optimizer.parameters, strict=True):
        assert torch.equal(a, b)
    state = one.state_dict()
    with pytest.raises(ValueError, match="expected keys"):
        other.load_state_dict({k: v for k, v in state.items() if k != "weights"})
    with pytest.raises(ValueError, match="not those of this critic"):
        critic(own=not own).load_state_dict(state)


def test_a_learner_s_state_with_a_critic_is_not_one_without() -> None:
    def learner(with_critic: bool) -> Learner:
        p = policy()
        owned = critic(p) if with_critic else None
        return Learner(p, LearnerConfig(), ObjectiveConfig(), seed=0, max_completion_length=16, critic=owned)

    for a, b in ((True, False), (False, True)):
        with pytest.raises(ValueError, match="a critic is in only one"):
            learner(a).load_state_dict(learner(b).state_dict())
        learner(a).load_state_dict(learner(a).state_dict())


def test_what_is_not_finite_is_skipped_counted_and_stops_the_run(groups: list[Group]) -> None:
    one = critic()
    rows = batch_of(groups, one).rows
    bad = [
        dataclasses.replace(
            r, credit=dataclasses.replace(r.credit, returns=np.full(r.rollout.length, np.nan))
        )
        for r in rows
    ]  # fmt: skip
    stops = [one.update(bad, [list(range(len(bad)))])[1] for _ in range(3)]
    assert stops[:2] == ["", ""] and "3 updates in a row" in stops[2]
    assert one.optimizer.updates == 0 and not one.head.weight.any()
    one.optimizer.skipped_in_a_row = 0
    assert one.update(rows, [list(range(len(rows)))])[1] == "" and one.head.weight.any()


def test_a_model_without_hidden_states_of_its_own_is_refused() -> None:
    p = policy()
    p.model.base_model_prefix = ""
    with pytest.raises(UserError, match="hidden states"):
        critic(p)
