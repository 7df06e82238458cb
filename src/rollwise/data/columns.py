"""Which column is the prompt, which the gold answer, and so on: chosen once for a file, by the columns' names.

Names are those of files prepared for TRL, verl, SkyRL, OpenRLHF, open-instruct, verifiers, AReaL, slime, ROLL and
NeMo Gym, and of the raw files of the usual data sets. Earlier names win. A dot goes into an object.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rollwise.data.rows import Row, is_empty
from rollwise.errors import UserError, nearest

PROMPT = (
    "prompt",
    "messages",
    "problem",
    "question",
    "input",
    "query",
    "instruction",
    "text",
    "content",
    "question_stem",
    "question_content",
    "description",
    "responses_create_params.input",
)
GOLD = (
    "reward_model.ground_truth",
    "reward_spec.ground_truth",
    "ground_truth",
    "answer",
    "final_answer",
    "expected_answer",
    "expected_result",
    "answerKey",
    "correct",
    "Correct Answer",
    "solution",
    "label",
    "gt",
    "target",
)
SOURCE = ("data_source", "env_class", "datasource", "metadata.rm_type", "dataset", "task", "tag")
IMAGES = ("images", "decoded_image", "image")
CHOICES = ("choices", "options")
PARTS = {"prompt": PROMPT, "gold": GOLD, "source": SOURCE, "images": IMAGES, "choices": CHOICES}
OPTIONAL = ("source", "images", "choices")

# Golds that stand beside each other as equals: where two of them differ, neither can be taken by its name alone.
RIVALS = ("ground_truth", "answer", "final_answer", "expected_answer", "solution")
NUMBERS = ("nums", "numbers")
COUNTDOWN = "+target"  # after the name of the numbers' column
LETTERS = ("A", "B", "C", "D")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The mapping of one source. `rivals` are gold columns not chosen that must not contradict the one that is."""

    prompt: str
    gold: str | None  # None: made of the row's tests
    source: str | None = None
    images: str | None = None
    choices: str | None = None
    rivals: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = {
            "prompt": self.prompt,
            "gold": self.gold or "the row's tests",
            "source": self.source,
            "images": self.images,
            "choices": self.choices,
        }
        return ", ".join(f"{part} <- {column}" for part, column in parts.items() if column)


def parse_map(pairs: Iterable[str]) -> dict[str, str]:
    """`["prompt=problem", "gold=answer"]` as the setting `map`; `images=` uses no column for the images. Raises
    UserError."""
    out: dict[str, str] = {}
    for pair in pairs:
        part, sign, column = pair.partition("=")
        if not sign:
            raise UserError(f"--map {pair}: give it as part=column, for example --map prompt=problem")
        out[part.strip()] = column.strip()
    checked_map(out, "--map ")
    return out


def checked_map(given: Mapping[str, str], where: str) -> None:
    """Raises UserError for a part there is not, or one that cannot be without a column."""
    for part, column in given.items():
        if part not in PARTS:
            raise UserError(f"{where}{part}: no such part of a row; {nearest(part, PARTS)}")
        if not column and part not in OPTIONAL:
            raise UserError(f"{where}{part}: names no column; only {', '.join(OPTIONAL)} can do without")


def cell(row: Row, column: str) -> Any:
    """The value in a column, by its whole name or into objects along the dots; None where there is none. An object
    may stand as JSON in a string."""
    if column in row:
        return row[column]
    value: Any = row
    for name in column.split("."):
        if isinstance(value, str) and value.lstrip().startswith("{"):
            value = _object(value)
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


@dataclass(slots=True)
class Census:
    """What the rows of a source hold: for each column the number of rows in which it is not empty."""

    rows: int
    filled: Counter[str]
    prompt_lists: int  # rows whose `prompt` is a list of messages
    coded: int  # rows with tests of a program before the first without; `rows` where all have

    def has(self, column: str) -> bool:
        return self.filled[column] > 0

    def first(self, names: Iterable[str]) -> str | None:
        """The first of these columns there is; of none, the first that differs from one by capitals only."""
        low = {name.lower(): name for name in sorted(self.filled) if self.has(name)}
        listed = list(names)
        exact = next((name for name in listed if self.has(name)), None)
        return exact or next((low[name.lower()] for name in listed if name.lower() in low), None)


NESTED = tuple(name for names in PARTS.values() for name in names if "." in name)


def census(rows: Iterable[Row], with_tests: Callable[[Row], bool]) -> Census:
    """One pass over the rows; `with_tests(row)` says whether a row holds tests."""
    out = Census(rows=0, filled=Counter(), prompt_lists=0, coded=0)
    for row in rows:
        out.coded += out.coded == out.rows and with_tests(row)
        out.rows += 1
        out.filled.update(name for name, value in row.items() if not is_empty(value) and not _verdict(name, value))
        out.filled.update(name for name in NESTED if name not in row and not is_empty(cell(row, name)))
        out.prompt_lists += not isinstance(row.get("prompt"), str | None)
    return out


def _verdict(name: str, value: Any) -> bool:
    """Whether a cell says that an answer was right, which is no answer."""
    return name == "correct" and isinstance(value, bool)


def choose(found: Census, given: Mapping[str, str], where: str, *, code: bool) -> Columns:
    """The mapping of a source; `given` overrides. `code`: no column need hold the gold. Raises UserError."""
    checked_map(given, "task_args.map.")
    for part, column in given.items():
        if column and part != "gold" and not found.has(column) and not found.has(column.split(".")[0]):
            raise UserError(f"{where}: task_args.map gives {part} <- {column}, and no row has it; {_has(found)}")
    prompt = given.get("prompt") or _prompt(found)
    if prompt is None:
        raise UserError(
            f"{where}: no column for the prompt ({', '.join(PROMPT[:8])} and the like); {_has(found)}; "
            "give task_args.map.prompt=COLUMN"
        )
    gold: str | None = given.get("gold")
    if gold is None and not code:
        gold = _gold(found, prompt)
        if gold is None:
            raise UserError(
                f"{where}: no column for the gold answer ({', '.join(GOLD[:6])} and the like); {_has(found)}; "
                "give task_args.map.gold=COLUMN"
            )
    elif gold is not None and not _present(found, gold):
        raise UserError(f"{where}: task_args.map gives gold <- {gold}, and no row has it; {_has(found)}")
    rivals: tuple[str, ...] = ()
    if gold is not None and gold.lower() in RIVALS and "gold" not in given:
        others = [found.first([c]) for c in RIVALS]
        rivals = tuple(c for c in others if c is not None and c not in (gold, prompt))
    optional = {part: given[part] or None if part in given else found.first(PARTS[part]) for part in OPTIONAL}
    if "choices" not in given and optional["choices"] is None:
        optional["choices"] = _spread_choices(found)
    return Columns(prompt=prompt, gold=gold, rivals=rivals, **optional)


def _present(found: Census, gold: str) -> bool:
    name = gold.removesuffix(COUNTDOWN)
    return found.has(name) or found.has(name.split(".")[0])


def _prompt(found: Census) -> str | None:
    """`messages` says who speaks, so it wins over a `prompt` of mere text; two columns of an Alpaca row are one."""
    if found.has("messages") and found.has("prompt") and not found.prompt_lists:
        return "messages"
    if found.has("instruction") and found.has("input") and not any(found.has(n) for n in PROMPT[:4]):
        return "instruction+input"
    numbers = found.first(NUMBERS)
    return found.first(PROMPT) or (numbers + COUNTDOWN if numbers and found.has("target") else None)


def _gold(found: Census, prompt: str) -> str | None:
    numbers = found.first(NUMBERS)
    if numbers and found.has("target") and not any(found.has(n) for n in GOLD[:3]):
        return numbers + COUNTDOWN
    return found.first([n for n in GOLD if n != prompt])


def _spread_choices(found: Census) -> str | None:
    if all(found.has(letter) for letter in LETTERS):
        return "A..D"
    return "Incorrect Answer 1..3" if found.has("Incorrect Answer 1") else None


def _has(found: Census) -> str:
    names = sorted(name for name in found.filled if "." not in name)
    shown = ", ".join(names[:12]) + (" and more" if len(names) > 12 else "")
    return f"it has {shown or 'nothing'}"
