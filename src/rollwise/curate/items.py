"""A file of rows as items for the rules. A row that cannot be read or used becomes a reason, and stops nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from rollwise.curate.clean import Unreadable
from rollwise.curate.rules import Item, Kind
from rollwise.data.columns import NUMBERS, PROMPT, Census, Columns, census, choose
from rollwise.data.golds import contradiction, has_tests
from rollwise.data.jsonl import JsonLines
from rollwise.data.load import Example, Examples, Reading
from rollwise.data.opening import open_rows
from rollwise.data.pictures import mark_of
from rollwise.data.rows import Row, Rows, as_json
from rollwise.errors import UserError
from rollwise.records import Prompt
from rollwise.verify.countdown import read_gold
from rollwise.verify.table import make_verifier

ABSENT = ("no prompt", "no gold", "no tests")  # how the reader's reasons begin where a core field is not there


class Source:
    """The rows of a file, and what the rules see of each. Raises UserError where the file as a whole cannot be read:
    no rows, no column for the question or the gold, data sets whose verifier is not known."""

    def __init__(
        self,
        file: str,
        *,
        map: Mapping[str, str],
        kind: Literal["math", "code", "auto"] = "auto",
        verifier: str | None = None,
    ) -> None:
        self.rows = open_rows(file)
        found = census(readable(self.rows), has_tests)
        if not found.rows:
            raise UserError(f"{file}: no row can be read; give JSON objects, one a line")
        self._kind = kind
        self.columns: Columns | None = None
        if _problems_alone(found):
            return
        code = kind == "code" or verifier == "code" or (kind == "auto" and not verifier and found.coded == found.rows)
        self.columns = choose(found, map, file, code=code)
        named = "code" if code and verifier is None else verifier
        if named is not None:
            make_verifier(named)  # an unknown one is a user's mistake, told before any row
        self._examples = Examples(self.rows, self.columns, Reading(map=map, verifier=named, bad_rows="skip"), file)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Item | Unreadable]:
        return (self._item(i) for i in range(len(self.rows)))

    def text(self, index: int) -> bytes:
        """The row as JSON on one line: its own bytes where the file is JSON Lines."""
        if isinstance(self.rows, JsonLines):
            return self.rows.raw(index)
        return json.dumps(as_json(self.rows[index]), ensure_ascii=False).encode("utf-8")

    def data(self, index: int) -> Any:
        """The row for the report: as JSON, or as text where it is none."""
        try:
            return as_json(self.rows[index])
        except UserError:
            return self.text(index).decode("utf-8", "replace")

    def _item(self, index: int) -> Item | Unreadable:
        try:
            row = self.rows[index]
        except UserError as error:
            return Unreadable(reason=str(error).removeprefix(f"{self.rows.where(index)}: "))
        if self.columns is None:
            return problem_item(row, index)
        try:
            example = self._examples.understood(row, index)
        except ValueError as error:
            reason = str(error)
            return Unreadable(reason=reason, rule="missing" if reason.startswith(ABSENT) else "unreadable")
        return item_of(example, self._kind, _conflict(example, row, self.columns))


def _problems_alone(found: Census) -> bool:
    """Whether the rows are Countdown's numbers and target, with no question in words."""
    numbers = any(found.has(name) for name in NUMBERS)
    return numbers and found.has("target") and not any(found.has(name) for name in PROMPT)


def problem_item(row: Row, index: int) -> Item | Unreadable:
    """A Countdown row as an item. Its question is the target and the numbers by size, so that order makes no other."""
    gold = read_gold(row)
    if gold is None:
        return Unreadable(reason='not like {"nums": [3, 5, 7], "target": 26}')
    question = f"Make {gold['target']} out of {', '.join(map(str, sorted(gold['numbers'])))}"
    prompt = Prompt(uid=f"row:{index}", text=question, answer=gold, row=index, meta={"verifier": "countdown"})
    return Item(question=question, gold=gold, kind="math", prompt=prompt)


def readable(rows: Rows) -> Iterator[Row]:
    """The rows that can be read, in order."""
    for i in range(len(rows)):
        try:
            yield rows[i]
        except UserError:
            continue


def _conflict(example: Example, row: Row, columns: Columns) -> str:
    if not columns.rivals:
        return ""
    found = contradiction(row, columns, example.verifier, example.options, example.gold)
    return f"{columns.gold} says {found[1][:40]!r}, {found[0]} says {found[2][:40]!r}" if found else ""


def item_of(example: Example, kind: Literal["math", "code", "auto"], conflict: str = "") -> Item:
    """What the rules see of a row: `auto` takes a program's row as code, any other as mathematics."""
    seen: Kind = ("code" if example.verifier == "code" else "math") if kind == "auto" else kind
    question, gold = example.question.shown(), example.gold.answer
    return Item(
        question=question,
        gold=gold,
        kind=seen,
        pictures=tuple(mark_of(p) for p in example.question.pictures),
        solution=str(gold.get("reference", "")) if isinstance(gold, dict) else "",
        options=tuple(example.options.values()),
        conflict=conflict,
        prompt=Prompt(uid=f"row:{example.row}", text=question, answer=gold, row=example.row, meta=example.meta),
    )
