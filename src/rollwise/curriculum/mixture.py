"""Several data sets in one curriculum, drawn by weight. Each keeps its own epochs, filters and posteriors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rollwise import seeds
from rollwise.curriculum.base import Turn
from rollwise.curriculum.uniform import Uniform
from rollwise.records import Group, Prompt
from rollwise.state import check_keys, number, odd, whole


class Mixture:
    """Prompts of each data set in proportion to its weight, told apart by `prompt.task`.

    The order of data sets is a weighted round robin from a seeded start: after any number of draws, each has had its
    share to within one prompt. One without prompts leaves its share to the others. An epoch of the mixture is over
    when every data set has been passed through; the ones that are small for their weight come round more often.
    """

    def __init__(self, parts: Mapping[str, Uniform], weights: Mapping[str, float], *, seed: int) -> None:
        self.parts = dict(parts)
        self.seed = seed
        self.turns = 0
        self.weigh(weights)

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Draw from these data sets from now on, each from the start of an epoch."""
        self.weights = dict(weights)
        self.turns += 1
        for name in self.weights:
            if self.parts[name].begun:
                self.parts[name].next_epoch()
        self.first = {name: self.parts[name].epoch for name in self.weights}
        start = seeds.generator(self.seed, "mixture", self.turns).random(len(self.weights))
        self.credit = dict(zip(self.weights, start.tolist(), strict=True))

    def _live(self) -> list[str]:
        return [name for name in self.weights if self.parts[name].remaining]

    def _lagging(self, live: Sequence[str]) -> list[str]:
        """Data sets not yet passed through in the running epoch of the mixture."""
        least = min(self.parts[n].epoch - self.first[n] for n in live)
        return [n for n in live if self.parts[n].epoch - self.first[n] == least]

    @property
    def remaining(self) -> int:
        """By the weights; exact to a prompt for each data set."""
        live = self._live()
        if not live:
            return 0
        total = sum(self.weights[n] for n in live)
        return max(math.ceil(self.parts[n].remaining * total / self.weights[n]) for n in self._lagging(live))

    @property
    def passed(self) -> int:
        """Epochs of the mixture that are over since its weights were set."""
        return min((self.parts[n].passed - self.first[n] for n in self._live()), default=0)

    @property
    def era(self) -> tuple[int, int]:
        return self.turns, self.passed

    def next_epoch(self) -> None:
        live = self._live()
        for name in self._lagging(live) if live else ():
            self.parts[name].next_epoch()

    def draw(self, count: int) -> list[Prompt]:
        out: list[Prompt] = []
        while len(out) < count and (live := self._live()):
            order = self._order(count - len(out), live)
            drawn = {name: iter(self.parts[name].draw(order.count(name))) for name in live}
            got = [prompt for name in order if (prompt := next(drawn[name], None)) is not None]
            out += got
        return out

    def _order(self, count: int, live: Sequence[str]) -> list[str]:
        total = sum(self.weights[n] for n in live)
        order = []
        for _ in range(count):
            for name in live:
                self.credit[name] += self.weights[name] / total
            order.append(max(live, key=self.credit.__getitem__))
            self.credit[order[-1]] -= 1
        return order

    def has(self, prompt: Prompt) -> bool:
        return prompt.task in self.parts and self.parts[prompt.task].has(prompt)

    def observe(self, groups: Sequence[Group]) -> None:
        for name, part in self.parts.items():
            part.observe([g for g in groups if g.prompt.task == name])

    @property
    def turn(self) -> Turn | None:
        return None

    def forget(self) -> None:
        for part in self.parts.values():
            part.forget()

    def metrics(self) -> dict[str, float]:
        """Those of each data set as task/<name>/..., pool and dropped summed; `epoch` is that of the one furthest back,
        counted since the weights were set."""
        of = {name: self.parts[name].metrics() for name in self.weights}
        out = {"epoch": min(m["epoch"] - self.first[name] for name, m in of.items())}
        for key in ("curriculum/pool", "curriculum/dropped"):
            if all(key in m for m in of.values()):
                out[key] = sum(m[key] for m in of.values())
        if len(self.parts) == 1:
            return {**next(iter(of.values())), **out}
        return out | {
            f"task/{name}/{key.removeprefix('curriculum/')}": value
            for name, m in of.items()
            for key, value in m.items()
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
            "weights": dict(self.weights),
            "turns": self.turns,
            "first": dict(self.first),
            "credit": dict(self.credit),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"parts", "weights", "turns", "first", "credit"}, "curriculum.mixture")
        check_keys(state["parts"], set(self.parts), "curriculum.mixture")
        for name, part in self.parts.items():
            part.load_state_dict(state["parts"][name])
        weights = {name: number(w, "curriculum.mixture, weights", least=0) for name, w in state["weights"].items()}
        if not weights or not set(weights) <= set(self.parts) or not all(weights.values()):
            raise odd("curriculum.mixture, weights", f"some of {sorted(self.parts)}, above 0", state["weights"])
        check_keys(state["first"], set(weights), "curriculum.mixture, first")
        check_keys(state["credit"], set(weights), "curriculum.mixture, credit")
        self.first = {
            name: whole(state["first"][name], "curriculum.mixture, first", most=self.parts[name].epoch)
            for name in weights
        }
        self.credit = {name: number(state["credit"][name], "curriculum.mixture, credit") for name in weights}
        self.weights, self.turns = weights, whole(state["turns"], "curriculum.mixture, turns", least=1)
