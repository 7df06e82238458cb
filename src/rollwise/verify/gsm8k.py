"""GSM8K: one number. `#### 18`, as the data writes it; otherwise as models write it.

The answer is, in this order: the last box; what follows the last `####`, "answer is", "Answer:" or "A:" on its line;
the last number of a text that ended by itself. A marked line must hold one number (`#### $1,000.` does, with units
beside it), so that `#### 17 or 18` is wrong. A percent sign is a unit. The gold may be the whole worked solution.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from rollwise.records import StopReason, Verdict
from rollwise.verify.exact import invalid, judged
from rollwise.verify.extract import WINDOW, final_answer
from rollwise.verify.latex import DEFAULT, TABLE
from rollwise.verify.mathematics import compare, number_text, read_gold
from rollwise.verify.scoring import Completion, infra_error, one_by_one

MARKS = ("####", "answer is", "answer:", "answer :", "answer**:", "answer:**", "\na:")
NUMBER = re.compile(r"[-−]?[$£€]?[0-9][0-9,]*(?:\.[0-9]+)?|[-−]?[$£€]?\.[0-9]+")


class Gsm8k:
    """Verifier `gsm8k`."""

    name = "gsm8k"

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        return one_by_one(_verdict, completions)

    def restated(self, completion: Completion) -> str | None:
        gold = gold_text(completion.prompt.answer)
        return None if gold is None or _number(gold) is None else f"#### {gold}"


def gold_text(answer: object) -> str | None:
    """The gold number as text: behind the last `####` or `A:` of a worked solution, or the answer as it stands."""
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        return None
    if not isinstance(answer, str):
        return number_text(answer)
    for mark in ("####", "\nA:"):
        if mark in answer:
            answer = answer[answer.rindex(mark) + len(mark) :]
    return answer.strip()


def _verdict(text: str, answer: object, stop: StopReason) -> Verdict:
    gold = gold_text(answer)
    want = None if gold is None else _number(gold)
    if gold is None or want is None:
        return infra_error(f"gold: {str(answer)[-60:]!r} is not a number")
    found = final_answer(text, stop, MARKS)
    if found.empty:
        return judged(False, "empty box")
    if found.text is None:
        last = _last_number(text, stop) if found.reason == "no final answer" else None
        return invalid(found.reason) if last is None else _judged(last, want)
    if len(found.text) > DEFAULT.characters:
        return invalid(f"over {DEFAULT.characters} characters")
    given = _number(found.text)
    if given is not None:
        return _judged(given, want)
    verdict = compare(read_gold(gold), found.text)  # LaTeX, as in \frac{1}{2} or 18 \text{ dollars}
    return verdict if isinstance(verdict, Verdict) else judged(False, "not one number")


def _judged(given: Fraction | str, want: Fraction | str) -> Verdict:
    if isinstance(given, str):
        return invalid(given)
    return judged(given == want, f"not {want}")


def _number(text: str) -> Fraction | str | None:
    """The only number of a line, None for none or several, or the limit that it breaks."""
    line = text.translate(TABLE).replace("\\$", "$").replace("\\!", "").replace("{,}", ",").strip()
    if "\\frac" in line or "/" in line or "^" in line or "\\sqrt" in line:
        return None
    found = NUMBER.findall(line)
    return _value(found[0]) if len(found) == 1 else None


def _value(written: str) -> Fraction | str | None:
    digits = written.replace("−", "-").translate(str.maketrans("", "", "$£€,"))
    if len(digits) > DEFAULT.digits:
        return f"over {DEFAULT.digits} digits in a number"
    try:
        return Fraction(digits)
    except ValueError:
        return None


def _last_number(text: str, stop: StopReason) -> Fraction | str | None:
    if stop is StopReason.length:
        return None
    found = NUMBER.findall(text[-WINDOW:].rpartition("</think>")[2])
    return _value(found[-1]) if found else None
