"""Uniform curriculum: a seeded permutation per epoch of the prompts its filters let through."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from rollwise import seeds
from rollwise.curriculum.base import Source, Turn
from rollwise.records import Group, Prompt
from rollwise.state import Part, check_keys, listed, odd, rows, whole


class Filter(Part, Protocol):
    """Decides between epochs which prompts come again."""

    def observe(self, groups: Sequence[Group]) -> None:
        """Fresh groups of one step, of this data set; `group.prompt.row` is the prompt's place in it."""
        ...

    def keep(self, rows: np.ndarray, epoch: int) -> np.ndarray:
        """Those of `rows` (int64, rows of the data set, ascending) that are in epoch `epoch` (0 is the first)."""
        ...

    @property
    def absence(self) -> int:
        """Epochs after which a prompt left out may come back; 0: it never does."""
        ...

    def forget(self) -> None:
        """Begin anew, as if nothing had been observed."""
        ...


class Uniform:
    """Every prompt once an epoch, in an order drawn anew from (seed, epoch). Filters act at the start of an epoch."""

    def __init__(self, source: Source, *, seed: int, filters: Sequence[Filter] = ()) -> None:
        self.source = source
        self.seed = seed
        self.filters = list(filters)
        self.epoch = 0
        self.place = 0
        self._order: np.ndarray | None = None

    @property
    def order(self) -> np.ndarray:
        """Rows of the running epoch, in the order they are drawn."""
        if self._order is None:
            self._order = seeds.generator(self.seed, "epoch order", self.epoch).permutation(self._let_in(self.epoch))
        return self._order

    def _let_in(self, epoch: int) -> np.ndarray:
        """Rows that all filters keep, ascending."""
        rows = np.arange(len(self.source))
        for each in self.filters:
            rows = each.keep(rows, epoch)
        return rows

    @property
    def remaining(self) -> int:
        if self.place >= len(self.order) > 0:
            self.next_epoch()
        if not len(self.order):  # all are out; some may come back
            longest = max((f.absence for f in self.filters), default=0)
            ahead = next((n for n in range(1, longest + 1) if len(self._let_in(self.epoch + n))), 0)
            for _ in range(ahead):
                self.next_epoch()
        return len(self.order) - self.place

    @property
    def passed(self) -> int:
        """Epochs that are over."""
        return self.epoch + (self.place >= len(self.order))

    @property
    def era(self) -> tuple[int, int]:
        return 0, self.passed

    @property
    def begun(self) -> bool:
        """Whether anything has been drawn."""
        return self.epoch > 0 or self.place > 0

    @property
    def turn(self) -> Turn | None:
        return None

    def next_epoch(self) -> None:
        self.epoch += 1
        self.place = 0
        self._order = None

    def draw(self, count: int) -> list[Prompt]:
        return self.prompts(self.rows(count))

    def rows(self, count: int) -> list[tuple[int, int]]:
        """The next rows with the epoch they are drawn in."""
        out: list[tuple[int, int]] = []
        while len(out) < count and (left := self.remaining):
            out += [(row, self.epoch) for row in self.take(min(count - len(out), left)).tolist()]
        return out

    def take(self, count: int) -> np.ndarray:
        """The next `count` rows of the running epoch, which has as many left."""
        self.place += count
        return self.order[self.place - count : self.place]

    def prompts(self, rows: Sequence[tuple[int, int]]) -> list[Prompt]:
        return [dataclasses.replace(self.source[row], occurrence=epoch, row=row) for row, epoch in rows]

    def has(self, prompt: Prompt) -> bool:
        """By everything in it: it may be long ago that it was drawn, and by another run."""
        if not 0 <= prompt.row < len(self.source):
            return False
        (own,) = self.prompts([(prompt.row, prompt.occurrence)])
        one, two = (json.dumps(p.to_json(), sort_keys=True) for p in (own, prompt))
        return one == two

    def observe(self, groups: Sequence[Group]) -> None:
        for each in self.filters:
            each.observe(groups)
        if self.filters and any(g.prompt.occurrence < self.epoch for g in groups):
            # the step ran on into this epoch before the last groups of the one before were seen
            drawn, ahead = np.split(self.order, [self.place])
            self._order = np.concatenate([drawn, ahead[np.isin(ahead, self._let_in(self.epoch))]])

    def forget(self) -> None:
        """Filters begin anew; epochs are counted on. What remains of the running epoch keeps its order."""
        for each in self.filters:
            each.forget()

    def metrics(self) -> dict[str, float]:
        """`epoch` with its part done; under filters the prompts of the running epoch, and those left out of it."""
        size = len(self.order)
        out = {"epoch": self.epoch + self.place / max(1, size)}
        if self.filters:
            out |= {"curriculum/pool": float(size), "curriculum/dropped": float(len(self.source) - size)}
        for each in self.filters:
            out |= each.metrics()
        return out

    def state_dict(self) -> dict[str, Any]:
        """The order of the running epoch is saved with it: filters may have changed since it began."""
        return {
            "size": len(self.source),
            "epoch": self.epoch,
            "place": self.place,
            "order": self.order.copy() if self.filters else None,
            "filters": [f.state_dict() for f in self.filters],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"size", "epoch", "place", "order", "filters"}, "curriculum")
        size, filters = whole(state["size"], "curriculum, size"), listed(state["filters"], "curriculum, filters")
        if size != len(self.source):
            raise ValueError(f"state of curriculum: for {size} prompts; this data set has {len(self.source)}")
        if len(filters) != len(self.filters):
            raise ValueError(f"state of curriculum: {len(filters)} filters; this run has {len(self.filters)}")
        if (state["order"] is None) == bool(self.filters):
            raise odd("curriculum, order", "an order where there are filters, and there only", state["order"])
        order = None if state["order"] is None else rows(state["order"], "curriculum, order", size)
        epoch = whole(state["epoch"], "curriculum, epoch", most=np.iinfo(np.int32).max)
        place = whole(state["place"], "curriculum, place", most=size if order is None else len(order))
        for each, saved in zip(self.filters, filters, strict=True):
            each.load_state_dict(saved)
        self.epoch, self.place, self._order = epoch, place, order
