"""Every row of a data set gets one decision: kept, or dropped by the first rule that speaks, with the reason.

Order (SRPO, arXiv 2504.14286, data curation): what holds for both domains, what holds for mathematics or code, the
reference verified, and last the duplicates of rows that were kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from rollwise.audit.text import fingerprint, normalised
from rollwise.curate.rules import Item, first_broken, rule_names

CHUNK = 256  # rows whose references are verified together


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A row that could not be used, and why; `missing` where its question or gold is not there."""

    reason: str
    rule: Literal["unreadable", "missing"] = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What became of one row. `rule` and `reason` are empty where it was kept."""

    row: int  # 0-based, as it stands in the source
    rule: str = ""
    reason: str = ""

    @property
    def kept(self) -> bool:
        return not self.rule

    def to_json(self) -> dict[str, Any]:
        return {"row": self.row, "kept": self.kept, "rule": self.rule or None, "reason": self.reason}


CheckReferences = Callable[[Sequence[Item]], Sequence[str]]
"""For each item, why its reference is not right; empty where it is, or where there is none to check."""


def decide(items: Iterable[Item | Unreadable], references: CheckReferences) -> Iterator[Decision]:
    """One decision for each item, in order. Depends on the items alone; memory grows by 16 bytes for a kept row."""
    kept: dict[bytes, int] = {}
    rest = enumerate(items)
    while chunk := list(islice(rest, CHUNK)):
        broken = {row: _broken(item) for row, item in chunk}
        standing = [(row, item) for row, item in chunk if not broken[row] and isinstance(item, Item)]
        verified = dict(zip((row for row, _ in standing), references([item for _, item in standing]), strict=True))
        for row, item in chunk:
            found = broken[row]
            if found is None and verified[row]:
                found = ("reference", verified[row])
            if found is None and isinstance(item, Item):
                found = _repeated(item, row, kept)
            yield Decision(row=row) if found is None else Decision(row=row, rule=found[0], reason=found[1])


def _broken(item: Item | Unreadable) -> tuple[str, str] | None:
    return (item.rule, item.reason) if isinstance(item, Unreadable) else first_broken(item)


def _repeated(item: Item, row: int, kept: dict[bytes, int]) -> tuple[str, str] | None:
    key = fingerprint("\n".join([normalised(item.question), *map(normalised, item.options), *item.pictures]))
    if key in kept:
        return "duplicate", f"the question of row {kept[key]}"
    kept[key] = row
    return None


def tally(counts: Counter[str]) -> list[tuple[str, int]]:
    """Rows by what became of them, `kept` (counted under the empty rule) first, then every rule in its order."""
    return [("kept", counts[""]), *((name, counts[name]) for name in rule_names())]
