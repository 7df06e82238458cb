"""`rollwise data clean`."""

from __future__ import annotations

import contextlib
import json
import os
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from rollwise.errors import UserError
from rollwise.report.tables import Table
from rollwise.report.wording import count, share


def clean(args: Namespace) -> int:
    """Status 0: every row was kept or dropped, each with a line in the report."""
    from rollwise.curate.clean import decide, tally
    from rollwise.curate.items import Source
    from rollwise.curate.references import wrong_references
    from rollwise.data.columns import parse_map

    source = Source(args.file, map=parse_map(args.map), kind=args.kind, verifier=args.verifier)
    counts: Counter[str] = Counter()
    with written(args.output, args.file) as output, written(args.report, args.file) as report:
        for decision in decide(source, wrong_references):
            counts[decision.rule] += 1
            line = decision.to_json()
            if decision.kept:
                output.write(source.text(decision.row) + b"\n")
            else:
                line["data"] = source.data(decision.row)
            report.write(json.dumps(line).encode() + b"\n")
    total = counts.total()
    assert total == len(source), "every row has one decision"
    rows = [(name, count(n), share(n / total)) for name, n in tally(counts) if n or name == "kept"]
    table = Table(
        title=f"{args.file}: {count(total)} rows; {source.columns or 'numbers and a target'}",
        columns=("", "rows", "share"),
        rows=[*rows, ("all rows", count(total), share(1))],
        notes=(f"kept rows: {args.output}; why the others were dropped, and what they hold: {args.report}",),
    )
    print("\n".join(table.text()))
    return 0


@contextlib.contextmanager
def written(file: str, source: str) -> Iterator[BinaryIO]:
    """A file to write, in its place only once it is whole. Never the one that is read. Raises UserError."""
    path = Path(file)
    if path.exists() and Path(source).exists() and path.samefile(source):
        raise UserError(f"{file}: the file that is read; give another to write")
    part = path.with_name(f"{path.name}.part")
    try:
        stream = part.open("wb")
    except OSError as error:
        raise UserError(f"{file}: cannot be written ({error.strerror}); give a path in a folder") from None
    try:
        with stream:
            yield stream
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
