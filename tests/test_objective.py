"""Objectives and reductions against formulas in double precision, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.objective import kl_k3, reduction_weights, sampler_weights, surrogate

CLIP = {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": 10.0}
ONE = torch.ones(1, 1, dtype=torch.bool)


def one(lt: float, lp: float, lb: float, a: float, kind: str = "decoupled", **over: object) -> float:
    def t(x: float) -> torch.Tensor:
        return torch.tensor([[x]], dtype=torch.float64)

    adv = torch.tensor([[a]], dtype=torch.float64)
    loss, _ = surrogate(t(lt), t(lp), t(lb), adv, mask_RT=ONE, kind=kind, **{**CLIP, **over})  # type: ignore[arg-type]
    return float(loss)


def by_formula(lt: float, lp: float, lb: float, a: float, cap: float | None = None) -> float:
    r = math.exp(lt - lp)
    w = math.exp(lp - lb)
    w = w if cap is None else min(w, cap)
    loss = max(-a * r, -a * min(max(r, 0.8), 1.28))
    return w * (min(loss, -a * 10.0) if a < 0 else loss)


logp = st.floats(-8, -1e-3)


@given(logp, logp, logp, st.floats(-3, 3), st.sampled_from([None, 0.5, 2.0]))
def test_decoupled_is_its_formula(lt: float, lp: float, lb: float, a: float, cap: float | None) -> None:
    assert one(lt, lp, lb, a, weight_cap=cap) == pytest.approx(by_formula(lt, lp, lb, a, cap), rel=1e-9, abs=1e-12)


@given(logp, logp, logp, st.floats(-3, 3))
def test_decoupled_is_hiltons_form_in_logs(lt: float, lp: float, lb: float, a: float) -> None:
    """max(-A e^(lt-lb), -A e^(clip(lt-lp, log .8, log 1.28) + lp - lb)) without the dual clip."""
    clipped = min(max(lt - lp, math.log(0.8)), math.log(1.28)) + lp - lb
    expected = max(-a * math.exp(lt - lb), -a * math.exp(clipped))
    assert one(lt, lp, lb, a, dual_clip=None) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(logp, logp, st.floats(-3, 3))
def test_without_staleness_all_kinds_agree(lt: float, lp: float, a: float) -> None:
    values = {kind: one(lt, lp, lp, a, kind) for kind in ("clipped", "decoupled", "behaviour")}
    assert len(set(values.values())) == 1, "bit for bit"


def test_the_kinds_differ_on_stale_data() -> None:
    values = [one(-1.0, -1.1, -2.0, 1.0, kind) for kind in ("clipped", "decoupled", "behaviour")]
    assert values[0] == pytest.approx(-math.exp(0.1))
    assert values[1] == pytest.approx(-math.exp(0.9) * math.exp(0.1))
    assert values[2] == pytest.approx(-1.28), "ratio e is clipped around the behaviour policy"


def test_dual_clip_acts_before_the_weight() -> None:
    assert one(-1.0, -5.0, -6.0, -1.0) == pytest.approx(math.exp(1.0) * 10.0)
    assert one(-1.0, -5.0, -6.0, -1.0, dual_clip=None) == pytest.approx(math.exp(1.0) * math.exp(4.0))


def test_over_the_cap_clamp_and_mask() -> None:
    assert one(-1.0, -1.0, -3.0, 1.0, weight_cap=2.0) == pytest.approx(-2.0)
    assert one(-1.0, -1.0, -3.0, 1.0, weight_cap=2.0, weight_over_cap="mask") == 0.0


def test_gradient_at_the_proximal_policy_is_scaled_by_the_weight() -> None:
    theta = torch.full((1, 1), -1.0, dtype=torch.float64, requires_grad=True)
    behaviour = torch.full((1, 1), -1.7, dtype=torch.float64)
    two = torch.tensor([[2.0]])
    loss, stats = surrogate(theta, theta.detach(), behaviour, two, mask_RT=ONE, kind="decoupled", **CLIP)  # type: ignore[arg-type]
    loss.sum().backward()  # type: ignore[no-untyped-call]
    assert theta.grad is not None and float(theta.grad) == pytest.approx(-2.0 * math.exp(0.7))
    assert not bool(stats.clipped.any())


def test_the_weight_carries_no_gradient() -> None:
    theta = torch.full((1, 1), -1.0, dtype=torch.float64)
    prox = torch.full((1, 1), -1.0, dtype=torch.float64, requires_grad=True)
    loss, stats = surrogate(theta, prox, prox * 1.5, torch.ones(1, 1), mask_RT=ONE, kind="decoupled", **CLIP)  # type: ignore[arg-type]
    assert not stats.weight.requires_grad and loss.requires_grad


def test_the_weight_for_the_sampler_by_hand() -> None:
    trainer, sampler = torch.tensor([[-1.0, -1.0, -1.0, -3.0]]), torch.tensor([[-1.0, -1.5, -2.0, -1.0]])
    weight, ratio = sampler_weights(trainer, sampler, cap=2.0)
    assert weight[0].tolist() == pytest.approx([1.0, math.exp(0.5), 2.0, math.exp(-2.0)])
    assert ratio[0].tolist() == pytest.approx([1.0, math.exp(0.5), math.e, math.exp(-2.0)])


@given(logp, logp, st.floats(0.05, 50))
def test_the_weight_for_the_sampler_is_bounded_and_one_where_they_agree(b: float, q: float, cap: float) -> None:
    trainer, sampler = torch.tensor([[b]], dtype=torch.float64), torch.tensor([[q]], dtype=torch.float64)
    weight, ratio = sampler_weights(trainer, sampler, cap=cap)
    assert 0 < float(weight) <= cap and float(weight) <= float(ratio) == pytest.approx(math.exp(b - q), rel=1e-9)
    same, _ = sampler_weights(trainer, trainer, cap=max(cap, 1.0))
    assert float(same) == 1.0


@given(logp, logp, st.floats(0.1, 5), st.floats(0.1, 5))
def test_the_weight_for_the_sampler_grows_with_its_cap(b: float, q: float, low: float, more: float) -> None:
    trainer, sampler = torch.tensor([[b]]), torch.tensor([[q]])
    tight, _ = sampler_weights(trainer, sampler, cap=low)
    wide, _ = sampler_weights(trainer, sampler, cap=low + more)
    assert float(tight) <= float(wide)


@given(st.floats(-5, -0.01), st.floats(-5, -0.01))
def test_k3_is_not_negative_and_zero_only_at_equality(a: float, b: float) -> None:
    t = torch.tensor([[a]], dtype=torch.float64)
    value = float(kl_k3(t, torch.tensor([[b]], dtype=torch.float64)))
    assert value >= -1e-12
    assert value == pytest.approx(math.exp(b - a) - 1 - (b - a), rel=1e-9, abs=1e-12)


LENGTHS = torch.tensor([3, 1, 0, 4])
UNITS = torch.tensor([0, 0, 1, 1])


@pytest.mark.parametrize(
    "kind,expected",
    [
        ("token", [1 / 8, 1 / 8, 0, 1 / 8]),
        ("sequence", [1 / 9, 1 / 3, 0, 1 / 12]),
        ("prompt", [1 / 8, 1 / 8, 0, 1 / 8]),
        ("constant", [1 / 30, 1 / 30, 0, 1 / 30]),
    ],
)
def test_reductions_by_hand(kind: str, expected: list[float]) -> None:
    weight = reduction_weights(LENGTHS, UNITS, kind=kind, max_length=10)  # type: ignore[arg-type]
    assert weight.tolist() == pytest.approx(expected)


def test_prompt_reduction_weighs_groups_alike() -> None:
    weight = reduction_weights(torch.tensor([1, 1, 8]), torch.tensor([4, 4, 9]), kind="prompt", max_length=10)
    assert weight.tolist() == pytest.approx([1 / 4, 1 / 4, 1 / 16])


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=12))
def test_means_sum_to_one(rows: list[tuple[int, int]]) -> None:
    lengths = torch.tensor([n for n, _ in rows])
    units = torch.tensor([u for _, u in rows])
    for kind in ("token", "sequence", "prompt"):
        total = float((reduction_weights(lengths, units, kind=kind, max_length=9) * lengths).sum())
        assert total == pytest.approx(1.0 if int(lengths.sum()) else 0.0)


# --- a policy whose exact gradient is known -------------------------------------------------------------------------


def enumerated(kind: str, *, overwrite: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Expected gradient of the objective over all outcomes drawn from a behaviour policy, at theta = prox, and the
    exact policy gradient. One token, five outcomes, advantages fixed per outcome."""
    advantage = torch.tensor([1.0, -0.5, 0.3, 2.0, -1.2], dtype=torch.float64)
    behaviour = torch.tensor([0.5, 1.5, -0.5, -1.0, 0.2], dtype=torch.float64).log_softmax(0)
    theta = torch.tensor([1.0, -1.0, 0.5, 0.0, -0.3], dtype=torch.float64, requires_grad=True)
    logp = theta.log_softmax(0)
    prox = logp.detach()
    stored = prox if overwrite else behaviour
    columns = logp[:, None], prox[:, None], stored[:, None], advantage[:, None]
    loss, _ = surrogate(*columns, mask_RT=torch.ones(5, 1, dtype=torch.bool), kind=kind, **CLIP)  # type: ignore[arg-type]
    (estimate,) = torch.autograd.grad((behaviour.exp() * loss[:, 0]).sum(), theta)
    theta2 = theta.detach().clone().requires_grad_(True)
    (exact,) = torch.autograd.grad(-(theta2.softmax(0) * advantage).sum(), theta2)
    return estimate.numpy(), exact.numpy()


def test_decoupled_gradient_is_unbiased_under_staleness() -> None:
    estimate, exact = enumerated("decoupled")
    np.testing.assert_allclose(estimate, exact, atol=1e-12)


def test_on_policy_naive_gradient_is_biased_under_staleness() -> None:
    estimate, exact = enumerated("clipped")
    assert np.abs(estimate - exact).max() > 0.05


def test_overwritten_behaviour_logprobs_would_be_seen() -> None:
    """Recomputing the stored log-probs turns the decoupled objective into the naive one."""
    estimate, exact = enumerated("decoupled", overwrite=True)
    assert np.abs(estimate - exact).max() > 0.05


def through_an_engine(*, corrected: bool, aged: bool) -> tuple[np.ndarray, np.ndarray]:
    """As `enumerated`, with outcomes drawn by an engine whose distribution is not the trainer's at birth: the decoupled
    gradient, times the weight for the engine or without it. `aged`: the policy has moved on since."""
    advantage = torch.tensor([1.0, -0.5, 0.3, 2.0, -1.2], dtype=torch.float64)
    theta = torch.tensor([1.0, -1.0, 0.5, 0.0, -0.3], dtype=torch.float64, requires_grad=True)
    then = torch.tensor([0.8, -0.7, 0.2, 0.4, -0.5], dtype=torch.float64) if aged else theta.detach()
    birth = then.log_softmax(0)
    drawn = (then + torch.tensor([0.4, -0.3, 0.2, -0.5, 0.1], dtype=torch.float64)).log_softmax(0)
    logp = theta.log_softmax(0)
    columns = logp[:, None], logp.detach()[:, None], birth[:, None], advantage[:, None]
    loss, _ = surrogate(*columns, mask_RT=torch.ones(5, 1, dtype=torch.bool), kind="decoupled", **CLIP)  # type: ignore[arg-type]
    weight, _ = sampler_weights(birth[:, None], drawn[:, None], cap=50.0)
    loss = weight * loss if corrected else loss
    (estimate,) = torch.autograd.grad((drawn.exp() * loss[:, 0]).sum(), theta)
    theta2 = theta.detach().clone().requires_grad_(True)
    (exact,) = torch.autograd.grad(-(theta2.softmax(0) * advantage).sum(), theta2)
    return estimate.numpy(), exact.numpy()


@pytest.mark.parametrize("aged", [False, True], ids=["fresh", "replayed"])
def test_the_two_weights_together_correct_for_engine_and_age(aged: bool) -> None:
    estimate, exact = through_an_engine(corrected=True, aged=aged)
    np.testing.assert_allclose(estimate, exact, atol=1e-12)
    estimate, exact = through_an_engine(corrected=False, aged=aged)
    assert np.abs(estimate - exact).max() > 0.02, "without the weight for the engine it is biased"
