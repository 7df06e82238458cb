"""`rollwise train` and `rollwise resume`."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rollwise.cli.layers import config, overrides
from rollwise.console import Console, open_console
from rollwise.report.wording import duration

FAILED = {"non_finite"}  # stop reasons that are no success


def train(args: Namespace) -> int:
    settings = config(args)
    from rollwise import run

    with _way_on(lambda: settings.output), open_console(args.quiet) as console:
        clock = time.monotonic()
        output, event = run.start(settings, console)
        return _end(output, event, console, report=settings.log.report, seconds=time.monotonic() - clock)


def resume(args: Namespace) -> int:
    from rollwise import run
    from rollwise.config import RunConfig, build, expand_aliases, merge
    from rollwise.config.effect import check_read

    typed = overrides(args.set)
    report = True

    def changes(stored: dict[str, Any]) -> RunConfig:
        nonlocal report
        given = expand_aliases(typed, "--set")
        settings = build(merge(stored, given), "--set")
        check_read(settings, given, "--set")
        report = settings.log.report
        return settings

    output = Path(args.run).absolute()
    with _way_on(lambda: args.run), open_console(args.quiet) as console:
        clock = time.monotonic()
        event = run.resume(output, changes, console, anew=args.resume_reset)
        return _end(output, event, console, report=report, seconds=time.monotonic() - clock)


@contextmanager
def _way_on(output: Callable[[], str | None]) -> Iterator[None]:
    """A run that is stopped at once still says how to go on, once its folder is there."""
    try:
        yield
    except KeyboardInterrupt:
        folder = output()
        if folder and (Path(folder) / "config.yaml").is_file():
            print(f"go on with: rollwise resume {folder}", file=sys.stderr)
        raise


def _end(output: Path, event: dict[str, Any], console: Console, *, report: bool, seconds: float) -> int:
    """Ledger, report and exit status of a run that has ended."""
    from rollwise.report.events import read_run
    from rollwise.report.page import write_report
    from rollwise.report.summary import ledger_table

    lines = ["", *ledger_table(read_run(output)), f"  Took {duration(seconds)}.", ""]
    if report:
        write_report([output], output / "report.html")
        lines.append(f"report: {output / 'report.html'}")
    lines.append(f"model:  {output / 'checkpoints' / ('step_' + str(event['step'])) / 'model'}")
    if event["reason"] == "interrupt":
        lines.append(f"go on with: rollwise resume {output}")
    console.say(lines)
    if event["reason"] == "interrupt":
        return 130
    return 1 if event["reason"] in FAILED else 0
