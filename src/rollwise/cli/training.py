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
from rollwise.config import RunConfig
from rollwise.console import Console, open_console
from rollwise.errors import UserError
from rollwise.report.wording import duration

FAILED = {"non_finite"}  # stop reasons that are no success


def train(args: Namespace) -> int:
    settings = config(args)
    if args.print_verl_config:
        from rollwise.backends.verl.launch import shown

        settings.backend = "verl"
        print("\n".join(shown(settings)))
        return 0
    if settings.backend == "verl":
        return _on_verl(args, settings)
    from rollwise import run

    with _way_on(lambda: settings.output), open_console(args.quiet) as console:
        clock = time.monotonic()
        output, event = run.start(settings, console)
        return _end(output, event, console, report=settings.log.report, seconds=time.monotonic() - clock)


def _on_verl(args: Namespace, settings: RunConfig) -> int:
    from rollwise.backends.verl import launch

    with _way_on(lambda: settings.output), open_console(args.quiet) as console:
        clock = time.monotonic()
        try:
            output, event = launch.start(settings, console, quiet=args.quiet)
        except launch.Died as died:
            return _failed(died)
        return _end(output, event, console, report=settings.log.report, seconds=time.monotonic() - clock)


def _failed(died: Exception) -> int:
    print(f"rollwise: {died}", file=sys.stderr)
    return 1


def resume(args: Namespace) -> int:
    from rollwise import run
    from rollwise.config import build, expand_aliases, merge
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
        if run.stored_config(output).backend == "verl":
            from rollwise.backends.verl import launch

            if args.resume_reset:
                raise UserError("--resume-reset: is not for runs on verl, whose parts go on; leave it out")
            try:
                event = launch.resume(output, changes, console, quiet=args.quiet)
            except launch.Died as died:
                return _failed(died)
        else:
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


def _weights(output: Path, step: int) -> str:
    """Where the model of the last step is: a folder of its own, or verl's shards; or that there is none."""
    shards = output / "checkpoints" / f"global_step_{step}" / "actor"
    if shards.is_dir():
        return f"shards: {shards} (a model folder of them: docs/scale.md)"
    model = output / "checkpoints" / f"step_{step}" / "model"
    return f"model:  {model}" if model.is_dir() else f"model:  none of step {step}; those of before are in {output}"


def _end(output: Path, event: dict[str, Any], console: Console, *, report: bool, seconds: float) -> int:
    """Ledger, report and exit status of a run that has ended."""
    from rollwise.report.events import read_run
    from rollwise.report.page import write_report
    from rollwise.report.summary import ledger_table

    lines = ["", *ledger_table(read_run(output)), f"  Took {duration(seconds)}.", ""]
    page = output / "report.html"
    if report and page.exists() and not page.is_file():  # a pipe would be waited for
        lines.append(f"report: none, {page} is no file")
    elif report:
        write_report([output], page)
        lines.append(f"report: {page}")
    lines.append(_weights(output, event["step"]))
    if event["reason"] == "interrupt":
        lines.append(f"go on with: rollwise resume {output}")
    console.say(lines)
    if event["reason"] == "interrupt":
        return 130
    return 1 if event["reason"] in FAILED else 0
