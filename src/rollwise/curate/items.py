"""A file of rows as items for the rules. A row that cannot be read or used becomes a reason, and stops nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from rollwise.curate.clean import Unreadable
from rollwise.curate.rules import Item, Kind
from rollwise.data.columns import Columns, census, choose
from rollwise.data.golds import contradiction, has_tests
from rollwise.data.jsonl import JsonLines
from rollwise.data.load import Example, Examples, Reading
from rollwise.data.opening import open_rows
from rollwise.data.pictures import mark_of
from rollwise.data.rows import Row, Rows, as_json
from rollwise.errors import UserError
from rollwise.records import Prompt, Verdict, VerdictKind
from rollwise.verify.base import Verifier
from rollwise.verify.scoring import Completion, judged
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
        code = kind == "code" or verifier == "code" or (kind == "auto" and not verifier and found.coded == found.rows)
        self.columns = choose(found, map, file, code=code)
        self._kind = kind
        named = "code" if code and verifier is None else verifier
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
        try:
            example = self._examples.understood(row, index)
        except ValueError as error:
            reason = str(error)
            return Unreadable(reason=reason, rule="missing" if reason.startswith(ABSENT) else "unreadable")
        return item_of(example, self._kind, _conflict(example, row, self.columns))


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


def wrong_references(items: Sequence[Item]) -> list[str]:
    """For each item, why its reference is not right: the gold, said back as a model would write it, is judged by its
    own verifier, and no other column may claim another. Empty where all is well, and where nothing can be said back
    (code without a reference program)."""
    out = [""] * len(items)
    by_verifier: dict[str, list[int]] = {}
    for place, item in enumerate(items):
        assert item.prompt is not None
        by_verifier.setdefault(str(item.prompt.meta["verifier"]), []).append(place)
    for name, places in by_verifier.items():
        verifier = make_verifier(name)
        said = [_said_back(verifier, items[place]) for place in places]
        for place, (text, verdict) in zip(places, _judged(verifier, said), strict=True):
            out[place] = items[place].conflict or _fault(name, text, verdict)
    return out


def _said_back(verifier: Verifier, item: Item) -> tuple[str | None, Completion]:
    assert item.prompt is not None
    text = verifier.restated(Completion(prompt=item.prompt, text=""))
    return text, Completion(prompt=item.prompt, text=text or "")


def _judged(verifier: Verifier, said: Sequence[tuple[str | None, Completion]]) -> list[tuple[str | None, Verdict]]:
    verdicts = judged(verifier.judge, [completion for _, completion in said])
    return [(text, verdict) for (text, _), verdict in zip(said, verdicts, strict=True)]


def _fault(name: str, text: str | None, verdict: Verdict) -> str:
    why = f": {verdict.detail}" if verdict.detail else ""
    if text is None:  # nothing to say back, but a verifier that cannot read the gold says so of any completion
        return f"by {name}{why}" if verdict.kind is VerdictKind.infra_error else ""
    if verdict.kind is VerdictKind.correct:
        return ""
    return f"by {name}, its own {text[:80]!r} is {verdict.kind.value}{why}"
