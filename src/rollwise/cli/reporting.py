"""`rollwise report`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from rollwise.errors import UserError


def report(args: Namespace) -> int:
    from rollwise.report.page import write_report

    folders = [Path(r) for r in args.runs]
    for folder in folders:
        if (folder / "comparison.json").is_file():
            raise UserError(f"{folder}: a comparison; open {folder / 'comparison.html'}, or give the runs inside it")
    out = Path(args.output) if args.output else folders[0] / "report.html"
    try:
        write_report(folders, out)
    except OSError as error:
        raise UserError(f"report: {out} cannot be written ({error.strerror})") from None
    print(out)
    return 0
