"""`rollwise data clean`."""

from __future__ import annotations

import contextlib
import json
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from rollwise.data.wording import flags
from rollwise.errors import UserError
from rollwise.outputs import same_place, whole
from rollwise.report.tables import Table
from rollwise.report.wording import count, share


@flags()
def clean(args: Namespace) -> int:
    """Status 0: every row was kept or dropped, each with a line in the report."""
    from rollwise.curate.clean import decide, tally
    from rollwise.curate.items import Source
    from rollwise.curate.references import wrong_references
    from rollwise.data.columns import parse_map

    source = Source(args.file, map=parse_map(args.map), kind=args.kind, verifier=args.verifier)
    counts: Counter[str] = Counter()
    with written(args.output, args.file) as output, written(args.report, args.file, args.output) as report:
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
def written(file: str, *others: str) -> Iterator[BinaryIO]:
    """A file to write, in its place only once it is whole. Never one of the others, the one that is read first. Raises
    UserError."""
    for other in others:
        if same_place(file, other):
            what = "the file that is read" if other == others[0] else "named for both outputs"
            raise UserError(f"{file}: {what}; give another to write")
    with whole(file) as stream:
        yield stream
