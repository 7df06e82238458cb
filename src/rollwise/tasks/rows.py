"""Countdown rows of a user's file. A fault is one line: the file, the line, what is wrong, what is right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rollwise.data import Row, open_rows
from rollwise.data.columns import cell
from rollwise.errors import UserError
from rollwise.tasks.expressions import Problem
from rollwise.tasks.sources import is_held_out, none_held

EXAMPLE = 'a row is like {"nums": [3, 5, 7], "target": 26}'
MAX_NUMBERS, MAX_VALUE = 16, 10**12 - 1  # what the verifier's limits leave room for
STRUCTS = ("reward_model.ground_truth", "reward_spec.ground_truth", "ground_truth")  # where verl and SkyRL put them


def read_problems(file: str) -> list[Problem]:
    """All rows of a file, folder or hub name. Raises UserError."""
    rows = open_rows(file)
    return [_problem(row, rows.where(i)) for i, row in enumerate(rows)]


def _problem(row: Row, where: str) -> Problem:
    holder: Mapping[str, Any] = row
    if "nums" not in row and "numbers" not in row:
        holder = next((v for v in (cell(row, name) for name in STRUCTS) if isinstance(v, Mapping)), row)
    name = "nums" if "nums" in holder else "numbers"
    for needed in (name, "target"):
        if needed not in holder:
            shown = "'nums' (or 'numbers')" if needed == name else f"'{needed}'"
            raise UserError(f"{where}: no {shown}; {EXAMPLE}")
    numbers, target = holder[name], holder["target"]
    if not isinstance(numbers, list) or not 1 <= len(numbers) <= MAX_NUMBERS or not all(_whole(n, 0) for n in numbers):
        right = f"a list of 1 to {MAX_NUMBERS} whole numbers from 0 to {MAX_VALUE}"
        raise UserError(f"{where}: '{name}' is {_show(numbers)}; it must be {right}")
    if not _whole(target, -MAX_VALUE):
        raise UserError(f"{where}: 'target' is {_show(target)}; it must be a whole number")
    return Problem(tuple(numbers), target)


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
        raise UserError(f"{file}: {none_held(len(rows))}")
    if not train:
        raise UserError(f"{file}: every row is held out, none is left to train on; give more rows")
    return train, heldout, left_out
