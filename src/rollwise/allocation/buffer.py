"""Piloted prompts that wait for their commit rollouts."""

from __future__ import annotations

from typing import Any, Literal

from rollwise import seeds
from rollwise.holding import Holding
from rollwise.records import Group
from rollwise.state import check_distinct, check_keys, listed, odd

Pick = Literal["random", "max_variance", "newest", "oldest"]


class PilotBuffer:
    """Pilot groups in the order they came, none older than `max_age` steps when taken.

    The paper does not say which waiting prompt is committed. `random` is the released default. `max_variance` takes
    those whose pass rate p has the largest p (1 - p), the newest of equals. In the released code both recency options
    take the newest; here `oldest` is the oldest.
    """

    def __init__(self, *, capacity: int | None, max_age: int, pick: Pick, seed: int) -> None:
        self.capacity = capacity
        self.max_age = max_age
        self.pick = pick
        self.seed = seed
        self.entries: list[Group] = []  # oldest first
        self.held = Holding()

    def __len__(self) -> int:
        return len(self.entries)

    def young(self, step: int) -> list[Group]:
        """Those that may still be used in that step."""
        return [g for g in self.entries if step - g.birth_step <= self.max_age]

    def expire(self, step: int) -> list[Group]:
        """Remove and return those that are too old to be used in that step."""
        old = [g for g in self.entries if step - g.birth_step > self.max_age]
        self.entries = self.young(step)
        return self._gone(old)

    def clear(self) -> list[Group]:
        """Remove and return all."""
        out, self.entries = self.entries, []
        return self._gone(out)

    def add(self, group: Group) -> list[Group]:
        """Take one in; returns the oldest that has to give way, if any."""
        self.entries.append(group)
        self.held.add(group.rollouts)
        over = 0 if self.capacity is None else max(0, len(self.entries) - self.capacity)
        out, self.entries = self.entries[:over], self.entries[over:]
        return self._gone(out)

    def take(self, count: int, *, step: int, round: int) -> list[Group]:
        """Remove and return the next `count`, or all if there are fewer. Random numbers from (seed, step, round)."""
        order = self._order(step, round)[:count]
        taken, chosen = [self.entries[i] for i in order], set(order)
        self.entries = [g for i, g in enumerate(self.entries) if i not in chosen]
        return self._gone(taken)

    def _gone(self, groups: list[Group]) -> list[Group]:
        for group in groups:
            self.held.drop(group.rollouts)
        return groups

    def _order(self, step: int, round: int) -> list[int]:
        places = list(range(len(self.entries)))
        if self.pick == "random":
            shuffled: list[int] = seeds.generator(self.seed, "pilot pick", step, round).permutation(places).tolist()
            return shuffled
        if self.pick == "oldest":
            return places
        places.reverse()
        if self.pick == "max_variance":
            places.sort(key=lambda i: -_variance(self.entries[i]))  # stable: the newest of equals stays first
        return places

    def state_dict(self) -> dict[str, Any]:
        return {"entries": [g.to_json() for g in self.entries]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"entries"}, "pilot buffer")
        entries = [Group.from_json(g) for g in listed(state["entries"], "pilot buffer, entries")]
        if self.capacity is not None and len(entries) > self.capacity:
            raise odd("pilot buffer, entries", f"up to {self.capacity}", entries)
        check_distinct([r.key for g in entries for r in g.rollouts], "pilot buffer")
        self.clear()
        for group in entries:
            self.entries.append(group)
            self.held.add(group.rollouts)


def _variance(group: Group) -> float:
    return group.pass_rate * (1 - group.pass_rate)
