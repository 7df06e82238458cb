"""A source of rows as examples: every row mapped, routed to its verifier and checked once, and read again when needed.

Nothing of a row is kept but its number, the key that tells questions apart, and its verifier; so memory is the file's.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

from rollwise.data.asking import Question, question_of
from rollwise.data.choices import options_of, spread_columns
from rollwise.data.columns import COUNTDOWN, Columns, cell, census, choose
from rollwise.data.golds import WORKED, Gold, contradiction, gold_of, has_tests, raw_gold
from rollwise.data.opening import open_rows
from rollwise.data.pictures import mark_of
from rollwise.data.routing import known_source, mathematical, source_of, unknown_source
from rollwise.data.rows import Row, Rows, as_json, is_empty
from rollwise.errors import UserError, show

META_BYTES = 2**14  # of one column in `meta`; larger ones stay in the file
MARKED = ("####", "boxed")
MOSTLY = 4  # rows that end in #### for each that does not, and then is a fault of the row
WORDS = re.compile(r"[A-Za-z]{2,} +[A-Za-z]{2,}")
PLAIN_SHARE = 0.8  # of golds that look mathematical, for a source that names no verifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a source is read."""

    map: Mapping[str, str] = field(default_factory=dict)
    verifier: str | None = None  # judges all rows; None: each row's data set names it
    split: str | None = None
    limit: int | None = None  # first rows of the source
    bad_rows: Literal["error", "skip"] = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One row, understood."""

    row: int  # its number in the source
    where: str
    question: Question
    options: Mapping[str, str]
    gold: Gold
    verifier: str
    meta: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Stray:
    """What was counted of an example before it was left out."""

    verifier: str
    no_formula: bool
    answered: bool
    bare: bool  # its prompt is text


class Examples:
    """The usable rows of a source, in its order."""

    def __init__(self, rows: Rows, columns: Columns, reading: Reading, name: str) -> None:
        self.columns, self.name = columns, name
        self.rows, self.reading = rows, reading
        self.numbers, self.keys = array("Q"), array("Q")  # of each example: its row, and its question's key
        self.verifiers: Counter[str] = Counter()
        self.notes: list[str] = []
        self.faults: list[tuple[str, str]] = []  # where, and why the row cannot be used
        self.bare_text = 0  # prompts that are text

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Example]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> Example:
        number = self.numbers[index]
        try:
            return self.understood(self.rows[number], number)
        except ValueError as error:  # it was sound when the file was opened
            raise UserError(f"{self.rows.where(number)}: {error}; the data changed while it was in use") from None

    def understood(self, row: Row, number: int) -> Example:
        """The row `number` of the source, scanned or not. Raises ValueError where it cannot be used, UserError where
        the source cannot."""
        question, options, gold, verifier = self._understood(row, number)
        meta = {**self._meta(row), "verifier": verifier}
        if options:
            meta["choices"] = dict(options)
        return Example(
            row=number,
            where=self.rows.where(number),
            question=question,
            options=options,
            gold=gold,
            verifier=verifier,
            meta=meta,
        )

    def _understood(self, row: Row, number: int) -> tuple[Question, Mapping[str, str], Gold, str]:
        """Raises ValueError where the row cannot be used, UserError where the source cannot."""
        question = question_of(row, self.columns, self.rows.folder(number))
        options = options_of(row, self.columns)
        verifier = self._verifier(row, number, options)
        return question, options, gold_of(row, self.columns, verifier, options), verifier

    def _verifier(self, row: Row, number: int, options: Mapping[str, str]) -> str:
        if self.reading.verifier is not None:
            return self.reading.verifier
        source = source_of(cell(row, self.columns.source)) if self.columns.source else None
        if source is not None:
            verifier = known_source(source)
            if verifier is None:
                raise unknown_source(source, str(self.columns.source), self.rows.where(number))
            return verifier
        return shape_of(row, self.columns, options)

    def _meta(self, row: Row) -> dict[str, Any]:
        used = {self.columns.prompt.split(".")[0], self.columns.images, *spread_columns(self.columns)}
        out: dict[str, Any] = {}
        for name, value in row.items():
            if name in used or value is None or isinstance(value, bytes):
                continue
            plain = as_json(value)
            if len(plain if isinstance(plain, str) else json.dumps(plain)) <= META_BYTES:
                out[str(name)] = plain
        return out

    def scan(self, count: int) -> None:
        """Look at the first `count` rows once. Raises UserError."""
        how: Counter[str] = Counter()
        faults: list[tuple[int, str]] = []  # row, and why it cannot be used
        stray: dict[int, _Stray] = {}  # by example: those whose gold is words that no mark ends
        answered = unplain = 0
        for number, row in enumerate(islice(iter(self.rows), count)):
            try:
                question, options, gold, verifier = self._understood(row, number)
            except ValueError as error:
                faults.append((number, " ".join(str(error).split())))
                continue
            if self.columns.rivals:
                self._check_rivals(row, number, verifier, options, gold)
            how[gold.how] += 1
            no_formula = verifier == "math" and not (isinstance(gold.answer, str) and mathematical(gold.answer))
            if verifier in WORKED and gold.how not in MARKED and WORDS.search(str(gold.answer)):
                stray[len(self.numbers)] = _Stray(verifier, no_formula, question.answered, question.text is not None)
            answered += question.answered
            self.bare_text += question.text is not None
            self.verifiers[verifier] += 1
            unplain += no_formula
            self.numbers.append(number)
            self.keys.append(key_of(question, options))
        if stray and how["####"] >= MOSTLY * len(stray):
            why = f"{how['####']:,} of {count:,} rows end in ####, this one does not"
            faults = sorted([*faults, *((self.numbers[at], why) for at in stray)])
            answered -= sum(one.answered for one in stray.values())
            unplain -= sum(one.no_formula for one in stray.values())
            self._leave_out(stray)
        self.faults = [(self.rows.where(number), why) for number, why in faults]
        self._check_plain(unplain)
        self._settle(count, how, answered)

    def _leave_out(self, stray: Mapping[int, _Stray]) -> None:
        """Forget examples that were counted."""
        for one in stray.values():
            self.verifiers[one.verifier] -= 1
            self.bare_text -= one.bare
        self.verifiers = +self.verifiers
        kept = [i for i in range(len(self.numbers)) if i not in stray]
        self.numbers = array("Q", (self.numbers[i] for i in kept))
        self.keys = array("Q", (self.keys[i] for i in kept))

    def _check_rivals(self, row: Row, number: int, verifier: str, options: Mapping[str, str], gold: Gold) -> None:
        found = contradiction(row, self.columns, verifier, options, gold)
        if found is not None:
            column, mine, other = found
            raise UserError(
                f"{self.rows.where(number)}: the gold answer could be {self.columns.gold} ({show(mine)}) or {column} "
                f"({show(other)}), and they differ; say which, for example task_args.map.gold={self.columns.gold}"
            )

    def _check_plain(self, unplain: int) -> None:
        """Golds that no column routes, and that are neither numbers nor formulas, are not for a verifier of those."""
        guessed = self.reading.verifier is None and self.columns.source is None
        if guessed and unplain > (1 - PLAIN_SHARE) * max(1, self.verifiers["math"]):
            raise UserError(
                f"{self.name}: no column says which verifier judges it, and {unplain} golds of "
                f"{self.verifiers['math']} are no numbers or formulas; give task_args.verifier, for example exact"
            )

    def _settle(self, count: int, how: Counter[str], answered: int) -> None:
        """Faults and notes of a scan."""
        if self.faults:
            where, reason = self.faults[0]
            if self.reading.bad_rows == "error" or not len(self):
                hint = "; task_args.bad_rows=skip leaves them out" if len(self) else ""
                raise UserError(f"{where}: {reason}; {len(self.faults)} of {count} rows cannot be used{hint}")
            self.notes.append(f"{self.name}: {len(self.faults)} of {count} rows left out, the first {where}: {reason}")
        judged = " ".join(f"{name} {n:,}" for name, n in sorted(self.verifiers.items()))
        self.notes.insert(0, f"{self.name}: {self.columns}; rows by verifier: {judged}; {held(self.rows.nbytes)} held")
        shortened = {mark: how[mark] for mark in ("####", "boxed") if how[mark]}
        if shortened:
            counts = " and ".join(f"{n:,} by {mark}" for mark, n in shortened.items())
            self.notes.append(f"{self.name}: golds reduced to the final answer: {counts}")
        if answered:
            self.notes.append(f"{self.name}: {answered:,} prompts ended in an assistant's turn, which was taken off")


def held(nbytes: int) -> str:
    """Bytes of memory in words."""
    return f"{nbytes / 1e6:,.1f} MB" if nbytes >= 100_000 else f"{nbytes / 1e3:,.1f} kB"


def shape_of(row: Row, columns: Columns, options: Mapping[str, str]) -> str:
    """The verifier of a row that names no data set. Raises ValueError."""
    if columns.gold is None:
        return "code"
    if columns.gold.endswith(COUNTDOWN):
        return "countdown"
    value = cell(row, columns.gold)
    if isinstance(value, Mapping) and not is_empty(value.get("numbers", value.get("nums"))):
        return "countdown"
    if is_empty(value) and has_tests(row):
        return "code"
    if options:
        try:
            gold_of(row, columns, "choice", options)
            return "choice"
        except ValueError:
            return "math"
    raw = raw_gold(row, columns)
    return "gsm8k" if isinstance(raw, str) and "####" in raw else "math"


def key_of(question: Question, options: Mapping[str, str]) -> int:
    """64 bits that two rows share where they ask the same: the text without case and spacing, options and pictures."""
    text = unicodedata.normalize("NFKC", " ".join([question.shown(), *options.values()]))
    digest = hashlib.blake2b(" ".join(text.casefold().split()).encode(), digest_size=8)
    for one in question.pictures:
        digest.update(mark_of(one).encode())
    return int.from_bytes(digest.digest(), "big")


class Joined(Examples):
    """The examples of several sources, each with its own mapping; rows are numbered on."""

    def __init__(self, parts: Sequence[Examples]) -> None:
        first = parts[0]
        super().__init__(first.rows, first.columns, first.reading, ", ".join(part.name for part in parts))
        self._parts: list[tuple[Examples, int]] = []  # with the number of its first row
        self._places: list[tuple[int, int]] = []  # of each example: its part, and its place there
        start = 0
        for at, part in enumerate(parts):
            self._parts.append((part, start))
            self._places += [(at, i) for i in range(len(part))]
            self.numbers.extend(start + number for number in part.numbers)
            self.keys.extend(part.keys)
            self.verifiers += part.verifiers
            self.notes += part.notes
            self.faults += part.faults
            self.bare_text += part.bare_text
            start += len(part.rows)

    def __getitem__(self, index: int) -> Example:
        at, inner = self._places[index]
        part, start = self._parts[at]
        example = part[inner]
        return replace(example, row=start + example.row)


def load_examples(spec: str | Sequence[str], reading: Reading) -> Examples:
    """All usable rows of a path or hub name, or of several. Raises UserError: file, row, what would be right."""
    if isinstance(spec, str):
        return _load(spec, reading)
    parts: list[Examples] = []
    left = reading.limit
    for one in spec:
        if left == 0:
            break
        parts.append(_load(one, replace(reading, limit=left)))
        left = None if left is None else max(0, left - len(parts[-1].rows))
    return parts[0] if len(parts) == 1 else Joined(parts)


def _load(name: str, reading: Reading) -> Examples:
    rows = open_rows(name, reading.split)
    count = len(rows) if reading.limit is None else min(reading.limit, len(rows))
    found = census(islice(iter(rows), count), has_tests)
    code = reading.verifier in ("code", "none") or (reading.verifier is None and found.coded == found.rows)
    examples = Examples(rows, choose(found, reading.map, name, code=code), reading, name)
    examples.scan(count)
    return examples
