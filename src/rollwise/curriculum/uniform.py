"""Uniform curriculum: a seeded permutation of the data set per epoch."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from rollwise import seeds
from rollwise.curriculum.base import Source
from rollwise.records import Group, Prompt
from rollwise.state import check_keys


class Uniform:
    """Every prompt once an epoch, in an order drawn anew from (seed, epoch). The position is the whole state."""

    def __init__(self, source: Source, *, seed: int) -> None:
        self.source = source
        self.seed = seed
        self.drawn = 0
        self._order: np.ndarray | None = None
        self._epoch = -1

    def draw(self, count: int) -> list[Prompt]:
        out = []
        for _ in range(count):
            epoch, place = divmod(self.drawn, len(self.source))
            if epoch != self._epoch:
                self._order = seeds.generator(self.seed, "epoch order", epoch).permutation(len(self.source))
                self._epoch = epoch
            assert self._order is not None
            out.append(dataclasses.replace(self.source[int(self._order[place])], occurrence=epoch))
            self.drawn += 1
        return out

    def observe(self, groups: Sequence[Group]) -> None:
        """A uniform order learns nothing."""

    def metrics(self) -> dict[str, float]:
        return {"epoch": self.drawn / len(self.source)}

    def state_dict(self) -> dict[str, Any]:
        return {"drawn": self.drawn, "size": len(self.source)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"drawn", "size"}, "curriculum")
        if state["size"] != len(self.source):
            raise ValueError(f"state of curriculum: for {state['size']} prompts; this data set has {len(self.source)}")
        self.drawn = state["drawn"]
        self._epoch = -1
