"""Mathematics: one final answer against a gold answer, by exact rules first and math-verify for the rest.

correct: the answer says what the gold says. wrong: it says something else, or an empty box. invalid: no final answer,
or one that breaks a limit, or runs the full parser into its deadline. infra_error: the gold cannot be judged by value
("gold: ..."), or the full parser is missing or failed. The rules, with an example of each: `docs/verifiers.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rollwise.config import key
from rollwise.errors import UserError, nearest, show
from rollwise.records import Verdict
from rollwise.verify import workers
from rollwise.verify.algebra import TooHard, TooLarge, Undefined
from rollwise.verify.equal import same
from rollwise.verify.exact import invalid, judged
from rollwise.verify.extract import final_answer, wordy
from rollwise.verify.latex import DEFAULT, HARD, Different, Limits, OverLimit, Refused, Unreadable, check, plain
from rollwise.verify.reader import Reading, readings
from rollwise.verify.scoring import Completion, infra_error
from rollwise.verify.spoken import NEGATIONS
from rollwise.verify.written import as_meant

MAX_GOLD = 1024  # characters
NOTE = f"{workers.MISSING}: answers that exact rules cannot tell will not be judged"
TOLD_APART = (
    re.compile(r"'|\\prime"),
    re.compile(r"(?:[fgh]|\\(?:sin|cos|tan|cot|sec|csc))\s*\^\s*\{?-1"),
    re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)[^=,]{0,40}\^\s*\{?\\circ"),
)
WORD = re.compile(r"[a-z]+")
DENYING = (NEGATIONS - {"is", "are", "was", "be", "none", "non"}) | {"maybe", "perhaps", "possibly"}
RELATION = re.compile(r"[=<>]|\\(?:le|ge|ne|leq|geq|neq|leqslant|geqslant|approx|equiv)(?![A-Za-z])")


@dataclass(frozen=True, slots=True)
class Gold:
    """A gold answer, read once. `error` says why it cannot be judged."""

    text: str = ""
    squeezed: str = ""
    readings: tuple[Reading, ...] = ()  # empty: only the full parser can read it
    limits: Limits = DEFAULT
    error: str = ""
    spelled: bool = False  # words change the value, as in `4 or more`: only the same spelling will do


@dataclass(frozen=True, slots=True, kw_only=True)
class MathSettings:
    deadline: float = key(2.0, "seconds that one answer may take math-verify; one that takes longer is invalid")


def read_settings(name: str, given: Mapping[str, Any] | None) -> MathSettings:
    """`given` over the defaults. Raises UserError: `<name>.<key>`, and what would be right."""
    for setting, value in (given or {}).items():
        if setting != "deadline":
            raise UserError(f"unknown key '{name}.{setting}'; {nearest(str(setting), ['deadline'])}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.1 <= value <= 600:
            raise UserError(f"{name}.deadline is {show(value)}; it must be a number of seconds from 0.1 to 600")
    return MathSettings(**(given or {}))


class Math:
    """Verifier `math`."""

    name = "math"

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        self.settings = read_settings(self.name, settings)
        self.notes: tuple[str, ...] = () if workers.installed() else (NOTE,)

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        out: list[Verdict | None] = []
        questions: list[tuple[int, str, str]] = []
        for place, c in enumerate(completions):
            try:
                verdict = self.cheap(c)
            except Exception as error:  # a verifier that fails says nothing of the answer
                verdict = infra_error(f"{type(error).__name__}: {error}")
            if isinstance(verdict, Verdict):
                out.append(verdict)
            else:
                out.append(None)
                questions.append((place, *verdict))
        if questions:
            answers = workers.ask([(gold, answer) for _, gold, answer in questions], deadline=self.settings.deadline)
            for (place, _, _), found in zip(questions, answers, strict=True):
                out[place] = _full_verdict(found)
        return [v for v in out if v is not None]

    def cheap(self, c: Completion) -> Verdict | tuple[str, str]:
        """The verdict, or the pair that the full parser must be asked about."""
        gold = read_gold(c.prompt.answer)
        if gold.error:
            return infra_error(f"gold: {gold.error}")
        found = final_answer(c.text, c.stop)
        if found.void:
            return judged(False, found.reason)
        if found.text is None:
            return invalid(found.reason)
        return compare(gold, found.text)

    def restated(self, completion: Completion) -> str | None:
        gold = read_gold(completion.prompt.answer)
        return None if gold.error else f"\\boxed{{{gold.text}}}"


def compare(gold: Gold, answer: str) -> Verdict | tuple[str, str]:
    """The verdict on an answer's text, or the pair for the full parser."""
    if len(answer) > max(gold.limits.characters, len(gold.text)):
        return invalid(f"over {gold.limits.characters} characters")
    text = plain(answer)
    if not text:
        return invalid("no final answer")
    if squeeze(text) == gold.squeezed:
        return judged(True, "")
    if gold.spelled:
        return judged(squeeze(text).casefold() == gold.squeezed.casefold(), f"not {gold.text[:80]}")
    try:
        check(text, gold.limits)
        meant = as_meant(text, gold.readings, gold.limits)
        found = same(gold.readings, readings(meant, gold.limits)) if gold.readings else None
    except Different as error:
        return judged(False, str(error))
    except (OverLimit, TooLarge, Undefined, Refused) as error:
        return invalid(str(error))
    except (Unreadable, TooHard):
        found = None
    if found is None and "__" in text:
        return invalid("not an answer")
    if found is None and _unlike(gold.text, text):
        return judged(False, "another kind of answer")
    if found is None:
        return gold.text, text
    return judged(found, f"not {gold.text[:80]}")


def _unlike(gold: str, answer: str) -> bool:
    """What math-verify would let pass: a set for a tuple, a chain of relations or `5=...` for a value, f' for f, f^{-1}
    for 1/f, degrees in a function for radians, a denial."""
    if {gold[:1], answer[:1]} == {"(", "\\"} and "\\{" in (gold[:2], answer[:2]):
        return True
    if any(bool(sign.search(gold)) != bool(sign.search(answer)) for sign in TOLD_APART):
        return True
    if (set(WORD.findall(answer.lower())) - set(WORD.findall(gold.lower()))) & DENYING:
        return True
    left, *others = RELATION.split(answer)
    wanted = len(RELATION.findall(gold))
    return len(others) > max(1, wanted) or (len(others) == 1 and wanted == 0 and any(c.isdigit() for c in left))


def read_gold(answer: Any) -> Gold:
    """The gold answer of a row, in any of the shapes public data has."""
    if isinstance(answer, list | tuple) and len(answer) == 1:
        answer = answer[0]
    if answer is None or isinstance(answer, bool) or not isinstance(answer, str | int | float):
        return Gold(error=f"a {type(answer).__name__}, not an answer" if answer is not None else "none")
    return _read_gold(number_text(answer) if not isinstance(answer, str) else answer)


def number_text(value: int | float) -> str:
    """A JSON number as people write it: 27.0 is 27."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


@lru_cache(maxsize=16_384)
def _read_gold(answer: str) -> Gold:
    text = answer.strip()
    if len(text) <= 65_536 and "\\boxed" in text:  # a worked solution
        found = final_answer(text, solution=True)
        if not found.text:
            return Gold(error=found.reason or "an empty box")
        text = found.text
    text = plain(text)
    if not text:
        return Gold(error="empty")
    if len(text) > MAX_GOLD:
        return Gold(error=f"over {MAX_GOLD} characters")
    if wordy(text):
        return Gold(error="prose, which cannot be judged by value")
    limits = _limits_for(text)
    try:
        check(text, limits)
        found_readings = tuple(readings(text, limits))
    except (OverLimit, TooLarge, Undefined) as error:
        return Gold(error=str(error))
    except Different:
        return Gold(text, squeeze(text), limits=limits, spelled=True)
    except (Unreadable, TooHard):
        found_readings = ()
    return Gold(text, squeeze(text), found_readings, limits)


def _limits_for(text: str) -> Limits:
    try:
        check(text, DEFAULT)
        return DEFAULT
    except OverLimit:
        return HARD


def squeeze(text: str) -> str:
    """A spelling for comparing texts: without blanks, style commands and braces that change nothing."""
    for old, new in (
        ("\\dfrac", "\\frac"), ("\\tfrac", "\\frac"), ("\\left", ""), ("\\right", ""), ("\\!", ""), ("\\,", ""),
        ("\\leqslant", "\\le"), ("\\geqslant", "\\ge"), ("\\leq", "\\le"), ("\\geq", "\\ge"), ("\\$", ""), ("$", ""),
    ):  # fmt: skip
        text = text.replace(old, new)
    words = text.split()
    out = words[:1]
    for word in words[1:]:  # "5 4" is not 54
        out.append(f" {word}" if out[-1][-1:].isdigit() and word[0].isdigit() else word)
    return "".join(out)


def _full_verdict(found: workers.Answer) -> Verdict:
    if found.kind == "said":
        return judged(found.same, "math-verify finds it different")
    if found.kind == "gold":
        return infra_error(f"gold: cannot be read ({found.detail})")
    if found.kind == "unread":
        return invalid(f"cannot be read ({found.detail})")
    return invalid(found.detail) if found.kind == "slow" else infra_error(found.detail)
