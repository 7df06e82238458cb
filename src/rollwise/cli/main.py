"""Commands and their flags. Imports nothing heavy: help, checks and errors answer at once.

Exit status: 0 done, 1 the run failed, 2 something the user can put right (one line says what), 130 interrupted.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from rollwise import __version__
from rollwise.cli import data_flags
from rollwise.errors import UserError


class _Parser(argparse.ArgumentParser):
    """Errors as one line, like every other."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As ever; what is left over is quoted, so that a value with blanks in it is one."""
        found, extra = self.parse_known_args(args, namespace)
        if extra:
            self.error(f"unrecognized arguments: {shlex.join(extra)}")
        return found

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see `{self.prog} --help`)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    try:
        args = parser().parse_args(argv)
        handler = getattr(import_module(f"rollwise.cli.{args.module}"), args.handler)
        return int(handler(args))
    except UserError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        print("rollwise: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except OSError as error:  # a full disk, a path too long: the system's own words
        where = f"{error.filename}: " if error.filename else ""
        return _refuse(f"{where}{error.strerror or error}")


def _refuse(text: str) -> int:
    """One line, whatever a path or a value in it holds."""
    line = " ".join(text.split()).encode("utf-8", "backslashreplace").decode("utf-8")
    print(f"rollwise: error: {line}", file=sys.stderr)
    return 2


def parser() -> argparse.ArgumentParser:
    top = _Parser(
        prog="rollwise",
        description="RLVR post-training that spends every rollout where it can still teach something.",
    )
    top.add_argument("--version", action="version", version=f"rollwise {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)

    train = commands.add_parser("train", help="train a model; without a recipe: POPO on the bundled sort_digits model")
    train.set_defaults(module="training", handler="train")
    train.add_argument("recipe", nargs="?", metavar="RECIPE.yaml", help="settings of the run")
    _settings(train)
    train.add_argument(
        "--data",
        action="append",
        default=[],
        dest="train_data",
        metavar="DATA",
        help="short for --set task_args.data=...; the task is then `data`, unless one is named",
    )
    train.add_argument(
        "--map",
        action="append",
        default=[],
        dest="train_map",
        metavar="PART=COLUMN",
        help="short for --set task_args.map.PART=COLUMN: a column by hand, as prompt=problem",
    )
    train.add_argument("--backend", choices=["local", "verl"], help="what trains: this process, or verl's cluster")
    train.add_argument(
        "--print-verl-config", action="store_true", help="print the settings verl would be started with, and end"
    )
    train.add_argument("--quiet", action="store_true", help="no progress, no summary")
    train.add_argument(
        "--shared",
        action="store_true",
        help="the settings are shared by several methods: those that this one does not read are no mistake",
    )

    resume = commands.add_parser("resume", help="continue a run from its newest whole checkpoint")
    resume.set_defaults(module="training", handler="resume")
    resume.add_argument("run", metavar="RUN", help="folder of the run")
    resume.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a larger budget, for example")
    resume.add_argument(
        "--resume-reset",
        action="extend",
        type=lambda text: [name for name in text.split(",") if name],
        default=[],
        metavar="PART,...",
        help="parts that begin anew, whose settings may then change: optimizer, replay, curriculum, allocation; "
        "and objective, which has no memory but settings",
    )
    resume.add_argument("--quiet", action="store_true", help="no progress, no summary")

    evaluate = commands.add_parser("eval", help="score a model on held-out prompts: greedy, avg@n, unbiased pass@k")
    evaluate.set_defaults(module="evaluating", handler="evaluate")
    evaluate.add_argument("model", metavar="MODEL", help="run folder, model folder, hub name, or: starter")
    evaluate.add_argument("--task", help="default: the run's own, else sort_digits")
    evaluate.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="[NAME=]DATA",
        help="benchmark: file, folder or hub name (owner/name:config@split); may be given again",
    )
    evaluate.add_argument("--map", action="append", default=[], metavar="PART=COLUMN", help="columns of --data")
    evaluate.add_argument(
        "--verifier",
        action="append",
        default=[],
        metavar="[NAME=]VERIFIER",
        help="judges the rows of --data, all or those of NAME (default: the one that the rows name)",
    )
    evaluate.add_argument("--template", choices=["auto", "instruct", "base", "none"], help="of --data (default auto)")
    evaluate.add_argument("--prompts", type=_positive, help="at most so many (default: 1000 held out, all of --data)")
    evaluate.add_argument("--samples", type=_positive, default=8, help="completions per prompt (default 8)")
    evaluate.add_argument("--temperature", type=_temperature, default=1.0, help="of the samples (default 1)")
    evaluate.add_argument("--top-p", type=_share, default=1.0, help="nucleus mass of the samples (default 1)")
    evaluate.add_argument("--seed", type=int, default=0, help="of the samples (default 0)")
    evaluate.add_argument("--no-greedy", action="store_true", help="leave the greedy pass out")
    evaluate.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any other setting; task_args.bad_rows=skip and the like are for --data where it is given",
    )
    evaluate.add_argument("--json", action="store_true", help="print JSON")
    evaluate.add_argument("--output", metavar="FILE.json", help="write the results, prompt by prompt")
    evaluate.add_argument("--baseline", metavar="FILE.json", help="compare with results of --output: differences, AES")
    evaluate.add_argument(
        "--aes",
        type=_constants,
        default=(1.0, 3.0, 5.0),
        metavar="A,B,C",
        help="weights of AES: length, gain and loss of accuracy (default 1,3,5)",
    )

    compare = commands.add_parser("compare", help="methods x seeds at an equal budget, with intervals")
    compare.set_defaults(module="comparing", handler="compare")
    compare.add_argument("recipe", nargs="?", metavar="RECIPE.yaml", help="settings shared by all runs")
    compare.add_argument("--methods", required=True, help="names, with commas; the first is the reference")
    compare.add_argument("--seeds", default="3", help="how many (3: seeds 0, 1, 2), or a list such as 10,11,12 or 10,")
    compare.add_argument("--rollouts", type=_positive, required=True, help="budget of each run")
    compare.add_argument(
        "--more",
        action="append",
        default=[],
        metavar="METHOD=FACTOR",
        help="run a method on to FACTOR x the budget too",
    )
    compare.add_argument("--targets", help="accuracies, with commas; default: from the data")
    compare.add_argument("--jobs", type=_positive, help="runs at once (default: one per core)")
    compare.add_argument("--task", help="short for --set task=...")
    compare.add_argument("--model", help="short for --set model=...")
    compare.add_argument("--output", default="runs/compare", help="folder (default runs/compare)")
    compare.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting shared by all runs")

    report = commands.add_parser("report", help="one self-contained HTML page of one or more runs")
    report.set_defaults(module="reporting", handler="report")
    report.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    report.add_argument("--output", help="file (default: report.html in the first run)")

    data_flags.add(commands)

    methods = commands.add_parser("methods", help="all methods, with their papers, parts and differences")
    methods.set_defaults(module="listing", handler="methods")
    methods.add_argument("name", nargs="*", help="methods to show in full, with their settings")
    methods.add_argument("--json", action="store_true", help="print JSON")

    keys = commands.add_parser("keys", help="every setting: type, default, bounds, what it does, other names for it")
    keys.set_defaults(module="listing", handler="keys")
    keys.add_argument("prefix", nargs="?", default="", help="a key, or a section such as replay")
    keys.add_argument("--json", action="store_true", help="print JSON")
    return top


def _settings(command: argparse.ArgumentParser) -> None:
    for flag, note in (
        ("method", "see `rollwise methods`"),
        ("task", "sort_digits, chain_sum, countdown, geometry; rows: data, math, gsm8k, choice, exact, code"),
        ("model", "folder, hub name, or: starter"),
        ("seed", "default 0"),
        ("threads", "default 1"),
        ("output", "run folder"),
    ):
        command.add_argument(f"--{flag}", help=note)
    command.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any setting, for example learner.lr=1e-5"
    )


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def _constants(text: str) -> tuple[float, ...]:
    values = tuple(float(part) for part in text.split(","))
    if len(values) != 3 or not all(0 <= v < float("inf") for v in values):
        raise argparse.ArgumentTypeError(f"{text} is not three numbers of at least 0, with commas")
    return values


def _temperature(text: str) -> float:
    value = float(text)
    if value != 0 and not 1e-3 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not 0 (greedy) or at least 0.001")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most 1")
    return value
