"""MoPPS: model predictive prompt selection (arXiv 2507.04632, with its released code).

Each prompt has a Beta posterior of its success rate. From a pool of `pool_factor` candidates for each prompt wanted,
one value is drawn for every candidate, and the candidates whose values suit best are asked. What their rollouts show
updates their posteriors, and theirs only:

    alpha = decay * alpha + (1 - decay) * alpha0 + correct;  beta likewise with wrong

As in the released code, candidates that are not chosen are used up: they come again in the next epoch, so epochs pass
faster by the pool factor, and a pool as large as the data set makes every draw an epoch.

Ours, where paper and code leave it open: at the end of an epoch the pool is what is left, and a draw that needs more
goes on with a pool of the next epoch; several groups of one prompt in one step are one update; rollouts without a
verdict do not count. The released code's special case of one rollout a group (alpha becomes 8) is an operator slip and
not repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from rollwise import seeds
from rollwise.curriculum.base import Source
from rollwise.curriculum.thompson import beta
from rollwise.curriculum.uniform import Filter, Uniform
from rollwise.records import Group
from rollwise.state import array, check_keys, number, rows, whole

Strategy = Literal["topk", "threshold", "uniform"]


class Mopps(Uniform):
    """Uniform epochs, of which the most promising candidates are drawn.

    strategy: `topk` takes the draws nearest to `target`; `threshold` takes candidates at random among those within
    `target` +- `band`, and where they are too few, the nearest to that interval; `uniform` takes any.
    """

    def __init__(
        self,
        source: Source,
        *,
        seed: int,
        filters: Sequence[Filter] = (),
        pool_factor: int,
        strategy: Strategy,
        target: float,
        band: float,
        decay: float,
        prior: tuple[float, float],
    ) -> None:
        super().__init__(source, seed=seed, filters=filters)
        self.pool_factor = pool_factor
        self.width = {"topk": 0.0, "threshold": band, "uniform": 1.0}[strategy]
        self.target = target
        self.decay = decay
        self.prior = np.asarray(prior, dtype=np.float64)
        self.draws = 0
        self.predicted = 0.0  # mean posterior success rate of the prompts chosen last
        self._start()

    def _start(self) -> None:
        self.posterior = np.tile(self.prior[:, None], (1, len(self.source)))  # [2, prompts]: alpha, beta
        self.seen = np.zeros(len(self.source), dtype=bool)

    def forget(self) -> None:
        super().forget()
        self._start()

    def rows(self, count: int) -> list[tuple[int, int]]:
        out: list[tuple[int, int]] = []
        while len(out) < count and (left := self.remaining):
            wanted = count - len(out)
            pool = self.take(min(self.pool_factor * wanted, left))
            out += [(row, self.epoch) for row in self.choose(pool, wanted).tolist()]
        return out

    def choose(self, pool: np.ndarray, count: int) -> np.ndarray:
        """At most `count` of the rows in `pool`, the best first: nearest to the interval, at random among equals."""
        self.draws += 1
        distance = np.maximum(np.abs(self.sample(pool) - self.target) - self.width, 0)
        lot = seeds.uniforms(self.seed, "mopps lot", self.draws, of=pool)
        chosen = pool[np.lexsort((lot, distance))[:count]]
        alpha, wrong = self.posterior[:, chosen]
        self.predicted = float((alpha / (alpha + wrong)).mean())
        return chosen

    def sample(self, rows: np.ndarray) -> np.ndarray:
        """One value from the posterior of each row, float64: a function of the seed, the number of the draw, the row
        and its posterior."""
        alpha, wrong = self.posterior[:, rows]
        return beta(
            alpha, wrong, lambda i, places: seeds.uniforms(self.seed, "thompson", self.draws, i, of=rows[places])
        )

    def observe(self, groups: Sequence[Group]) -> None:
        super().observe(groups)
        counts: dict[int, np.ndarray] = {}
        for group in groups:
            scored = [r.correct for r in group.rollouts if r.scored]
            if scored:
                found = np.array([sum(scored), len(scored) - sum(scored)], dtype=np.float64)
                row = group.prompt.row
                counts[row] = counts[row] + found if row in counts else found
        if counts:
            rows = np.fromiter(counts, dtype=np.int64)
            kept = self.decay * self.posterior[:, rows] + (1 - self.decay) * self.prior[:, None]
            self.posterior[:, rows] = kept + np.stack(list(counts.values()), axis=1)
            self.seen[rows] = True

    def metrics(self) -> dict[str, float]:
        return {**super().metrics(), "mopps/predicted": self.predicted, "mopps/seen": float(self.seen.sum())}

    def state_dict(self) -> dict[str, Any]:
        rows = np.flatnonzero(self.seen)
        own = {"rows": rows, "posterior": self.posterior[:, rows], "draws": self.draws, "predicted": self.predicted}
        return {"epochs": super().state_dict(), **own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"epochs", "rows", "posterior", "draws", "predicted"}, "curriculum.mopps")
        at = rows(state["rows"], "curriculum.mopps, rows", len(self.source))
        least = np.nextafter(0, 1)
        posterior = array(state["posterior"], "curriculum.mopps, posterior", np.float64, (2, len(at)), least=least)
        draws = whole(state["draws"], "curriculum.mopps, draws")
        predicted = number(state["predicted"], "curriculum.mopps, predicted", least=0, most=1)
        super().load_state_dict(state["epochs"])
        self._start()
        self.posterior[:, at] = posterior
        self.seen[at] = True
        self.draws, self.predicted = draws, predicted
