"""How a step's rows are split: mini-batches, one optimizer update each, and micro-batches, one forward pass each.

Both are pure functions of the data and a seed. The loss does not depend on the micro-batches.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

from rollwise import seeds
from rollwise.records import Row

# What one more forward and backward pass costs, in padded tokens; decides when to split off shorter rows. Measured with
# the bundled models on one CPU core: 2.2 ms a pass and 18 us a token. An accelerator needs larger passes to be busy.
PASS_COST = {"cpu": 128}
PASS_COST_ELSEWHERE = 4096


def counts(row: Row) -> bool:
    """Whether the row's tokens are in the loss and its reduction."""
    return row.rollout.scored and row.credit.counts


def mini_batches(rows: Sequence[Row], count: int, *, seed: int, step: int, epoch: int) -> list[list[int]]:
    """Row numbers of each mini-batch: the units (groups, single rollouts) shuffled and cut into `count` parts, as even
    in rows as whole units allow and none of them empty; fewer where there are fewer units. Nothing needs to divide.
    """
    members: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        members.setdefault(row.unit, []).append(i)
    units = list(members)
    order = seeds.generator(seed, "mini-batches", step, epoch).permutation(len(units))
    parts = min(count, len(units))
    ends = list(itertools.accumulate((len(members[units[u]]) for u in order), initial=0))
    cuts = [0]
    for p in range(1, parts):  # the last whole unit before the part's share of the rows, leaving each part at least one
        cut = bisect.bisect_right(ends, len(rows) * p / parts) - 1
        cuts.append(min(max(cut, cuts[-1] + 1), len(units) - (parts - p)))
    cuts.append(len(units))
    return [[i for u in order[a:b] for i in members[units[u]]] for a, b in itertools.pairwise(cuts)]


def micro_batches(length: Sequence[int], max_tokens: int, device: str = "cpu") -> list[list[int]]:
    """Places of `length` (tokens of each row) grouped for forward passes of at most `max_tokens` padded tokens.

    Rows are sorted by length, longest first, and split where the padding spared outweighs another pass. A row longer
    than `max_tokens` gets a pass of its own.
    """
    order = sorted(range(len(length)), key=lambda i: (-length[i], i))
    ordered = [length[i] for i in order]
    cost = PASS_COST.get(device, PASS_COST_ELSEWHERE)
    batches = []
    for start, end in _segments(ordered, 0, len(ordered), cost):
        rows = max(1, max_tokens // max(1, ordered[start]))
        batches += [order[i : min(i + rows, end)] for i in range(start, end, rows)]
    return batches


def _segments(ordered: list[int], start: int, end: int, cost: int) -> list[tuple[int, int]]:
    """`ordered[start:end]` cut in two wherever that spares more than `cost` padded tokens, again and again."""
    spare, cut = max(
        (((ordered[start] - ordered[c]) * (end - c), c) for c in range(start + 1, end)), default=(0, start), key=_first
    )
    if spare <= cost:
        return [(start, end)] if end > start else []
    return [*_segments(ordered, start, cut, cost), *_segments(ordered, cut, end, cost)]


def _first(pair: tuple[int, int]) -> int:
    return pair[0]
