"""The gold answer of a row, in the form its verifier reads. A fault is a ValueError."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rollwise.data.asking import utf8
from rollwise.data.choices import letter_of
from rollwise.data.columns import COUNTDOWN, NUMBERS, Columns, cell
from rollwise.data.reduction import How, Reduced, plain_number, reduced, same
from rollwise.data.rows import Row, as_json, is_empty

# Members of a struct that hold the answer, as data prepared with verl writes it.
MEMBERS = ("target", "answer", "ground_truth", "solution_text_format", "value")
WORKED = ("math", "gsm8k", "geometry")  # verifiers whose gold may be the end of a worked solution


@dataclass(frozen=True, slots=True)
class Gold:
    answer: Any  # JSON
    how: How = "as it is"


def tests_of(row: Row) -> dict[str, Any] | None:
    """The tests of a program's row, or None. Raises ValueError where they must not be read."""
    from rollwise.verify.code_tests import tests_of as read

    return read(row)


def has_tests(row: Row) -> bool:
    """Whether the row is about a program; one whose tests are refused is."""
    try:
        return tests_of(row) is not None
    except ValueError:
        return True


def gold_of(row: Row, columns: Columns, verifier: str, options: Mapping[str, str]) -> Gold:
    """Raises ValueError where the row has no gold that `verifier` could read."""
    if verifier == "code":
        tests = tests_of(row)
        if tests is None:
            raise ValueError("no tests of a program")
        return Gold(tests)
    if verifier == "none":
        return Gold(as_json(cell(row, columns.gold)) if columns.gold else None)
    if verifier == "countdown":
        return Gold(_countdown(row, columns))
    value = raw_gold(row, columns)
    if is_empty(value):
        raise ValueError(f"no gold ({columns.gold or 'its column'} is {'null' if value is None else 'empty'})")
    if verifier == "choice":
        several = isinstance(value, list) and all(isinstance(v, str) for v in value)
        return Gold(_letter(", ".join(value) if several else value, options, row, columns))
    if isinstance(value, list):
        return Gold([_text(v) for v in value])
    if verifier == "exact":
        return Gold(_text(value))
    return _reduced(_text(value), columns, verifier)


def raw_gold(row: Row, columns: Columns) -> Any:
    """The gold's cell; of a struct the member that is the answer, of a list of one its item."""
    if columns.gold is None or columns.gold.endswith(COUNTDOWN):
        return None
    value = cell(row, columns.gold)
    if isinstance(value, Mapping):
        member = next((m for m in MEMBERS if not is_empty(value.get(m))), None)
        if member is None and not is_empty(value):
            raise ValueError(f"{columns.gold} is an object without {', '.join(MEMBERS[:3])}")
        value = value[member] if member else None
    while isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, bytes):
        return _decoded(value)
    return list(value) if isinstance(value, tuple) else value


def _decoded(value: bytes) -> str:
    """Text that a table holds as bytes. Raises ValueError where it is none."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("its gold is bytes that are no UTF-8 text") from None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, bytes):
        return _decoded(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        plain = as_json(value)
        return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return plain_number(value)


def _reduced(text: str, columns: Columns, verifier: str) -> Gold:
    found = reduced(text)
    worked = columns.gold is not None and (columns.gold == "solution" or "\n" in text.strip())
    if found.how == "prose" and worked and "\\begin" not in text and verifier in WORKED:
        raise ValueError(f"{columns.gold} ends in no final answer (no #### and no \\boxed)")
    return Gold(found.text, found.how)


def _letter(value: Any, options: Mapping[str, str], row: Row, columns: Columns) -> str:
    if not options:
        text = reduced(str(value)).text.strip("().: ")
        if len(text) == 1 and text.isalpha():
            return text.upper()
        raise ValueError(f"no options to choose from, and gold {str(value)[:30]!r} is no letter")
    letter = letter_of(value, options, row, columns)
    if letter is None and isinstance(value, str):
        letter = letter_of(reduced(value).text, options, row, columns)
    if letter is None:
        raise ValueError(f"gold {str(value)[:30]!r} is none of the options {', '.join(options)}")
    return letter


def _countdown(row: Row, columns: Columns) -> dict[str, Any]:
    """`{"numbers": [...], "target": int}` from a struct, or from columns of their own."""
    value = cell(row, columns.gold) if columns.gold and not columns.gold.endswith(COUNTDOWN) else None
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    holder: Mapping[str, Any] = value if isinstance(value, Mapping) and not is_empty(value) else row
    numbers = next((holder[n] for n in NUMBERS if not is_empty(holder.get(n))), None)
    if isinstance(numbers, str):
        try:
            numbers = json.loads(numbers)
        except (ValueError, RecursionError):
            numbers = None
    if is_empty(numbers) or is_empty(holder.get("target")):
        raise ValueError(f"no gold ({' or '.join(NUMBERS)}, and target)")
    if not isinstance(numbers, list):
        raise ValueError("the numbers are no list")
    return {"numbers": [_whole(n) for n in numbers], "target": _whole(holder["target"])}


def _whole(value: Any) -> int:
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal() and len(value) < 20:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{str(value)[:30]!r} is no whole number")
    return value


def contradiction(
    row: Row, columns: Columns, verifier: str, options: Mapping[str, str], gold: Gold
) -> tuple[str, str, str] | None:
    """A rival column whose final answer is another than the gold's, with both answers; None where there is none or it
    ends in none. A worked solution agrees by any of its boxes, since some hold several solutions."""
    for column in columns.rivals:
        value = cell(row, column)
        while isinstance(value, list) and len(value) == 1:
            value = value[0]
        if is_empty(value) or isinstance(value, list | dict):
            continue
        found = reduced(_text(value))
        if found.how == "prose":
            continue
        if verifier == "choice":
            letter = letter_of(found.text, options, row, columns)
            if letter is not None and letter != gold.answer:
                return column, str(gold.answer), letter
        elif isinstance(gold.answer, str) and verifier in (*WORKED, "exact") and not _agree(gold, found, verifier):
            return column, gold.answer, found.text
    return None


def _agree(gold: Gold, found: Reduced, verifier: str) -> bool:
    mine = (gold.answer, *reduced(gold.answer).others)
    theirs = (found.text, *found.others)
    if any(same(a, b) for a in mine for b in theirs):
        return True
    return verifier != "exact" and any(_equal_in_mathematics(gold.answer, b) for b in theirs)


def _equal_in_mathematics(one: str, two: str) -> bool:
    """By the verifier for mathematics, which is slower and knows more."""
    from rollwise.records import Prompt, VerdictKind
    from rollwise.verify.scoring import Completion
    from rollwise.verify.table import make_verifier

    asked = Completion(prompt=Prompt(uid="", text="", answer=one), text=f"\\boxed{{{two}}}")
    (verdict,) = make_verifier("math").judge([asked])
    return verdict.kind is VerdictKind.correct
