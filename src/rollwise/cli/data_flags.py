"""Flags of the commands that look at data and judges: verify, check, data clean, data grade."""

from __future__ import annotations

import argparse
from typing import Any


def add(commands: Any) -> None:
    """Adds them to the subparsers of `rollwise`."""
    _verify(commands)
    _check(commands)
    data = commands.add_parser("data", help="curate a file of rows: clean, grade")
    verbs = data.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=type(data))
    _clean(verbs)
    _grade(verbs)


def _verify(commands: Any) -> None:
    verify = commands.add_parser("verify", help="score a file of completions, a verdict a line")
    verify.set_defaults(module="verifying", handler="verify")
    verify.add_argument("file", metavar="FILE.jsonl", help="lines with task, gold and completion; - is standard input")
    verify.add_argument("--output", metavar="F", help="file (default: standard output)")
    verify.add_argument("--workers", type=workers, default=1, help="lines judged at once (default 1)")
    verify.add_argument("--expect", action="store_true", help="compare with `want`; status 1 where one differs")


def _check(commands: Any) -> None:
    check = commands.add_parser("check", help="settings, data, golds, rewards and sandbox, before anything is spent")
    check.set_defaults(module="checking", handler="check", method=None, seed=None, threads=None, output=None)
    check.add_argument("recipe", nargs="?", metavar="RECIPE.yaml", help="settings of a run")
    check.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any setting, as for train")
    check.add_argument("--shared", action="store_true", help="as for train: settings of several methods")
    check.add_argument("--task", help="of the run; with --data alone: data, or the verifier of all rows")
    check.add_argument("--model", help="folder, hub name, or: starter; its tokenizer counts tokens")
    check.add_argument("--data", action="append", default=[], metavar="FILE", help="a file of rows; may be repeated")
    _map(check)
    check.add_argument("--rows", type=_positive, help="rows looked at of each side (default: all that are read)")
    check.add_argument("--prompts", type=_positive, default=16, help="prompts the attacks are put to (default 16)")
    check.add_argument("--json", action="store_true", help="print JSON, with every failing gold")


def _clean(verbs: Any) -> None:
    clean = verbs.add_parser("clean", help="drop rows by rules that are named in a report")
    clean.set_defaults(module="curating", handler="clean")
    clean.add_argument("file", metavar="FILE", help="JSONL, JSON, CSV, Parquet or Arrow")
    _map(clean)
    clean.add_argument("--kind", choices=("math", "code", "auto"), default="auto", help="which rules (default: by row)")
    clean.add_argument("--verifier", metavar="NAME", help="judges every gold (default: by the row's data set)")
    clean.add_argument("--output", required=True, metavar="OUT.jsonl", help="the rows that are kept")
    clean.add_argument("--report", required=True, metavar="REPORT.jsonl", help="what became of each row, and why")


def _grade(verbs: Any) -> None:
    grade = verbs.add_parser("grade", help="measure a model's pass rate on each row: easy, medium, hard")
    grade.set_defaults(module="grading", handler="grade")
    grade.add_argument("file", metavar="FILE", help="JSONL, JSON, CSV, Parquet or Arrow")
    grade.add_argument("--model", required=True, help="run folder, model folder, hub name, or: starter")
    grade.add_argument("--task", help="data, or the verifier of all rows (default: data; bundled: countdown)")
    _map(grade)
    grade.add_argument("--samples", type=_positive, default=8, help="completions per row (default 8)")
    grade.add_argument("--easy", type=_rate, default=0.75, help="easy above this pass rate (default 0.75)")
    grade.add_argument("--hard", type=_rate, default=0.25, help="hard below this pass rate (default 0.25)")
    grade.add_argument("--seed", type=int, default=0, help="of the samples (default 0)")
    grade.add_argument(
        "--seconds", type=_seconds, help="ask no further rows after so long; those get the reason (default: no limit)"
    )
    grade.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="sampling.temperature=0.6, ...")
    grade.add_argument("--output", required=True, metavar="OUT.jsonl", help="the rows with what was measured")


def _map(command: Any) -> None:
    command.add_argument(
        "--map", action="append", default=[], metavar="PART=COLUMN", help="a column by hand, as prompt=problem"
    )


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def workers(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 256:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 256")
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def _rate(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value
