"""How a step's rows are split: mini-batches, one optimizer update each, and micro-batches, one forward pass each.

Both are pure functions of the data and a seed. The loss does not depend on the micro-batches.
"""

from __future__ import annotations

from collections.abc import Sequence

from rollwise import seeds
from rollwise.records import Row

PASS_COST = 512  # what one more forward pass costs, in padded tokens; decides when to split off shorter rows


def mini_batches(rows: Sequence[Row], count: int, *, seed: int, step: int, epoch: int) -> list[list[int]]:
    """Row numbers of each mini-batch: the units (groups) shuffled and dealt into `count` parts, sizes differing by at
    most one unit; fewer parts where there are fewer units. Nothing needs to divide.
    """
    members: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        members.setdefault(row.unit, []).append(i)
    units = list(members)
    order = seeds.generator(seed, "mini-batches", step, epoch).permutation(len(units))
    parts = min(count, len(units))
    cuts = [len(units) * p // parts for p in range(parts + 1)] if parts else [0]
    return [
        [i for u in order[a:b] for i in members[units[u]]] for a, b in zip(cuts[:-1], cuts[1:], strict=True)
    ]


def micro_batches(length: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Places of `length` (tokens of each row) grouped for forward passes of at most `max_tokens` padded tokens.

    Rows are sorted by length, longest first; a pass is closed early where the padding saved outweighs another pass.
    A row longer than `max_tokens` gets a pass of its own.
    """
    order = sorted(range(len(length)), key=lambda i: (-length[i], i))
    batches: list[list[int]] = []
    start = 0
    while start < len(order):
        widest = length[order[start]]
        limit = min(len(order), start + max(1, max_tokens // max(1, widest)))
        end = _best_cut(length, order, start, limit)
        batches.append(order[start:end])
        start = end
    return batches


def _best_cut(length: Sequence[int], order: list[int], start: int, limit: int) -> int:
    """Where to close the pass that opens at `start`: `limit`, or earlier if that spares more than PASS_COST tokens."""
    widest = length[order[start]]
    best, saved = limit, 0
    for cut in range(start + 1, limit):
        spare = (widest - length[order[cut]]) * (limit - cut)
        if spare - PASS_COST > saved:
            best, saved = cut, spare - PASS_COST
    return best
