"""`rollwise verify`."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from rollwise.errors import UserError
from rollwise.report.wording import clean, count, plural

if TYPE_CHECKING:
    from rollwise.audit.lines import Scored

SHOWN = 20  # mismatches printed


def verify(args: Namespace) -> int:
    """Scores a file of completions.

    Status 0: every line was scored, and with `--expect` as its `want` says. 1: some line is bad, was met by a verifier
    that failed, or is not as wanted. 2: the file cannot be read.
    """
    from rollwise.audit.lines import read_lines, score

    counts: Counter[str] = Counter()
    failed = compared = unequal = 0
    begin = time.perf_counter()
    with contextlib.ExitStack() as stack:
        source = open_input(args.file, stack)
        out = open_output(args.output, args.file, stack)
        for scored in score(read_lines(source), args.workers):
            out.write(json.dumps(scored.to_json(expect=args.expect)) + "\n")
            if args.output is None:
                out.flush()
            kind = "bad lines" if scored.verdict is None else scored.verdict.kind.value
            counts[kind] += 1
            if args.expect and scored.line.want is not None:
                compared += 1
                if not scored.as_wanted:
                    unequal += 1
                    if unequal <= SHOWN:
                        print(_unequal(scored), file=sys.stderr)
            elif kind in ("bad lines", "infra_error"):
                failed += 1
    parts = [f"{count(counts[k])} {k}" for k in ("correct", "wrong", "invalid", "infra_error", "bad lines")]
    summary = f"{plural(counts.total(), 'line')}: {', '.join(parts)}; {time.perf_counter() - begin:.1f} s"
    if args.expect:
        summary += f"; {count(unequal)} of {count(compared)} not as wanted"
    print(summary, file=sys.stderr)
    if args.expect and not compared:
        raise UserError(f"{args.file}: no line has 'want' to compare with; leave --expect out or give it")
    return 1 if failed or unequal else 0


def _unequal(scored: Scored) -> str:
    """One line that is not as wanted."""
    verdict = scored.verdict
    got, detail = ("a bad line", scored.line.error) if verdict is None else (verdict.kind.value, verdict.detail)
    why = f" ({clean(detail, 120)})" if detail else ""
    return f"line {scored.line.number}: want {clean(scored.line.want, 40)}, got {got}{why}"


def open_input(file: str, stack: contextlib.ExitStack) -> BinaryIO:
    """The bytes of a file, or of standard input for `-`. Raises UserError."""
    if file == "-":
        return sys.stdin.buffer
    path = Path(file)
    if path.exists() and not path.is_file() and not path.is_fifo():
        raise UserError(f"{file}: cannot be read (not a file); give a JSONL file, or - for standard input")
    try:
        return stack.enter_context(path.open("rb"))
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}); give a JSONL file") from None


def open_output(file: str | None, source: str, stack: contextlib.ExitStack) -> TextIO:
    """A file to write, never the one that is read; standard output for None. Raises UserError."""
    if file is None:
        return sys.stdout
    path = Path(file)
    if source != "-" and path.exists() and path.samefile(source):
        raise UserError(f"--output {file}: the file that is read; give another")
    try:
        return stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))
    except OSError as error:
        raise UserError(f"--output {file}: cannot be written ({error.strerror}); give a path in a folder") from None
