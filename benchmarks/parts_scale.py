"""Parts with memory at the size of a large data set: medians over repeated calls, on one core, no model.

    python benchmarks/parts_scale.py [--rounds 20] [--prompts 1000000] [--stored 100000]

Each function here measures one room and prints its own lines; `main` calls them in turn.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rollwise import checkpoint
from rollwise.advantage import group_advantage
from rollwise.curriculum.filters import DropSolved
from rollwise.curriculum.mopps import Mopps
from rollwise.records import Credit, Group, Placed, Prompt, Role, Rollout, Sampling, StopReason, Verdict, VerdictKind
from rollwise.replay.rollouts import RolloutReplay

PICKED, POOL_FACTOR, GROUP_SIZE = 512, 16, 8  # a pool of 8,192 candidates


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what the call returned."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def line(what: str, seconds: list[float], note: str = "") -> None:
    print(f"{what:<58} median {statistics.median(seconds) * 1e3:9.1f} ms   n={len(seconds)}  {note}")


class Numbers:
    """Prompts that cost nothing to make."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Prompt:
        return Prompt(uid=f"n:{index}", text="")


def answered(prompt: Prompt, rng: np.random.Generator) -> Group:
    """A group of random verdicts."""
    ids, logprobs = np.zeros(4, dtype=np.int32), np.zeros(4, dtype=np.float32)

    def member(i: int) -> Rollout:
        right = bool(rng.random() < 0.5)
        kind = VerdictKind.correct if right else VerdictKind.wrong
        return Rollout(
            group_uid=prompt.group_uid, member=i, prompt_ids=ids, completion_ids=ids, logprobs=logprobs,
            sampling=Sampling(), stop=StopReason.eos, text="", birth_step=1,
            verdict=Verdict(kind=kind, score=float(right)), reward=float(right),
        )  # fmt: skip

    return Group(uid=prompt.group_uid, prompt=prompt, rollouts=tuple(member(i) for i in range(GROUP_SIZE)))


def saved(state: Any) -> float:
    """Seconds to write a checkpoint of nothing but this state, hashed and synced as a run's is."""

    def write_model(path: Path) -> None:
        path.mkdir()

    with tempfile.TemporaryDirectory() as folder:
        seconds, _ = timed(lambda: checkpoint.save(Path(folder), 1, state, write_model, keep=1))
        return seconds


def curriculum(prompts: int, rounds: int) -> None:
    """MoPPS over a filter: drawing, observing, saving and loading with evidence on every prompt."""

    def made() -> Mopps:
        return Mopps(
            Numbers(prompts), seed=0, filters=[DropSolved(prompts)], pool_factor=POOL_FACTOR, strategy="topk",
            target=0.5, band=0.2, decay=0.5, prior=(1.0, 1.0),
        )  # fmt: skip

    rng = np.random.default_rng(0)
    part = made()
    part.posterior += rng.integers(0, GROUP_SIZE, part.posterior.shape)
    part.seen[:] = True
    history = part.filters[0]
    assert isinstance(history, DropSolved)
    history.epoch[:], history.right[:], history.scored[:] = 0, rng.integers(0, 9, prompts), GROUP_SIZE
    name = f"MoPPS, {prompts:,} prompts"
    starts, draws, observations, saves, loads = [], [], [], [], []
    for _ in range(rounds):
        if part.remaining < POOL_FACTOR * PICKED:
            part.next_epoch()
        seconds, drawn = timed(lambda: part.draw(PICKED))
        draws.append(seconds)
        groups = [answered(p, rng) for p in drawn]
        observations.append(timed(lambda groups=groups: part.observe(groups))[0])
    for _ in range(max(1, rounds // 4)):
        part.next_epoch()
        starts.append(timed(lambda: part.order)[0])
        seconds, state = timed(part.state_dict)
        saves.append(seconds + saved(state))
        loads.append(timed(lambda state=state: made().load_state_dict(state))[0])
    line(f"{name}: draw {PICKED} from {POOL_FACTOR * PICKED:,}", draws)
    line(f"{name}: observe {PICKED} groups of {GROUP_SIZE}", observations)
    line(f"{name}: start of an epoch, filtered", starts, f"{len(part.order):,} prompts in it")
    line(f"{name}: state written, hashed and synced", saves)
    line(f"{name}: made and state loaded", loads)


def rollout_replay(stored: int, rounds: int) -> None:
    """Rollouts of 512 tokens, evenly of the last 100 steps; a step brings as many as expire at its draw."""
    ages, tokens = 100, 512
    per_step = stored // ages
    rng = np.random.default_rng(0)
    ids = np.zeros(tokens, dtype=np.int32)

    def made() -> RolloutReplay:
        return RolloutReplay(
            seed=0, capacity=2 * stored, ratio=0.5, alpha=0.5, eps=1e-6, warmup_steps=0, max_age=ages, max_uses=None,
            priority="advantage", entries="rollouts", composition="fresh",
        )  # fmt: skip

    def born(count: int, step: int) -> list[Placed]:
        seats = []
        for i in range(count // GROUP_SIZE):
            group = answered(Prompt(uid=f"n:{i}", text="", occurrence=step), rng)
            members = []
            for j, r in enumerate(group.rollouts):
                right = j == 0 or (r.correct and j > 1)  # one right and one wrong at least
                logprobs = np.full(tokens, -0.5, dtype=np.float32)
                members.append(replace(r, completion_ids=ids.copy(), logprobs=logprobs, birth_logprobs=logprobs.copy(),
                                       birth_step=step, reward=float(right)))  # fmt: skip
            credits = group_advantage([m.reward for m in members], ddof=0)
            seats.append(Placed(group=replace(group, rollouts=tuple(members)), role=Role.fresh,
                                credits=tuple(Credit(advantage=float(a)) for a in credits)))  # fmt: skip
        return seats

    part = made()
    for step in range(1, ages + 1):
        part.store(born(per_step, step), step)
    composed, stored_in = [], []
    size = len(part.seats)
    for step in range(ages + 2, ages + 2 + rounds):
        fresh = born(per_step, step)
        seconds, placed = timed(lambda step=step, fresh=fresh: part.compose([s.group for s in fresh], 0, step, _unused))
        composed.append(seconds)
        stored_in.append(timed(lambda step=step, fresh=fresh: part.store(fresh, step))[0])
    name = f"rollout replay, {size:,} stored"
    drawn = sum(p.role is Role.replay for p in placed)
    line(f"{name}: expire {per_step:,}, draw {drawn:,}, compose", composed)
    line(f"{name}: store {per_step:,}", stored_in)
    packed, state = timed(part.state_dict)
    line(f"{name}: state made", [packed])
    line(f"{name}: state written, hashed and synced", [saved(state)], f"{tokens} tokens each")
    line(f"{name}: made and state loaded", [timed(lambda: made().load_state_dict(state))[0]])


def _unused(rollouts: Any) -> Any:
    raise AssertionError("no log-probs are needed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--prompts", type=int, default=1_000_000)
    parser.add_argument("--stored", type=int, default=100_000)
    args = parser.parse_args()
    curriculum(args.prompts, args.rounds)
    rollout_replay(args.stored, args.rounds)


if __name__ == "__main__":
    main()
