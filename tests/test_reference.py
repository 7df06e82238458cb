"""Every objective under every reduction against plain float64 forms: loss and gradient; and a policy of several tokens
whose exact gradient can be enumerated."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.objective import kl_k3, reduction_weights, surrogate, value_loss
from tests import reference

REDUCTIONS = ["token", "sequence", "prompt", "constant"]
WIDE: dict[str, Any] = {"low": 0.2, "high": 0.28}
CASES: dict[str, dict[str, Any]] = {
    "clipped": {"kind": "clipped", **WIDE},
    "clipped, dual": {"kind": "clipped", "dual": 1.5, **WIDE},
    "decoupled": {"kind": "decoupled", "dual": 10.0, **WIDE},
    "decoupled, clamped": {"kind": "decoupled", "cap": 1.2, **WIDE},
    "decoupled, masked": {"kind": "decoupled", "cap": 1.2, "over": "mask", **WIDE},
    "decoupled, sequence": {"kind": "decoupled", "level": "sequence", **WIDE},
    "decoupled, sequence, clamped": {"kind": "decoupled", "level": "sequence", "cap": 1.5, **WIDE},
    "behaviour": {"kind": "behaviour", **WIDE},
    "sequence": {"kind": "sequence", "low": 3e-4, "high": 4e-4},
    "sequence, wide": {"kind": "sequence", "dual": 1.1, **WIDE},
    "sequence, token weight": {"kind": "sequence", "weighted": True, **WIDE},
    "sequence, sequence weight": {"kind": "sequence", "weighted": True, "level": "sequence", **WIDE},
    "cispo": {"kind": "cispo", "low": 1.0, "high": 4.0},
    "cispo, tight": {"kind": "cispo", **WIDE},
    "cispo, weighted": {"kind": "cispo", "weighted": True, "cap": 2.0, **WIDE},
}
UNITS = [0, 0, 0, 1, 1, 2]
LENGTHS = [3, 1, 5, 4, 0, 2]


def rows_of(seed: int, *, per_token: bool = True) -> list[list[np.ndarray]]:
    """theta, prox, behaviour and advantages of six rows of unequal length, one of them empty."""
    draw = np.random.Generator(np.random.Philox(key=seed))
    theta = [draw.uniform(-3, -0.1, n) for n in LENGTHS]
    prox = [row + draw.normal(0, 0.25, len(row)) for row in theta]
    behaviour = [row + draw.normal(0, 0.4, len(row)) for row in prox]
    own = [draw.normal(0, 1, n if per_token else 1) for n in LENGTHS]
    return [theta, prox, behaviour, [np.broadcast_to(a, n).copy() for a, n in zip(own, LENGTHS, strict=True)]]


def padded(rows: list[np.ndarray], fill: float = 0.0) -> torch.Tensor:
    out = np.full((len(rows), max(map(len, rows))), fill)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return torch.from_numpy(out)


def ours(rows: list[list[np.ndarray]], reduction: str, case: dict[str, Any], fill: float = 0.0) -> tuple[float, Any]:
    theta, prox, behaviour, advantage = (padded(r, fill * (k + 1)) for k, r in enumerate(rows))
    theta = theta.clone().requires_grad_(True)
    length = torch.tensor([len(r) for r in rows[0]])
    mask = torch.arange(theta.shape[1])[None] < length[:, None]
    names = {"low": "clip_low", "high": "clip_high", "dual": "dual_clip", "weighted": "behaviour_weight"}
    names |= {"level": "weight_level", "cap": "weight_cap", "over": "weight_over_cap"}
    given_ = {names.get(k, k): v for k, v in case.items()}
    loss, _ = surrogate(theta, prox, behaviour, advantage, mask_RT=mask, **given_)
    weight = reduction_weights(length, torch.tensor(UNITS), kind=reduction, max_length=7)  # type: ignore[arg-type]
    total = (loss * weight[:, None]).masked_fill(~mask, 0.0).sum()
    (grad,) = torch.autograd.grad(total, theta)
    return float(total.detach()), grad


def expected(rows: list[list[np.ndarray]], reduction: str, case: dict[str, Any]) -> tuple[float, torch.Tensor]:
    theta, prox, behaviour, advantage = rows
    losses, slopes = reference.objective(theta, prox, behaviour, advantage, **case)
    total = reference.reduce(losses, UNITS, reduction, 7)
    grads = []
    for i, slope in enumerate(slopes):  # the weight of a token is what reducing a lone 1 in its place gives
        alone = [np.zeros(len(s)) for s in slopes]
        grads.append(np.zeros(len(slope)))
        for t in range(len(slope)):
            alone[i][:] = 0
            alone[i][t] = 1
            grads[i][t] = slope[t] * reference.reduce(alone, UNITS, reduction, 7)
    return total, padded(grads)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradient_are_those_of_the_formula(name: str, reduction: str) -> None:
    for seed in range(5):
        rows = rows_of(seed)
        loss, grad = ours(rows, reduction, CASES[name])
        want, want_grad = expected(rows, reduction, CASES[name])
        assert loss == pytest.approx(want, abs=1e-6)
        np.testing.assert_allclose(grad.numpy(), want_grad.numpy(), atol=1e-6)


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c["kind"] not in ("sequence", "cispo")])
def test_the_reference_s_own_slopes_are_differences_of_its_losses(name: str) -> None:
    theta, prox, behaviour, advantage = rows_of(3)

    def total(at: list[np.ndarray]) -> float:
        return float(sum(v.sum() for v in reference.objective(at, prox, behaviour, advantage, **CASES[name])[0]))

    numeric = reference.numeric_gradient(total, theta)
    _, slopes = reference.objective(theta, prox, behaviour, advantage, **CASES[name])
    for a, b in zip(numeric, slopes, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("low,high", [(3e-4, 4e-4), (0.2, 0.28)])
def test_gspo_s_token_form_has_the_gradient_of_its_sequence_form(low: float, high: float) -> None:
    for seed in range(4):
        rows = [[r for r in part if len(r)] for part in rows_of(seed, per_token=False)]
        theta, prox, _, advantage = rows
        own = [float(a[0]) for a in advantage]
        numeric = reference.numeric_gradient(
            partial(reference.gspo, prox=prox, advantage=own, low=low, high=high), theta
        )
        whole = rows_of(seed, per_token=False)
        loss, grad = ours(whole, "sequence", {"kind": "sequence", "low": low, "high": high})
        assert loss == pytest.approx(reference.gspo(theta, prox, own, low, high), abs=1e-9)
        kept = [i for i, n in enumerate(LENGTHS) if n]
        np.testing.assert_allclose(grad[kept].numpy(), padded(numeric).numpy(), atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_what_stands_outside_the_mask_never_matters(name: str) -> None:
    rows = rows_of(11)
    loss, grad = ours(rows, "prompt", CASES[name])
    other, other_grad = ours(rows, "prompt", CASES[name], fill=-1.7)
    assert other == loss and torch.equal(other_grad, grad)


def test_k3_and_its_gradient() -> None:
    theta, ref, *_ = rows_of(2)
    t = padded(theta, -1.0).requires_grad_(True)
    value = kl_k3(t, padded(ref, -1.0))
    (grad,) = torch.autograd.grad(value.sum(), t)
    values, slopes = reference.k3(theta, ref)
    np.testing.assert_allclose(value.detach().numpy(), padded(values).numpy(), atol=1e-9)
    np.testing.assert_allclose(grad.numpy(), padded(slopes).numpy(), atol=1e-9)


number = st.floats(-3, 3)


@settings(max_examples=60, deadline=None)
@given(number, number, number, st.sampled_from([None, 0.2, 1.0]))
def test_value_loss_is_its_formula(value: float, old: float, target: float, c: float | None) -> None:
    v, o, r = (torch.tensor([[x]], dtype=torch.float64) for x in (value, old, target))
    loss, clipped = value_loss(v.requires_grad_(True), o, r, clip=c)
    assert float(loss.detach()) == pytest.approx(reference.value_loss(value, old, target, c), abs=1e-12)
    if bool(clipped):
        (grad,) = torch.autograd.grad(loss, v)
        assert c is not None and abs(value - old) >= c and float(grad) == 0


# --- a policy of several tokens whose exact gradient is known ---------------------------------------------------------

WORDS, LONGEST = 3, 3  # word 0 ends a sequence
SEQUENCES = [
    s for n in range(1, LONGEST + 1) for s in itertools.product(range(WORDS), repeat=n)
    if 0 not in s[:-1] and (s[-1] == 0 or n == LONGEST)
]  # fmt: skip


def logps(table: torch.Tensor) -> list[torch.Tensor]:
    """Log-probs of each token of every sequence; the table [last word, or none, next word] holds logits."""
    logp = table.log_softmax(-1)
    return [torch.stack([logp[([WORDS, *s])[t], w] for t, w in enumerate(s)]) for s in SEQUENCES]


def tables() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    theta, behaviour = (torch.randn(WORDS + 1, WORDS, generator=draw, dtype=torch.float64) for _ in range(2))
    return theta, theta + 0.7 * behaviour


def rewards() -> torch.Tensor:
    return torch.tensor([float(sum(s) % 3 == 1) - 0.4 + 0.3 * len(s) for s in SEQUENCES], dtype=torch.float64)


def stack(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def expected_gradient(kind: str, stale: bool = True, **how: Any) -> torch.Tensor:
    """Of the objective, over all sequences drawn from the behaviour policy, at theta = prox."""
    table, other = tables()
    table.requires_grad_(True)
    drawn = [lp.detach() for lp in logps(other if stale else table)]
    logp = stack(logps(table))
    mask = stack([torch.ones(len(s), dtype=torch.bool) for s in SEQUENCES])
    clips = {"clip_low": 0.2, "clip_high": 0.28} if kind != "cispo" else {"clip_low": 1.0, "clip_high": 4.0}
    loss, _ = surrogate(
        logp, logp.detach(), stack(drawn), rewards()[:, None], mask_RT=mask, kind=kind, **clips, **how  # type: ignore[arg-type]
    )  # fmt: skip
    length = mask.sum(1) if kind == "sequence" else torch.ones(len(mask))
    chance = torch.stack([lp.sum() for lp in drawn]).exp()
    assert float(chance.sum()) == pytest.approx(1), "the sequences are all there are"
    (grad,) = torch.autograd.grad((chance * (loss * mask).sum(1) / length).sum(), table)
    return grad


def exact_gradient(per_token: bool = False) -> torch.Tensor:
    """Of the expected reward, by differentiating the probabilities themselves; with `per_token` of GSPO's on-policy
    form, the score divided by the length."""
    if per_token:
        return expected_gradient("sequence", stale=False)
    table, _ = tables()
    table.requires_grad_(True)
    chance = torch.stack([lp.sum() for lp in logps(table)]).exp()
    (grad,) = torch.autograd.grad(-(chance * rewards()).sum(), table)
    return grad


def bias(kind: str, **how: Any) -> float:
    return float((expected_gradient(kind, **how) - exact_gradient(kind == "sequence")).abs().max())


def test_sequence_weights_make_the_gradient_unbiased_under_staleness() -> None:
    assert bias("decoupled", weight_level="sequence") < 1e-12
    assert bias("cispo", behaviour_weight=True, weight_level="sequence") < 1e-12
    assert bias("sequence", behaviour_weight=True, weight_level="sequence") < 1e-12


def test_on_policy_all_of_them_are_unbiased() -> None:
    for kind in ("clipped", "decoupled", "cispo"):
        assert float((expected_gradient(kind, stale=False) - exact_gradient()).abs().max()) < 1e-12


def test_naive_gradients_are_biased_and_token_weights_take_most_of_it_away() -> None:
    """Over several tokens a token's own weight leaves its prefix and what follows uncorrected."""
    naive = bias("clipped")
    token = bias("decoupled")
    assert naive > 0.05
    assert 1e-3 < token < naive
    assert bias("cispo") == pytest.approx(naive), "at theta = prox the two are one"
    assert bias("sequence") > 0.02
