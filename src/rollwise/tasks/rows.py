"""Countdown rows from a user's JSONL file. A fault is one line: the file, the line, what is wrong, what is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rollwise.errors import UserError
from rollwise.tasks.expressions import Problem
from rollwise.tasks.sources import is_held_out

EXAMPLE = 'a row is like {"nums": [3, 5, 7], "target": 26}'
MAX_NUMBERS, MAX_VALUE = 16, 10**12 - 1  # what the verifier's limits leave room for


def read_problems(file: str) -> list[Problem]:
    """All rows of a file; empty lines are passed over. Raises UserError."""
    path = Path(file)
    if path.exists() and not path.is_file():
        raise UserError(f"{file}: cannot be read (not a file); give a JSONL file, {EXAMPLE}")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UserError(f"{file}: cannot be read ({reason}); give a JSONL file, {EXAMPLE}") from None
    problems = [_problem(line, f"{file} line {i}") for i, line in enumerate(lines, 1) if line.strip()]
    if not problems:
        raise UserError(f"{file}: holds no rows; {EXAMPLE}")
    return problems


def _problem(line: str, where: str) -> Problem:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise UserError(f"{where}: not JSON; {EXAMPLE}") from None
    if not isinstance(row, dict):
        raise UserError(f"{where}: a {type(row).__name__} and not an object; {EXAMPLE}")
    name = "nums" if "nums" in row else "numbers"
    for needed in (name, "target"):
        if needed not in row:
            shown = "'nums' (or 'numbers')" if needed == name else f"'{needed}'"
            raise UserError(f"{where}: no {shown}; {EXAMPLE}")
    numbers = row[name]
    if not isinstance(numbers, list) or not 1 <= len(numbers) <= MAX_NUMBERS or not all(_whole(n, 0) for n in numbers):
        right = f"a list of 1 to {MAX_NUMBERS} whole numbers from 0 to {MAX_VALUE}"
        raise UserError(f"{where}: '{name}' is {_show(numbers)}; it must be {right}")
    if not _whole(row["target"], -MAX_VALUE):
        raise UserError(f"{where}: 'target' is {_show(row['target'])}; it must be a whole number")
    return Problem(tuple(numbers), row["target"])


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MAX_VALUE


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def split_rows(rows: list[Problem], file: str, heldout_file: str | None) -> tuple[list[Problem], list[Problem], int]:
    """Training rows, held-out rows, and how many training rows were left out because they are held out as well.

    Without a held-out file an eighth of the keys is held out, so that rearranged rows stay on one side.
    """
    if heldout_file is None:
        heldout = [p for p in rows if is_held_out(p.key)]
        train = [p for p in rows if not is_held_out(p.key)]
        left_out = 0
    else:
        heldout = read_problems(heldout_file)
        keys = {p.key for p in heldout}
        train = [p for p in rows if p.key not in keys]
        left_out = len(rows) - len(train)
    if not heldout:
        raise UserError(f"{file}: no row falls into the held-out eighth; give more rows or task_args.heldout_data")
    if not train:
        raise UserError(f"{file}: every row is held out, none is left to train on; give more rows")
    return train, heldout, left_out
