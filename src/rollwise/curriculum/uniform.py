"""Uniform curriculum: a seeded permutation per epoch of the prompts its filters let through."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from rollwise import seeds
from rollwise.curriculum.base import Source
from rollwise.records import Group, Prompt
from rollwise.state import Part, check_keys


class Filter(Part, Protocol):
    """Decides between epochs which prompts come again."""

    def observe(self, groups: Sequence[Group]) -> None:
        """Fresh groups of one step, of this data set; `group.prompt.row` is the prompt's place in it."""
        ...

    def keep(self, rows: np.ndarray, epoch: int) -> np.ndarray:
        """Those of `rows` (int64, all rows of the data set, ascending) that are in epoch `epoch` (0 is the first)."""
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
            rows = np.arange(len(self.source))
            for each in self.filters:
                rows = each.keep(rows, self.epoch)
            self._order = seeds.generator(self.seed, "epoch order", self.epoch).permutation(rows)
        return self._order

    @property
    def remaining(self) -> int:
        if self.place >= len(self.order) > 0:
            self.next_epoch()
        return len(self.order) - self.place

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
            take = min(count - len(out), left)
            out += [(int(r), self.epoch) for r in self.order[self.place : self.place + take]]
            self.place += take
        return out

    def prompts(self, rows: Sequence[tuple[int, int]]) -> list[Prompt]:
        return [dataclasses.replace(self.source[row], occurrence=epoch, row=row) for row, epoch in rows]

    def observe(self, groups: Sequence[Group]) -> None:
        for each in self.filters:
            each.observe(groups)

    def metrics(self) -> dict[str, float]:
        out = {"epoch": self.epoch + self.place / max(1, len(self.order))}
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
        if state["size"] != len(self.source):
            raise ValueError(f"state of curriculum: for {state['size']} prompts; this data set has {len(self.source)}")
        if len(state["filters"]) != len(self.filters):
            raise ValueError(f"state of curriculum: {len(state['filters'])} filters; this run has {len(self.filters)}")
        for each, saved in zip(self.filters, state["filters"], strict=True):
            each.load_state_dict(saved)
        self.epoch, self.place = state["epoch"], state["place"]
        self._order = None if state["order"] is None else np.asarray(state["order"])
