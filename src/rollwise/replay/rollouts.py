"""Rollout-level replay by advantage (PER for GRPO, arXiv 2606.04560).

Single rollouts of informative groups are kept for a few steps. Each step trains on all its own informative groups and
on `ratio` times as many stored rollouts, drawn in proportion to (|A| + eps)^alpha. What a stored rollout teaches (its
advantage, the log-probs of the policy that generated it) is frozen at birth.

Where this differs from, or fills in, the paper:

* Read: fresh-anchored composition (`composition: fresh`), or one pool of fresh and stored items as a baseline; whole
  groups as entries and the group's standard deviation or nothing as priority, as baselines; groups without variance
  leave the batch; the buffer fills during warm-up; capacity drops the oldest; no importance weights of classical PER.
* The age limit acts before the draw and ages 1 to `max_age` can be drawn: the paper's pseudo-code gives one more, its
  text and its sizes do not. The first `warmup_steps` steps draw nothing.
* Ours, the paper being silent: without replacement within a step; an item stays until it ages out, or until it was
  replayed `max_uses` times; the draw is of round(ratio x fresh rollouts), or of groups where those are the entries; a
  token-level advantage has the priority of its mean magnitude, a group that of its members' mean.
* In the pool a fresh rollout that is not drawn is stored all the same; its birth log-probs take a pass of their own.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from rollwise import seeds
from rollwise.holding import Holding
from rollwise.records import Credit, Group, Placed, Role, Rollout
from rollwise.replay.base import PolicyLogprobs, fresh_placed
from rollwise.replay.columns import pack_credits, pack_groups, unpack_credits, unpack_groups
from rollwise.replay.draw import log_priority, weighted_draw
from rollwise.state import array, check_distinct, check_keys, odd, whole

CreditsOf = Callable[[Group], tuple[Credit, ...]]

# What the draw and the limits look at, one record an entry; the entries themselves are in a list beside it.
RECORD = np.dtype(
    [
        ("birth", np.int64),
        ("uses", np.int64),
        ("rows", np.int64),
        ("log_weight", np.float64),
        ("reward_mean", np.float64),  # of the whole group at birth
        ("reward_std", np.float64),  # over N
    ]
)
COUNTERS = ("admitted", "evicted", "expired")  # in rollouts


class RolloutReplay:
    """`credits_of` gives the credits of a fresh group before the batch is made; only the pool needs it."""

    def __init__(
        self,
        *,
        seed: int,
        capacity: int,
        ratio: float,
        alpha: float,
        eps: float,
        warmup_steps: int,
        max_age: int | None,
        max_uses: int | None,
        priority: Literal["advantage", "sigma", "uniform"],
        entries: Literal["rollouts", "groups"],
        composition: Literal["fresh", "pool"],
        credits_of: CreditsOf | None = None,
    ) -> None:
        assert composition == "fresh" or credits_of is not None, "a pool needs the credits of fresh groups"
        self.seed = seed
        self.capacity = capacity
        self.ratio = ratio
        self.alpha, self.eps = alpha, eps
        self.warmup_steps = warmup_steps
        self.max_age, self.max_uses = max_age, max_uses
        self.priority = priority
        self.entries = entries
        self.composition = composition
        self.credits_of = credits_of
        self.seats: list[Placed] = []  # in the order stored
        self.table = np.zeros(0, dtype=RECORD)
        self.held = Holding()
        self.admitted = self.evicted = self.expired = 0
        self._last = self.table
        self._undrawn: dict[tuple[str, int, int], np.ndarray] = {}  # birth log-probs; empty between steps

    def compose(self, fresh: Sequence[Group], slots: int, step: int, policy: PolicyLogprobs) -> list[Placed]:
        self._expire(step)
        alive = [g for g in fresh if g.informative]
        own, found = self._as_entries([(g, self.credits_of(g)) for g in alive] if self.credits_of else [])
        if self.composition == "pool":
            return self._from_pool(own, found, step, policy)
        size = len(alive) if self.entries == "groups" else sum(r.scored for g in alive for r in g.rollouts)
        picked = weighted_draw(self.table["log_weight"], self._count(size, step), self._generator(step))
        return [*fresh_placed(alive, step), *self._replayed(picked, step)]

    def _count(self, fresh: int, step: int) -> int:
        """Stored entries a step with `fresh` entries of its own draws, as far as there are any."""
        return min(round(self.ratio * fresh), len(self.seats)) if step > self.warmup_steps else 0

    def _generator(self, step: int) -> np.random.Generator:
        return seeds.generator(self.seed, "rollout replay", step)

    def _replayed(self, picked: np.ndarray, step: int) -> list[Placed]:
        self.table["uses"][picked] += 1
        self._last = self.table[picked]
        return [
            dataclasses.replace(self.seats[i], age=step - int(now["birth"]), uses=int(now["uses"]) - 1)
            for i, now in zip(picked.tolist(), self._last, strict=True)
        ]

    def _from_pool(self, own: list[Placed], found: np.ndarray, step: int, policy: PolicyLogprobs) -> list[Placed]:
        """As many as the fresh-anchored batch would hold, from fresh and stored entries alike."""
        stored = len(self.seats) if step > self.warmup_steps else 0
        weights = np.concatenate([self.table["log_weight"][:stored], found["log_weight"]])
        picked = weighted_draw(weights, len(own) + self._count(len(own), step), self._generator(step))
        chosen = set((picked[picked >= stored] - stored).tolist())
        left = [
            r
            for i, seat in enumerate(own)
            if i not in chosen
            for r in seat.group.rollouts
            if r.birth_step == step  # an older one keeps the sampler's
        ]
        self._undrawn = {r.key: lp for r, lp in zip(left, policy(left) if left else [], strict=True)}
        seated = [
            dataclasses.replace(own[i], role=Role.fresh, age=step - own[i].group.birth_step) for i in sorted(chosen)
        ]
        return [*seated, *self._replayed(picked[picked < stored], step)]

    def store(self, fresh: Sequence[Placed], step: int) -> None:
        born = [self._born(seat) for seat in fresh if seat.group.informative]
        seats, table = self._as_entries(born)
        self._undrawn = {}
        self.seats += seats
        self._count_in(seats)
        self.table = np.concatenate([self.table, table])
        self.admitted += int(table["rows"].sum())
        self._evict()

    def _born(self, seat: Placed) -> tuple[Group, tuple[Credit, ...]]:
        assert seat.credits is not None
        if self.credits_of is None:
            return seat.group, seat.credits
        birth = [self._undrawn.get(r.key) for r in seat.group.rollouts]
        return seat.group.remembering(birth, [None] * len(birth)), self.credits_of(seat.group)

    def _as_entries(self, born: Sequence[tuple[Group, tuple[Credit, ...]]]) -> tuple[list[Placed], np.ndarray]:
        """Groups as entries of this buffer. A member that was not scored, or does not count, is no entry of its own."""
        seats: list[Placed] = []
        strength, rest = [], []
        for group, credits in born:
            reward = np.asarray(group.scored_rewards())
            about = float(reward.mean()), float(reward.std())
            size = [_magnitude(c) for c in credits]
            if self.entries == "groups":
                seats.append(Placed(group=group, role=Role.replay, credits=credits))
                strength.append(about[1] if self.priority == "sigma" else float(np.mean(size)))
                rest.append((group.birth_step, 0, group.size, 0.0, *about))
                continue
            for rollout, credit, own in zip(group.rollouts, credits, size, strict=True):
                if rollout.scored and credit.counts:
                    single = dataclasses.replace(group, rollouts=(rollout,))
                    seats.append(Placed(group=single, role=Role.replay, credits=(credit,)))
                    strength.append(about[1] if self.priority == "sigma" else own)
                    rest.append((rollout.birth_step, 0, 1, 0.0, *about))
        table = np.array(rest, dtype=RECORD)
        if self.priority != "uniform" and seats:
            table["log_weight"] = log_priority(np.asarray(strength), alpha=self.alpha, eps=self.eps)
        return seats, table

    def _expire(self, step: int) -> None:
        keep = np.ones(len(self.table), dtype=bool)
        if self.max_age is not None:
            keep &= step - self.table["birth"] <= self.max_age
        if self.max_uses is not None:
            keep &= self.table["uses"] < self.max_uses
        self.expired += self._keep(keep)

    def _evict(self) -> None:
        over = int(self.table["rows"].sum()) - self.capacity
        if over > 0:
            gone = int(np.searchsorted(np.cumsum(self.table["rows"]), over)) + 1
            self.evicted += self._keep(np.arange(len(self.table)) >= gone)

    def _keep(self, keep: np.ndarray) -> int:
        """Drop the other entries; the number of rollouts dropped."""
        if keep.all():
            return 0
        dropped = int(self.table["rows"][~keep].sum())
        for seat in itertools.compress(self.seats, (~keep).tolist()):
            self.held.drop(seat.group.rollouts)
        self.seats = list(itertools.compress(self.seats, keep.tolist()))
        self.table = self.table[keep]
        return dropped

    def stored(self) -> list[tuple[int, Group]]:
        return [(s.group.birth_step, s.group) for s in self.seats]

    def metrics(self) -> dict[str, float]:
        """birth_reward and birth_std are of the groups the replayed entries come from: the band that is recycled."""
        out = {
            "replay/size": float(self.table["rows"].sum()),
            "replay/uses_mean": 0.0,
            "replay/uses_max": 0.0,
        }
        if len(self._last):
            out["replay/uses_mean"] = float(self._last["uses"].mean())
            out["replay/uses_max"] = float(self._last["uses"].max())
            out["replay/birth_reward"] = float(self._last["reward_mean"].mean())
            out["replay/birth_std"] = float(self._last["reward_std"].mean())
        return out | self.held.metrics("replay")

    def _count_in(self, seats: Sequence[Placed]) -> None:
        for seat in seats:
            for rollout, credit in zip(seat.group.rollouts, seat.credits or (), strict=True):
                self.held.add([rollout], beside=_bytes(credit))

    def state_dict(self) -> dict[str, Any]:
        return {
            "groups": pack_groups([s.group for s in self.seats]),
            "credits": pack_credits([c for s in self.seats for c in s.credits or ()]),
            "table": {name: self.table[name].copy() for name in RECORD.names or ()},
            **{name: getattr(self, name) for name in COUNTERS},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"groups", "credits", "table", *COUNTERS}, "replay")
        check_keys(state["table"], set(RECORD.names or ()), "replay")
        groups, credits = unpack_groups(state["groups"]), unpack_credits(state["credits"])
        rollouts = [r for g in groups for r in g.rollouts]
        check_distinct([r.key for r in rollouts], "replay")
        if len(credits) != len(rollouts) or not all(map(_fits, credits, rollouts)):
            raise ValueError("state of replay: its credits are not those of its rollouts")
        if self.entries == "rollouts" and len(groups) != len(rollouts):
            raise odd("replay", "single rollouts", f"{len(rollouts)} in {len(groups)}")
        counts = {name: whole(state[name], f"replay, {name}") for name in COUNTERS}
        if counts["admitted"] - counts["evicted"] - counts["expired"] != len(rollouts):
            raise ValueError(f"state of replay: {len(rollouts)} rollouts are not what its counts say")
        table = np.zeros(len(groups), dtype=RECORD)
        for name, column in state["table"].items():
            least = -np.inf if name in ("log_weight", "reward_mean") else 0
            table[name] = array(column, f"replay, {name}", RECORD[name], (len(groups),), least=least)
        if not all(
            (birth, rows) == (g.birth_step, g.size)
            for birth, rows, g in zip(table["birth"].tolist(), table["rows"].tolist(), groups, strict=True)
        ):
            raise ValueError("state of replay: its table is not that of its rollouts")
        each = iter(credits)
        self.seats = [Placed(group=g, role=Role.replay, credits=tuple(itertools.islice(each, g.size))) for g in groups]
        self.held = Holding()
        self._count_in(self.seats)
        self.table = table
        for name, count in counts.items():
            setattr(self, name, count)


def _fits(credit: Credit, rollout: Rollout) -> bool:
    """Whether what it has of each token is as many numbers as there are tokens."""
    arrays = (credit.advantage, credit.returns, credit.values)
    return all(len(a) == rollout.length for a in arrays if isinstance(a, np.ndarray))


def _bytes(credit: Credit) -> int:
    arrays = (credit.advantage, credit.returns, credit.values)
    return sum(a.nbytes for a in arrays if isinstance(a, np.ndarray))


def _magnitude(credit: Credit) -> float:
    a = credit.advantage
    return abs(a) if isinstance(a, float) else float(np.mean(np.abs(a)))
