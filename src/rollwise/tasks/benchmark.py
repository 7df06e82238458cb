"""A benchmark: all rows of a file, folder or hub data set, for evaluation only."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from rollwise.config.tasks import NAME
from rollwise.data import hub_name, load_examples, open_rows
from rollwise.data.wording import in_flags
from rollwise.errors import UserError
from rollwise.tasks.base import PromptSource, Task
from rollwise.tasks.data import DataArgs, DataTask, RowPrompts, reading_of, verifiers_of
from rollwise.tasks.phrasing import speaks_for_itself

PLAIN_STEMS = re.compile(r"(test|train|validation|valid|val|dev|data|rows|example)([-_.].*)?", re.I)


class Benchmark(DataTask):
    """As `data`, with every row held out. Of a source with several splits `test` is taken, unless one is named."""

    def __init__(self, args: DataArgs, *, name: str) -> None:
        assert isinstance(args.data, str)
        self.name, self.args = name, args
        reading = dataclasses.replace(reading_of(args, args.verifier), split=args.split or _test_split(args.data))
        examples = load_examples(args.data, reading)
        self.plain = speaks_for_itself(examples)
        self.train: PromptSource = RowPrompts(self, examples, range(len(examples)), "heldout")
        self.heldout = self.train
        self._verifiers = verifiers_of(args, sorted(examples.verifiers), reading.verifier)
        self.notes = (*examples.notes, *(n for v in self._verifiers.values() for n in getattr(v, "notes", ())))


def _test_split(spec: str) -> str | None:
    """`test` where the source has it; None for a single file, and where there is no such split."""
    if hub_name(spec) is None and not Path(spec).expanduser().is_dir():
        return None
    try:
        open_rows(spec, "test")
    except UserError:
        return None
    return "test"


def named_source(text: str) -> tuple[str, str]:
    """The name and the source of `NAME=SOURCE` or `SOURCE`: a file is called by its stem, `test.jsonl` and the like by
    its folder, a hub data set by its last part. Raises UserError."""
    name, sign, source = text.partition("=")
    if sign and NAME.fullmatch(name) and source:
        return name, source
    match = hub_name(text)
    if match is not None:
        return match["name"].split("/")[1], text
    path = Path(text).expanduser().absolute()
    stem = path.name.split(".")[0]
    name = path.parent.name if PLAIN_STEMS.fullmatch(stem) and path.parent.name else stem
    if not NAME.fullmatch(name):
        raise UserError(f"--data {text}: '{name}' is no name of letters, digits and _ . -; give NAME={text}")
    return name, text


def load_benchmarks(sources: Mapping[str, DataArgs]) -> dict[str, Task]:
    """Benchmarks by name. Raises UserError in the words of `rollwise eval --data`."""
    out: dict[str, Task] = {}
    for name, args in sources.items():
        try:
            out[name] = Benchmark(args, name=name)
        except UserError as error:
            raise UserError(f"--data {name}: {in_flags(str(error))}") from None
    return out
