"""Recent-group replay (POPO, arXiv 2606.01281): dead groups give their slots to recent informative ones.

Where this differs from, or fills in, the paper:

* Read: a small FIFO of groups with reward variance, newest first, one group per empty slot, no extra generation.
* Ours, the paper being silent: capacity of one batch; a stored group may serve again in later steps but at most once
  in a step; groups are drawn before this step's are stored; replayed groups are not stored again; while the buffer is
  too short the dead groups keep their slots (`short: keep`), where they add nothing to the gradient but count in the
  reduction, as in GRPO.
* Validity is the reward's, `max - min > 1e-6`, fixed at birth: a group that the policy solves by now serves until it
  leaves the buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rollwise.holding import Holding
from rollwise.records import Group, Placed, Role, mean
from rollwise.replay.base import PolicyLogprobs, fresh_placed
from rollwise.state import check_distinct, check_keys, listed, whole


@dataclass(slots=True)
class Entry:
    """A stored group and the number of steps it was replayed in."""

    group: Group
    born: int
    uses: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"group": self.group.to_json(), "born": self.born, "uses": self.uses}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Entry:
        check_keys(data, {"group", "born", "uses"}, "a stored group")
        group = Group.from_json(data["group"])
        born = whole(data["born"], "a stored group, born", least=max(r.birth_step for r in group.rollouts))
        return Entry(group=group, born=born, uses=whole(data["uses"], "a stored group, uses"))


def read_entries(state: Any, what: str) -> list[Entry]:
    """Entries read back. Raises ValueError."""
    entries = [Entry.from_json(e) for e in listed(state, what)]
    check_distinct([r.key for e in entries for r in e.group.rollouts], what)
    return entries


def empty_slots(fresh: Sequence[Group], slots: int) -> int:
    """Slots that no informative fresh group takes."""
    return max(0, slots - sum(g.informative for g in fresh))


def fill(fresh: Sequence[Group], drawn: Sequence[Entry], step: int, *, short: Literal["keep", "drop"]) -> list[Placed]:
    """The batch: `drawn` entries in the places of dead groups, in order, and behind them what there are no dead groups
    for. Counts a use of each."""
    spare = iter([_place(e, step) for e in drawn])
    placed: list[Placed] = []
    for seat in fresh_placed(fresh, step):
        if seat.group.informative:
            placed.append(seat)
        elif (replayed := next(spare, None)) is not None:
            placed.append(replayed)
        elif short == "keep":
            placed.append(seat)
    return [*placed, *spare]


def _place(entry: Entry, step: int) -> Placed:
    entry.uses += 1
    return Placed(group=entry.group, role=Role.replay, age=step - entry.born, uses=entry.uses - 1)


def keep(held: Holding, entries: Sequence[Entry]) -> None:
    for entry in entries:
        held.add(entry.group.rollouts)


def release(held: Holding, entries: Sequence[Entry]) -> None:
    for entry in entries:
        held.drop(entry.group.rollouts)


def of_uses(drawn: Sequence[Entry]) -> dict[str, float]:
    """How often the entries drawn in a step have served, that step included."""
    return {
        "replay/uses_mean": mean([e.uses for e in drawn]),
        "replay/uses_max": float(max((e.uses for e in drawn), default=0)),
    }


class RecentGroups:
    """FIFO of groups by recency. `admit: any` stores and draws dead groups too (POPO-ineff); `order: kl` draws those
    nearest to the current policy instead of the newest (POPO-KL); `min_age` leaves only stale ones (POPO-stale).
    """

    def __init__(
        self,
        *,
        capacity: int,
        admit: Literal["informative", "any"] = "informative",
        order: Literal["newest", "kl"] = "newest",
        min_age: int = 0,
        max_age: int | None = None,
        max_uses: int | None = None,
        short: Literal["keep", "drop"] = "keep",
    ) -> None:
        self.capacity = capacity
        self.admit = admit
        self.order = order
        self.min_age = min_age
        self.max_age = max_age
        self.max_uses = max_uses
        self.short = short
        self.entries: list[Entry] = []  # oldest first
        self.held = Holding()
        self.admitted = self.evicted = self.expired = 0
        self._last: list[Entry] = []

    def compose(self, fresh: Sequence[Group], slots: int, step: int, policy: PolicyLogprobs) -> list[Placed]:
        want = empty_slots(fresh, slots)
        self._last = self.candidates(want, step, policy)[:want]
        return fill(fresh, self._last, step, short=self.short)

    def candidates(self, want: int, step: int, policy: PolicyLogprobs) -> list[Entry]:
        """What may be drawn in this step, best first. Drops what is too old or used up."""
        self._expire(step)
        eligible = [e for e in reversed(self.entries) if step - e.born >= max(1, self.min_age)]
        if self.order == "kl" and eligible and want:
            eligible = self._nearest_first(eligible, policy)
        return eligible

    def store(self, fresh: Sequence[Placed], step: int) -> None:
        self.take(fresh, step)

    def take(self, fresh: Sequence[Placed], step: int) -> list[Entry]:
        """Store what is admitted; the entries made of it, evicted ones among them."""
        entries = [Entry(group=s.group, born=step) for s in fresh if s.group.informative or self.admit == "any"]
        self.entries += entries
        self.admitted += len(entries)
        keep(self.held, entries)
        over = len(self.entries) - self.capacity
        if over > 0:
            release(self.held, self.entries[:over])
            del self.entries[:over]
            self.evicted += over
        return entries

    def _expire(self, step: int) -> None:
        def live(e: Entry) -> bool:
            young = self.max_age is None or step - e.born <= self.max_age
            return young and (self.max_uses is None or e.uses < self.max_uses)

        kept = [e for e in self.entries if live(e)]
        self.expired += len(self.entries) - len(kept)
        release(self.held, [] if len(kept) == len(self.entries) else [e for e in self.entries if not live(e)])
        self.entries = kept

    def _nearest_first(self, entries: list[Entry], policy: PolicyLogprobs) -> list[Entry]:
        """By the mean k3 estimate of KL(behaviour || policy) on the stored tokens; newest first among equals."""
        rollouts = [r for e in entries for r in e.group.rollouts]
        now = iter(policy(rollouts))
        distances = []
        for entry in entries:
            logratio = np.concatenate([next(now) - r.behaviour_logprobs for r in entry.group.rollouts]).astype(
                np.float64
            )
            distances.append(float(np.mean(np.exp(logratio) - 1 - logratio)))
        return [entries[i] for i in np.argsort(np.asarray(distances), kind="stable")]

    def stored(self) -> list[tuple[int, Group]]:
        return [(e.born, e.group) for e in self.entries]

    def metrics(self) -> dict[str, float]:
        return {
            "replay/size": float(len(self.entries)),
            **of_uses(self._last),
            **self.held.metrics("replay"),
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "entries": [e.to_json() for e in self.entries],
            "admitted": self.admitted,
            "evicted": self.evicted,
            "expired": self.expired,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"entries", "admitted", "evicted", "expired"}, "replay")
        entries = read_entries(state["entries"], "replay, entries")
        admitted, evicted, expired = (whole(state[n], f"replay, {n}") for n in ("admitted", "evicted", "expired"))
        if admitted - evicted - expired != len(entries):
            raise ValueError(f"state of replay: {len(entries)} groups are not what its counts say")
        if self.admit == "informative" and not all(e.group.informative for e in entries):
            raise ValueError("state of replay: it holds a group without reward variance")
        release(self.held, self.entries)
        self.entries = entries
        keep(self.held, self.entries)
        self.admitted, self.evicted, self.expired = admitted, evicted, expired
