"""Our losses, gradients and advantages beside those of TRL and verl, on the same numbers in double precision.

    python benchmarks/losses_vs_peers.py        # in an environment with requirements-losses.txt

Prints a table in Markdown, then cases in which the three mean different things. Exits with 1 if a line of the table
does not agree, or if a peer cannot be asked that no --skip names; benchmarks/README.md says how to install them.
docs/losses.md holds what this script printed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from rollwise.advantage import discounted_sums, generalized_advantages, group_advantage, leave_one_out, whiten
from rollwise.objective import kl_k3, reduction_weights, surrogate, value_loss

LENGTHS = torch.tensor([5, 2, 7, 4, 1, 3])  # tokens of each rollout
UNITS = torch.tensor([0, 0, 0, 1, 1, 1])
LONGEST = 7
MASK = torch.arange(LONGEST)[None] < LENGTHS[:, None]
TOLERANCE = 1e-6
Pair = tuple[torch.Tensor, torch.Tensor]


def numbers(seed: int = 0) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)

    def normal(scale: float) -> torch.Tensor:
        return scale * torch.randn(MASK.shape, generator=draw, dtype=torch.float64)

    theta = normal(1.0).abs().neg()
    prox = theta + normal(0.8)  # far enough for every bound to act
    shape = (len(LENGTHS), 1)
    return {
        "theta": theta.masked_fill(~MASK, 0),
        "prox": prox.masked_fill(~MASK, 0),
        "behaviour": (prox + normal(0.3)).masked_fill(~MASK, 0),
        "reference": (theta + normal(0.5)).masked_fill(~MASK, 0),
        "advantage": 2 * torch.randn(shape, generator=draw, dtype=torch.float64),
        "values": normal(1.0).masked_fill(~MASK, 0),
        "old": normal(1.0).masked_fill(~MASK, 0),
        "returns": normal(1.0).masked_fill(~MASK, 0),
    }


N = numbers()
REWARDS = torch.tensor([1.0, 0.0, 0.3, 0.5, 0.5, 1.0], dtype=torch.float64)


def with_gradient(loss: Callable[[torch.Tensor], torch.Tensor], at: str = "theta") -> Pair:
    x = N[at].clone().requires_grad_(True)
    value = loss(x)
    (grad,) = torch.autograd.grad(value, x)
    return value.detach(), grad.masked_fill(~MASK, 0)


def ours(reduction: str, *, kl: float = 0.0, **how: Any) -> Pair:
    def loss(theta: torch.Tensor) -> torch.Tensor:
        token, _ = surrogate(theta, N["prox"], N["behaviour"], N["advantage"], mask_RT=MASK, **how)
        token = token + kl * kl_k3(theta, N["reference"]) if kl else token
        weight = reduction_weights(LENGTHS, UNITS, kind=reduction, max_length=LONGEST)  # type: ignore[arg-type]
        return (token * weight[:, None] * MASK).sum()

    return with_gradient(loss)


# --- TRL --------------------------------------------------------------------------------------------------------------


def trl(loss_type: str, low: float, high: float, *, level: str = "token", weighted: bool = False, **over: Any) -> Pair:
    """`GRPOTrainer._compute_loss` on a stand-in that holds only what it reads."""
    trainer_class = importlib.import_module("trl.trainer.grpo_trainer").GRPOTrainer

    def loss(theta: torch.Tensor) -> torch.Tensor:
        trainer = SimpleNamespace(
            _get_per_token_logps_and_entropies=lambda *a, **k: (theta, torch.zeros_like(theta), None),
            top_entropy_quantile=1.0,
            off_policy_mask_threshold=None,
            importance_sampling_level=level,
            beta=over.get("beta", 0.0),
            args=SimpleNamespace(use_bias_correction_kl=False, delta=over.get("delta"), steps_per_generation=1),
            loss_type=loss_type,
            epsilon_low=low,
            epsilon_high=high,
            use_vllm=weighted,
            vllm_importance_sampling_correction=weighted,
            model=SimpleNamespace(training=True),
            current_gradient_accumulation_steps=1,
            max_completion_length=LONGEST,
            accelerator=SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x),
            _entropy_bonus_enabled=False,
            aux_loss_enabled=False,
            _metrics={"train": defaultdict(list)},
        )
        ids = torch.zeros(MASK.shape, dtype=torch.int64)
        inputs = {
            "prompt_ids": ids[:, :1],
            "prompt_mask": ids[:, :1] + 1,
            "completion_ids": ids,
            "completion_mask": MASK.long(),
            "advantages": N["advantage"][:, 0],
            "old_per_token_logps": N["prox"],
            "ref_per_token_logps": N["reference"],
            "importance_sampling_ratio": (N["prox"] - N["behaviour"]).exp(),
            "num_items_in_batch": LENGTHS.sum(),
        }
        return trainer_class._compute_loss(trainer, None, inputs)  # type: ignore[no-any-return]

    return with_gradient(loss)


# --- verl -------------------------------------------------------------------------------------------------------------


def verl_module() -> Any:
    return importlib.import_module("verl.trainer.ppo.core_algos")


def verl(name: str, mode: str, low: float, high: float, *, dual: float = 1e9, weighted: bool = False) -> Pair:
    actor = importlib.import_module("verl.workers.config").ActorConfig
    config = actor(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio_low=low,
        clip_ratio_high=high,
        clip_ratio_c=dual,
    )
    config.global_batch_info["loss_scale_factor"] = LONGEST
    weight = (N["prox"] - N["behaviour"]).exp() if weighted else None
    advantage = N["advantage"].expand(MASK.shape)

    def loss(theta: torch.Tensor) -> torch.Tensor:
        policy_loss = verl_module().get_policy_loss_fn(name)
        return policy_loss(N["prox"], theta, advantage, MASK.double(), mode, config, weight)[0]  # type: ignore[no-any-return]

    return with_gradient(loss)


def verl_kl() -> Pair:
    core = verl_module()

    def loss(theta: torch.Tensor) -> torch.Tensor:
        return (core.kl_penalty(theta, N["reference"], "k3") * MASK).sum() / MASK.sum()  # type: ignore[no-any-return]

    return with_gradient(loss)


def our_kl() -> Pair:
    return with_gradient(lambda theta: (kl_k3(theta, N["reference"]) * MASK).sum() / MASK.sum())


def our_value() -> Pair:
    return with_gradient(
        lambda v: (value_loss(v, N["old"], N["returns"], clip=0.2)[0] * MASK).sum() / MASK.sum(), "values"
    )


def verl_value() -> Pair:
    core = verl_module()
    return with_gradient(lambda v: core.compute_value_loss(v, N["returns"], N["old"], MASK.double(), 0.2)[0], "values")


def at_the_end() -> torch.Tensor:
    out = torch.zeros(MASK.shape, dtype=torch.float64)
    out[torch.arange(len(LENGTHS)), LENGTHS - 1] = REWARDS
    return out


def laid(rows: list[np.ndarray]) -> Pair:
    out = torch.zeros(MASK.shape, dtype=torch.float64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = torch.from_numpy(np.asarray(row))
    return out, torch.zeros(1)


def by_group(of: Callable[[list[float]], np.ndarray]) -> Pair:
    found = np.concatenate([of(REWARDS[u == UNITS].tolist()) for u in (0, 1)])
    return laid([np.full(int(n), a) for n, a in zip(LENGTHS, found, strict=True)])


def our_gae() -> Pair:
    rewards = [r[: int(n)].numpy() for r, n in zip(at_the_end(), LENGTHS, strict=True)]
    values = [v[: int(n)].numpy() for v, n in zip(N["values"], LENGTHS, strict=True)]
    return laid(whiten(generalized_advantages(rewards, values, gamma=0.99, gae_lambda=0.95)))


def our_returns(gamma: float) -> Pair:
    rewards = [r[: int(n)].numpy() for r, n in zip(at_the_end(), LENGTHS, strict=True)]
    return laid(whiten(discounted_sums(rewards, gamma)))


def our_baseline() -> Pair:
    centred, _ = by_group(lambda r: group_advantage(r, scale="none"))
    return laid(whiten([row[: int(n)].numpy() for row, n in zip(centred, LENGTHS, strict=True)]))


def verl_advantage(name: str, **how: Any) -> Pair:
    estimate = verl_module().get_adv_estimator_fn(name)
    found = estimate(token_level_rewards=at_the_end(), response_mask=MASK.double(), **how)[0]
    return found.double().masked_fill(~MASK, 0), torch.zeros(1)


WIDE = {"clip_low": 0.2, "clip_high": 0.28}
NARROW = {"clip_low": 3e-4, "clip_high": 4e-4}
FREE = {"clip_low": 1.0, "clip_high": 1.0}
Side = Callable[[], Pair] | None
# What is compared: ours, TRL's, verl's. None: that peer has no such thing.
LINES: list[tuple[str, Callable[[], Pair], Side, Side]] = [
    (
        "clipped, token mean",
        lambda: ours("token", kind="clipped", **WIDE),
        lambda: trl("dapo", 0.2, 0.28),
        lambda: verl("vanilla", "token-mean", 0.2, 0.28),
    ),
    (
        "clipped, dual clip 1.5",
        lambda: ours("token", kind="clipped", dual_clip=1.5, **WIDE),
        lambda: trl("dapo", 0.2, 0.28, delta=1.5),
        lambda: verl("vanilla", "token-mean", 0.2, 0.28, dual=1.5),
    ),
    (
        "clipped, mean of rollout means",
        lambda: ours("sequence", kind="clipped", **WIDE),
        lambda: trl("grpo", 0.2, 0.28),
        lambda: verl("vanilla", "seq-mean-token-mean", 0.2, 0.28),
    ),
    (
        "clipped, constant divisor",
        lambda: ours("constant", kind="clipped", **WIDE),
        lambda: trl("dr_grpo", 0.2, 0.28),
        lambda: verl("vanilla", "seq-mean-token-sum-norm", 0.2, 0.28),
    ),
    (
        "decoupled, token weights",
        lambda: ours("token", kind="decoupled", **WIDE),
        lambda: trl("dapo", 0.2, 0.28, weighted=True),
        lambda: verl("vanilla", "token-mean", 0.2, 0.28, weighted=True),
    ),
    (
        "sequence (GSPO)",
        lambda: ours("sequence", kind="sequence", **NARROW),
        lambda: trl("grpo", 3e-4, 4e-4, level="sequence"),
        lambda: verl("gspo", "seq-mean-token-mean", 3e-4, 4e-4),
    ),
    (
        "sequence, clip 0.2/0.28",
        lambda: ours("sequence", kind="sequence", **WIDE),
        lambda: trl("grpo", 0.2, 0.28, level="sequence"),
        lambda: verl("gspo", "seq-mean-token-mean", 0.2, 0.28),
    ),
    (
        "cispo, upper weight 2",
        lambda: ours("token", kind="cispo", **FREE),
        lambda: trl("cispo", 0.2, 2.0),
        lambda: verl("cispo", "token-mean", 1.0, 1.0),
    ),
    (
        "clipped with k3, 0.04",
        lambda: ours("token", kind="clipped", kl=0.04, **WIDE),
        lambda: trl("dapo", 0.2, 0.28, beta=0.04),
        None,
    ),
    ("k3 alone", our_kl, None, verl_kl),
    ("value loss, clip 0.2", our_value, None, verl_value),
    (
        "advantage: group, std",
        lambda: by_group(group_advantage),
        None,
        lambda: verl_advantage("grpo", index=UNITS.numpy()),
    ),
    (
        "advantage: group, no std",
        lambda: by_group(lambda r: group_advantage(r, scale="none")),
        None,
        lambda: verl_advantage("grpo", index=UNITS.numpy(), norm_adv_by_std_in_grpo=False),
    ),
    ("advantage: RLOO", lambda: by_group(leave_one_out), None, lambda: verl_advantage("rloo", index=UNITS.numpy())),
    (
        "advantage: REINFORCE++, gamma 0.9",
        lambda: our_returns(0.9),
        None,
        lambda: verl_advantage("reinforce_plus_plus", config=SimpleNamespace(gamma=0.9)),
    ),
    (
        "advantage: REINFORCE++ baseline",
        our_baseline,
        None,
        lambda: verl_advantage("reinforce_plus_plus_baseline", index=UNITS.numpy()),
    ),
    (
        "advantage: GAE 0.99, 0.95, whitened",
        our_gae,
        None,
        lambda: verl_advantage("gae", values=N["values"], gamma=0.99, lam=0.95),
    ),
]


Case = tuple[str, Callable[[], torch.Tensor], Callable[[], torch.Tensor] | None, Callable[[], torch.Tensor] | None]


def far(distance: float) -> torch.Tensor:
    return torch.full((1, 1), distance, dtype=torch.float64)


def emptied(side: Callable[[], Pair]) -> torch.Tensor:
    """The loss of a side where the last two rollouts have no tokens."""
    global LENGTHS, MASK
    kept = LENGTHS, MASK
    try:
        LENGTHS = torch.tensor([5, 2, 7, 4, 0, 0])
        MASK = torch.arange(LONGEST)[None] < LENGTHS[:, None]
        return side()[0]
    finally:
        LENGTHS, MASK = kept


# Where the same words mean different things.
CASES: list[Case] = [
    (
        "mean of rollout means, two of six rollouts without tokens",
        lambda: emptied(lambda: ours("sequence", kind="clipped", **WIDE)),
        lambda: emptied(lambda: trl("grpo", 0.2, 0.28)),
        lambda: emptied(lambda: verl("vanilla", "seq-mean-token-mean", 0.2, 0.28)),
    ),
    (
        "cispo with epsilon_high 0.28 or clip 1 / 0.28",
        lambda: ours("token", kind="cispo", clip_low=1.0, clip_high=0.28)[0],
        lambda: trl("cispo", 0.2, 0.28)[0],
        lambda: verl("cispo", "token-mean", 1.0, 0.28)[0],
    ),
    (
        "k3 where the reference is e^5 times as likely",
        lambda: kl_k3(far(-5.0), far(0.0)),
        None,
        lambda: verl_module().kl_penalty(far(-5.0), far(0.0), "k3"),
    ),
]


def installed(module: str) -> str:
    """Why a peer is skipped; empty if it can be asked."""
    try:
        importlib.import_module(module)
    except Exception as error:  # a peer may fail in any way; it is then not compared
        return f"{type(error).__name__}: {error}"[:120]
    return ""


def compared(mine: Pair, side: Side, absent: bool) -> tuple[str, bool]:
    """What stands in the table, and whether it is a disagreement."""
    if side is None or absent:
        return ("–" if side is None else "skipped"), False
    theirs = side()
    gaps = [float((a - b).abs().max()) for a, b in zip(mine, theirs, strict=True)]
    shown = "equal" if max(gaps) <= TOLERANCE else "DIFFERS"
    return f"{shown} ({gaps[0]:.0e}, {gaps[1]:.0e})", max(gaps) > TOLERANCE


def main() -> int:
    modules = {"TRL": "trl.trainer.grpo_trainer", "verl": "verl.trainer.ppo.core_algos"}
    flags = argparse.ArgumentParser(description="Losses, gradients and advantages beside TRL's and verl's.")
    flags.add_argument("--skip", action="append", default=[], choices=list(modules), help="a peer to leave out")
    left_out = flags.parse_args().skip
    missing = {name: "--skip" if name in left_out else installed(module) for name, module in modules.items()}
    for name, reason in missing.items():
        if reason:
            print(f"{name} is skipped: {reason}", file=sys.stderr)
    print("| what | TRL | verl |\n|---|---|---|")
    bad = 0
    for what, own, of_trl, of_verl in LINES:
        mine = own()
        cells = [compared(mine, of_trl, bool(missing["TRL"])), compared(mine, of_verl, bool(missing["verl"]))]
        bad += sum(differs for _, differs in cells)
        print(f"| {what} | {cells[0][0]} | {cells[1][0]} |")
    print("\n| the same words, other numbers | Rollwise | TRL | verl |\n|---|---|---|---|")
    for what, mine_of, *theirs in CASES:
        skipped = [bool(missing[name]) for name in ("TRL", "verl")]
        shown = [
            "–" if t is None else "skipped" if s else f"{float(t()):.4f}" for t, s in zip(theirs, skipped, strict=True)
        ]
        print(f"| {what} | {float(mine_of()):.4f} | {shown[0]} | {shown[1]} |")
    unasked = [name for name, reason in missing.items() if reason and name not in left_out]
    return 1 if bad or unasked else 0


if __name__ == "__main__":
    raise SystemExit(main())
