"""Countdown: reach a target with given numbers, each used exactly once. Exact fractions, nothing evaluated.

Forms of an answer:
- `answer_tag`: the last complete `<answer>` block after the thinking. It counts even where the completion was cut after
  it; a completion cut before or inside it has no answer.
- `bare`: the whole text is the expression, and it must have ended by itself.

A trailing `= target` is allowed, since people write it; `= anything else` is a false statement, and wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, cast

from rollwise.records import StopReason, Verdict, VerdictKind
from rollwise.verify.answers import answer_block
from rollwise.verify.arithmetic import DEFAULT, ParseError, parse
from rollwise.verify.scoring import Completion, infra_error, one_by_one
from rollwise.verify.solve import solve

Form = Literal["answer_tag", "bare"]
Reward = Literal["binary", "shaped"]

PRESENT = 0.1  # shaped reward of an answer that is there and not right, as in the published runs (arXiv 2507.04632)


def countdown(
    text: str,
    answer: object,
    stop: StopReason,
    *,
    form: Form = "answer_tag",
    reward: Reward = "binary",
) -> Verdict:
    """The verdict on one completion; `answer` is `{"numbers": [...], "target": int}`.

    correct: the value is the target and the numbers are used exactly once each. wrong: a well-formed expression that is
    neither. invalid: no answer, not an expression, or over a limit. The score is the reward and nothing else: binary is
    1 or 0; shaped gives 0.1 to a complete answer block that is not right (in the bare form, which has no block, to a
    well-formed expression).
    """
    want = cast(Mapping[str, Any], answer)
    given: str | None = text
    reason = ""
    if form == "answer_tag":
        given, reason = answer_block(text)
    elif stop is StopReason.length:
        given, reason = None, "truncated"
    if given is None:
        return Verdict(kind=VerdictKind.invalid, score=0.0, detail=reason)
    kind, detail = judge(given, want["numbers"], want["target"])
    score = 1.0 if kind is VerdictKind.correct else 0.0
    if reward == "shaped" and (kind is VerdictKind.wrong or (kind is VerdictKind.invalid and form == "answer_tag")):
        score = PRESENT
    return Verdict(kind=kind, score=score, detail=detail)


def judge(given: str, numbers: Sequence[int], target: int) -> tuple[VerdictKind, str]:
    """The kind of one expression, and the reason where it is not correct."""
    if len(given) > DEFAULT.characters:  # before the text is looked at in any other way
        return VerdictKind.invalid, f"over {DEFAULT.characters} characters"
    expression, sign, claim = given.partition("=")
    try:
        value, used = parse(expression)
        claimed = _claim(claim) if sign else Fraction(target)
    except ParseError as error:
        return VerdictKind.invalid, str(error)
    if used != Counter(numbers):
        return VerdictKind.wrong, "numbers not used exactly once each"
    if value != target:
        return VerdictKind.wrong, f"value is {value}"
    if claimed != target:
        return VerdictKind.wrong, f"claims to be {claimed}"
    return VerdictKind.correct, ""


def _claim(text: str) -> Fraction:
    """What follows the equals sign: one whole number, a minus allowed."""
    stripped = text.strip()
    negative = stripped.startswith("-")
    parsed = parse(stripped[1:] if negative else stripped)
    if sum(parsed.used.values()) != 1 or "(" in stripped:
        raise ParseError("no plain number after '='")
    return -parsed.value if negative else parsed.value


class CountdownVerifier:
    """Verifier `countdown`: the answer block form, score 1 or 0.

    The gold is `{"numbers": [...], "target": n}`; the numbers may also be called `nums`.
    """

    name = "countdown"

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        return one_by_one(_verdict, completions)

    def restated(self, completion: Completion) -> str | None:
        """An expression found by search; None where there is none, or it takes too long (over six numbers)."""
        gold = read_gold(completion.prompt.answer)
        found = None if gold is None else solve(gold["numbers"], gold["target"])
        return None if found is None else f"<answer>{found}</answer>"


def _verdict(text: str, answer: object, stop: StopReason) -> Verdict:
    gold = read_gold(answer)
    if gold is None:
        return infra_error('gold: not like {"numbers": [3, 5, 7], "target": 26}')
    return countdown(text, gold, stop)


def read_gold(answer: object) -> dict[str, Any] | None:
    """The gold in its one shape, or None where it is none. Whole numbers may be written as floats."""
    if not isinstance(answer, Mapping):
        return None
    numbers = answer.get("numbers")
    numbers = answer.get("nums") if numbers is None else numbers
    if not isinstance(numbers, list | tuple) or not numbers:
        return None
    values = [_whole(v) for v in (*numbers, answer.get("target"))]
    if None in values:
        return None
    return {"numbers": values[:-1], "target": values[-1]}


def _whole(value: object) -> int | None:
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal() and len(value) < 20:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) > 10**12:
        return None
    return int(value) if value == int(value) else None
