"""Recent groups and a reservoir of older ones together: POPO's named future work (arXiv 2606.01281), design ours.

The short-term store is POPO's FIFO (recent.py). The long-term store is a uniform sample of the informative groups of
the last `max_age` steps. Up to `share` of a step's empty slots go to the reservoir, the rest to the newest of the FIFO;
a group that both hold serves once a step and has one count of uses. The reservoir never gives more than its share: a
FIFO that is short leaves slots as POPO does, so that the amount of old data stays what was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rollwise import seeds
from rollwise.holding import Holding
from rollwise.records import Group, Placed, mean
from rollwise.replay.base import PolicyLogprobs
from rollwise.replay.recent import Entry, RecentGroups, empty_slots, fill, keep, of_uses, read_entries, release
from rollwise.state import check_keys, listed, whole


class Reservoir:
    """A uniform sample of what was offered (Vitter 1985, algorithm R), every number drawn from (seed, arrival).

    With `max_age`, entries older than that many steps leave, a place that is free takes the next arrival, and arrivals
    are counted over the same window. The sample is then uniform over the window only nearly, newer groups being
    somewhat more likely. Entries replayed `max_uses` times leave too.
    """

    def __init__(self, *, seed: int, capacity: int, max_age: int | None, max_uses: int | None = None) -> None:
        self.seed = seed
        self.capacity = capacity
        self.max_age = max_age
        self.max_uses = max_uses
        self.entries: list[Entry] = []
        self.held = Holding()
        self.arrivals: list[list[int]] = []  # [step, groups offered in it], within the window; in all without one
        self.admitted = self.replaced = self.expired = self.offered = 0

    def offer(self, entries: Sequence[Entry], step: int) -> None:
        self.expire(step)
        seen = sum(n for _, n in self.arrivals)
        for entry in entries:
            seen += 1
            self.offered += 1
            if len(self.entries) < self.capacity:
                self.entries.append(entry)
                keep(self.held, [entry])
                self.admitted += 1
                continue
            place = int(seeds.generator(self.seed, "reservoir place", self.offered).integers(seen))
            if place < self.capacity:
                keep(self.held, [entry])
                release(self.held, [self.entries[place]])
                self.entries[place] = entry
                self.admitted += 1
                self.replaced += 1
        self.arrivals.append([step, len(entries)])

    def expire(self, step: int) -> None:
        if self.max_age is None:
            self.arrivals = [[step, sum(n for _, n in self.arrivals)]]
        else:
            self.arrivals = [[s, n] for s, n in self.arrivals if step - s <= self.max_age]
        kept = [e for e in self.entries if self._live(e, step)]
        self.expired += len(self.entries) - len(kept)
        if len(kept) < len(self.entries):
            release(self.held, [e for e in self.entries if not self._live(e, step)])
        self.entries = kept

    def _live(self, entry: Entry, step: int) -> bool:
        young = self.max_age is None or step - entry.born <= self.max_age
        return young and (self.max_uses is None or entry.uses < self.max_uses)

    def draw(self, count: int, step: int, taken: set[tuple[str, int]]) -> list[Entry]:
        """Up to `count` entries, evenly, none of a group whose key is in `taken`."""
        self.expire(step)
        free = [e for e in self.entries if e.group.key not in taken]
        order = seeds.generator(self.seed, "reservoir draw", step).permutation(len(free))
        return [free[i] for i in order[:count]]

    def state_dict(self) -> dict[str, Any]:
        return {
            "entries": [e.to_json() for e in self.entries],
            "arrivals": [list(a) for a in self.arrivals],
            "admitted": self.admitted,
            "replaced": self.replaced,
            "expired": self.expired,
            "offered": self.offered,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"entries", "arrivals", "admitted", "replaced", "expired", "offered"}, "reservoir")
        entries = read_entries(state["entries"], "reservoir, entries")
        arrivals = [
            [whole(n, "reservoir, arrivals") for n in listed(a, "reservoir, arrivals", 2)]
            for a in listed(state["arrivals"], "reservoir, arrivals")
        ]
        admitted, replaced, expired, offered = (
            whole(state[n], f"reservoir, {n}") for n in ("admitted", "replaced", "expired", "offered")
        )
        if admitted - replaced - expired != len(entries) or sum(n for _, n in arrivals) > offered:
            raise ValueError("state of reservoir: its groups and arrivals are not what its counts say")
        release(self.held, self.entries)
        self.entries, self.arrivals = entries, arrivals
        keep(self.held, self.entries)
        self.admitted, self.replaced, self.expired, self.offered = admitted, replaced, expired, offered


class Hybrid:
    """FIFO and reservoir, sharing the entries that both hold."""

    def __init__(self, *, recent: RecentGroups, reservoir: Reservoir, share: float) -> None:
        self.recent = recent
        self.reservoir = reservoir
        reservoir.held = recent.held  # what both hold is there once
        self.share = share
        self._near: list[Entry] = []
        self._far: list[Entry] = []
        self._step = 0

    def compose(self, fresh: Sequence[Group], slots: int, step: int, policy: PolicyLogprobs) -> list[Placed]:
        want = empty_slots(fresh, slots)
        old = round(self.share * want)
        recent = self.recent.candidates(want, step, policy)
        near = recent[: want - old]
        self._far = self.reservoir.draw(old, step, {e.group.key for e in near})
        far = {e.group.key for e in self._far}
        rest = [e for e in recent[len(near) :] if e.group.key not in far]
        self._near = near + rest[: old - len(self._far)]  # what the reservoir could not fill
        self._step = step
        return fill(fresh, [*self._near, *self._far], step, short=self.recent.short)

    def store(self, fresh: Sequence[Placed], step: int) -> None:
        self.reservoir.offer([e for e in self.recent.take(fresh, step) if e.group.informative], step)

    def stored(self) -> list[tuple[int, Group]]:
        return [(e.born, e.group) for e in (*self.recent.entries, *self.reservoir.entries)]

    def metrics(self) -> dict[str, float]:
        return {
            **self.recent.metrics(),
            **of_uses([*self._near, *self._far]),
            "replay/reservoir_size": float(len(self.reservoir.entries)),
            "replay/reservoir_groups": float(len(self._far)),
            "replay/reservoir_share": len(self._far) / max(1, len(self._far) + len(self._near)),
            "replay/reservoir_age_mean": mean([self._step - e.born for e in self._far]),
        }

    def state_dict(self) -> dict[str, Any]:
        return {"recent": self.recent.state_dict(), "reservoir": self.reservoir.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"recent", "reservoir"}, "replay")
        self.recent.load_state_dict(state["recent"])
        self.reservoir.load_state_dict(state["reservoir"])
        shared = {e.group.key: e for e in self.recent.entries}
        both = [(shared[e.group.key], e) for e in self.reservoir.entries if e.group.key in shared]
        if any(one.to_json() != other.to_json() for one, other in both):
            raise ValueError("state of replay: a group that both stores hold is not the same in both")
        self.reservoir.entries = [shared.get(e.group.key, e) for e in self.reservoir.entries]
