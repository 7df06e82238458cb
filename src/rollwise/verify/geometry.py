"""Geometry with figures (Geometry3K, MATH-Vision): a value or a letter, judged as mathematics.

A gold letter with `choices` (or `options`) in the row accepts the letter and the value of that choice, and a gold value
that is one of the choices accepts its letter. Degrees are a unit. Values are exact; only where the row holds
`meta["tolerance"]` (absolute) may a number differ from the gold, by that much.
"""

from __future__ import annotations

from typing import Any

from rollwise.records import Verdict
from rollwise.verify import algebra
from rollwise.verify.choice import LETTERS, letters, options_of
from rollwise.verify.equal import same
from rollwise.verify.exact import invalid, judged
from rollwise.verify.extract import final_answer
from rollwise.verify.latex import OverLimit, Unreadable, check, plain
from rollwise.verify.mathematics import Gold, Math, compare, number_text, read_gold
from rollwise.verify.reader import Scalar, readings
from rollwise.verify.scoring import Completion, infra_error


class Geometry(Math):
    """Verifier `geometry`."""

    name = "geometry"

    def cheap(self, c: Completion) -> Verdict | tuple[str, str]:
        gold, letter = gold_of(c)
        if gold.error:
            return infra_error(f"gold: {gold.error}")
        found = final_answer(c.text, c.stop)
        if found.void:
            return judged(False, found.reason)
        if found.text is None:
            return invalid(found.reason)
        if letter and len(found.text) <= gold.limits.characters:
            named = letters(found.text, options_of(c.prompt.meta))
            if named is not None:
                return judged(named == {letter}, f"not {letter}")
        verdict = compare(gold, found.text)
        tolerance = c.prompt.meta.get("tolerance")
        if tolerance is not None and not (isinstance(verdict, Verdict) and verdict.kind == "correct"):
            return _near(gold, found.text, tolerance) or verdict
        return verdict

    def restated(self, completion: Completion) -> str | None:
        gold, _ = gold_of(completion)
        return None if gold.error else f"\\boxed{{{gold.text}}}"


def gold_of(c: Completion) -> tuple[Gold, str]:
    """The gold value, and the letter of the choice that has it ("" without choices)."""
    options = options_of(c.prompt.meta)
    answer: Any = c.prompt.answer
    if options and isinstance(answer, str) and answer.strip("() .").upper() in options:
        letter = answer.strip("() .").upper()
        value = options[letter]
        return (read_gold(letter) if value.strip() in ("", *LETTERS) else read_gold(value)), letter
    gold = read_gold(answer)
    if not options or gold.error or not gold.readings:
        return gold, ""
    return gold, next((k for k, v in options.items() if _is(gold, v)), "")


def _is(gold: Gold, value: str) -> bool:
    option = read_gold(value)
    return bool(option.readings) and same(gold.readings, option.readings) is True


def _near(gold: Gold, answer: str, tolerance: Any) -> Verdict | None:
    """The verdict where both are plain numbers; None where they are not."""
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not tolerance >= 0:
        return infra_error(f"gold: tolerance {number_text(tolerance) if isinstance(tolerance, int | float) else '?'}")
    try:
        text = plain(answer)
        check(text, gold.limits)
        pairs = [(g, a) for g in gold.readings for a in readings(text, gold.limits)]
        for g, a in pairs:
            if isinstance(g.forms[0], Scalar) and isinstance(a.forms[0], Scalar):
                want, given = algebra.approximate(g.forms[0].value), algebra.approximate(a.forms[0].value)
                if want is not None and given is not None and abs(want - given) <= tolerance:
                    return judged(True, "")
    except (OverLimit, Unreadable, algebra.TooHard, algebra.TooLarge, algebra.Undefined):
        return None
    return None
