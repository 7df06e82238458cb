"""Answers to pick from, in the shapes they are published in, and the letter of the right one.

["red", "blue"]   ["A) red", "B) blue"]   [{"A": "red"}, {"B": "blue"}]   {"A": "red", "B": "blue"}
{"text": ["red", "blue"], "label": ["A", "B"]}   columns A, B, C, D   Correct Answer, Incorrect Answer 1, 2, 3
"""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from rollwise.data.columns import LETTERS, Columns, cell
from rollwise.data.rows import Row, is_empty

NAMES = string.ascii_uppercase
SEPARATORS = re.compile(r"[\s,;&/]")


def options_of(row: Row, columns: Columns) -> dict[str, str]:
    """The options by letter, in order; empty where the row has none. Raises ValueError for a shape that is none."""
    if columns.choices == "A..D":
        return {k: str(row[k]) for k in takewhile(lambda letter: not is_empty(row.get(letter)), NAMES)}
    if columns.choices is not None and columns.choices.startswith("Incorrect Answer"):
        return _shuffled(row)
    value = cell(row, columns.choices) if columns.choices else None
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError(f"{columns.choices} is text and no JSON list") from None
    if value is None or (isinstance(value, list | dict) and not value):
        return {}
    named = _named(value)
    if named is None or len(named) > len(NAMES):
        raise ValueError(f"{columns.choices} is no list of 1 to {len(NAMES)} options")
    return named


def _named(value: Any) -> dict[str, str] | None:
    if isinstance(value, Mapping):
        if isinstance(value.get("text"), list) and isinstance(value.get("label"), list):
            return _lettered([str(t) for t in value["text"]])
        return {str(k): str(v) for k, v in value.items() if v is not None}
    if not isinstance(value, list):
        return None
    if all(isinstance(v, Mapping) for v in value):
        pairs = [(str(k), str(t)) for v in value for k, t in v.items() if t is not None]
        if all({"text", "label"} <= v.keys() for v in value):
            return _lettered([str(v["text"]) for v in value])
        return dict(pairs) if len(pairs) == len(value) else None
    return _lettered([str(v) for v in value])


def _lettered(texts: list[str]) -> dict[str, str] | None:
    """Options in order; a letter that each of them begins with is taken off."""
    if len(texts) > len(NAMES):
        return None
    if all(t[:1] == NAMES[i] and t[1:2] in (")", ".", ":") for i, t in enumerate(texts)):
        texts = [t[2:].strip() for t in texts]
    elif all(t[:3] == f"({NAMES[i]})" for i, t in enumerate(texts)):
        texts = [t[3:].strip() for t in texts]
    return {NAMES[i]: t for i, t in enumerate(texts)}


def _shuffled(row: Row) -> dict[str, str]:
    """GPQA (arXiv 2311.12022) names the right answer; its place is drawn from the row's own text."""
    wrong = [row[k] for k in (f"Incorrect Answer {i}" for i in range(1, 10)) if not is_empty(row.get(k))]
    texts = [str(t).strip() for t in [row.get("Correct Answer"), *wrong] if not is_empty(t)]
    salt = "\n".join(texts).encode("utf-8", "replace")
    order = sorted(texts, key=lambda t: hashlib.blake2b(t.encode("utf-8", "replace") + salt).digest())
    return _lettered(order) or {}


def letter_of(gold: Any, options: Mapping[str, str], row: Row, columns: Columns) -> str | None:
    """The letter of the right option: `gold` is that letter (or several), its place from 0, the option's text, or a
    label of ARC (1, 2, ...). None where it is none of these."""
    if not options:
        return None
    letters = list(options)
    if isinstance(gold, bool):
        return None
    if isinstance(gold, int):
        return letters[gold] if 0 <= gold < len(letters) else None
    text = str(gold).strip()
    bare = text.strip("().: ")
    if bare.upper() in options:
        return bare.upper()
    labels = _labels(row, columns)
    if bare in labels:
        return letters[labels.index(bare)]
    matching = [letter for letter, option in options.items() if option.strip() == text]
    if len(matching) == 1:
        return matching[0]
    several = [part.strip("()") for part in SEPARATORS.split(bare) if part]
    if len(several) > 1 and all(part in options for part in several):
        return ", ".join(several)
    if bare.isascii() and bare.isdigit() and not labels and int(bare) < len(letters) and columns.choices != "A..D":
        return letters[int(bare)]
    return None


def _labels(row: Row, columns: Columns) -> list[str]:
    value = cell(row, columns.choices) if columns.choices else None
    if isinstance(value, Mapping) and isinstance(value.get("label"), list):
        return [str(label) for label in value["label"]]
    return []


def spread_columns(columns: Columns) -> set[str]:
    """The columns that hold the options."""
    if columns.choices == "A..D":
        return set(NAMES[: len(LETTERS) + 6])
    if columns.choices is not None and columns.choices.startswith("Incorrect Answer"):
        return {"Correct Answer", *(f"Incorrect Answer {i}" for i in range(1, 10))}
    return {columns.choices} if columns.choices else set()
