"""GSM8K: one number. `#### 18`, as the data writes it; otherwise as models write it.

The answer is, in this order: the last box; what follows the last `####`, "answer is", "Answer:" or "A:" on its line;
the last number of a text that ended by itself. A marked line must be one number, with a sign, a currency and a unit of
up to three words at most: `#### $1,000.` does; `#### 17 or 18`, `#### not 18` and `#### 1,8` do not. Every dash is a
minus, a percent sign is a unit, "18 million" is 18000000. The gold may be the whole worked solution.
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
from rollwise.verify.spoken import DASHES, MULTIPLIERS, changing

MARKS = ("####", "answer is", "answer:", "answer :", "answer**:", "answer:**", "final answer**", "\na:")
DIGITS = r"[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+"
SIGNED = r"(?P<sign>[-+]?)\s*(?P<money>[$£€]?)\s*(?P<inner>-?)\s*"
LINE = re.compile(SIGNED + f"(?P<digits>{DIGITS})(?![0-9]|,[0-9])(?P<rest>.*)", re.DOTALL)
UNIT = re.compile(
    r"\s*(?:%|\\%|°|[$£€¢])?(?:/[a-z]{1,6})?"
    r"(?:(?:\sa)?[\s-]*[A-Za-z]{2,}(?:/[A-Za-z]{1,6})?){0,3}\s*(?:[$£€])?"
)
FOUND = re.compile(f"(?<![0-9])(?:{DIGITS})")
BOLD = re.compile(r"(?<![0-9A-Za-z)])\*\*([^*]+)\*\*(?![0-9A-Za-z(])")
BEFORE = re.compile(r"([A-Za-z']+)[\s:]*$")
BEHIND = re.compile(r"\s*([A-Za-z]+)")
ALL_DASHES = str.maketrans(dict.fromkeys(DASHES, "-"))
INVISIBLE = str.maketrans(dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad"))


class Gsm8k:
    """Verifier `gsm8k`."""

    name = "gsm8k"

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        return one_by_one(_verdict, completions)

    def restated(self, completion: Completion) -> str | None:
        gold = gold_text(completion.prompt.answer)
        return None if gold is None or not isinstance(_number(gold), Fraction) else f"#### {gold}"


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
    if isinstance(want, str):
        return infra_error(f"gold: {want}")
    found = final_answer(text, stop, MARKS)
    if found.void:
        return judged(False, found.reason)
    if found.text is None:
        last = _last_number(text, stop) if found.reason == "no final answer" else None
        return invalid(found.reason) if last is None else _judged(last, want)
    if len(found.text) > DEFAULT.characters:
        return invalid(f"over {DEFAULT.characters} characters")
    given = _number(found.text)
    if given is None and not found.line and not found.boxed and len(FOUND.findall(found.text)) == 1:
        given = _last_number(found.text, stop)  # a short line without any mark: I have 18
    if given is not None:
        return _judged(given, want)
    if found.text.lstrip("$ ")[:1] in ("~", "≈") or not any(c.isdigit() for c in found.text):
        return judged(False, "not one number")
    verdict = compare(read_gold(gold), found.text)  # LaTeX, as in \frac{1}{2} or 18 \text{ dollars}
    return verdict if isinstance(verdict, Verdict) and ":" not in found.text else judged(False, "not one number")


def _judged(given: Fraction | str, want: Fraction) -> Verdict:
    if isinstance(given, str):
        return invalid(given)
    return judged(given == want, f"not {want}")


def _number(text: str) -> Fraction | str | None:
    """The number that a line is, None for none, several, or one with anything more, or the limit that it breaks."""
    line = text.translate(INVISIBLE).translate(ALL_DASHES).translate(TABLE).replace("\\$", "$").replace("\\!", "")
    line = BOLD.sub(r"\1", line.replace("{,}", ",").replace("^\\circ ", "°")).strip().strip("*").strip()
    for left, right in (("\\(", "\\)"), ("$", "$")):
        if line.rstrip(".").startswith(left) and line.rstrip(".").endswith(right) and len(line) > len(left + right):
            line = line.rstrip(".")[len(left) : -len(right)].strip()
    line = line[:-1].rstrip() if line.endswith(".") else line
    match = LINE.fullmatch(line)
    if match is None or (match["sign"] and match["inner"]) or not UNIT.fullmatch(match["rest"].rstrip(". ")):
        return None
    value = _value(match["digits"])
    words = match["rest"].lower().split()
    if words and match["rest"][0].isspace() and words[0] in MULTIPLIERS and isinstance(value, Fraction):
        value, words = value * MULTIPLIERS[words[0]], words[1:]
    if changing(" ".join(words)):
        return None
    return -value if isinstance(value, Fraction) and "-" in (match["sign"], match["inner"]) else value


def _value(written: str) -> Fraction | str | None:
    digits = written.replace(",", "")
    return f"over {DEFAULT.digits} digits in a number" if len(digits) > DEFAULT.digits else Fraction(digits)


def _last_number(text: str, stop: StopReason) -> Fraction | str | None:
    """The last number of the text, unless what stands beside it makes it another value or no answer."""
    if stop is StopReason.length:
        return None
    tail = text[-WINDOW:].rpartition("</think>")[2].translate(INVISIBLE).translate(ALL_DASHES).replace("\\$", "$")
    all_found = list(FOUND.finditer(tail))
    if not all_found:
        return None
    found = all_found[-1]
    before, behind = tail[: found.start()], tail[found.end() :].lstrip("*")
    if before[-1:].isalpha():
        return None
    before = before.rstrip(" $£€*")
    word, after = BEFORE.search(before[-40:]), BEHIND.match(behind)
    if before[-1:] in tuple("-,^/<>_~") and not before.endswith((" -", "\n-", "=-", "= -")):
        return None
    if before.endswith("-") and before[:-1].rstrip()[-1:].isdigit():
        return None
    if word and (changing(word[1]) and word[1].lower() not in ("is", "are", "was", "be", "and", "to", "by", "but")):
        return None
    if behind[:1] in tuple("^!/\\'_*") or (after and behind[:1].isalpha() and len(after[1]) == 1):
        return None
    value = _value(found[0])
    if after and after[1].lower() in MULTIPLIERS:
        value = value * MULTIPLIERS[after[1].lower()] if isinstance(value, Fraction) else value
    elif after and changing(after[1]) and after[1].lower() not in ("to", "by", "is", "more", "less", "and", "times"):
        return None
    return -value if isinstance(value, Fraction) and before.endswith("-") else value
