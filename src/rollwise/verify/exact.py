"""Verdicts for answers with one right spelling: a digit string, or the last number of a list."""

from __future__ import annotations

from rollwise.records import StopReason, Verdict, VerdictKind
from rollwise.verify.answers import answer_block, final_segment
from rollwise.verify.arithmetic import ParseError, last_integer

MAX_DIGITS = 1000


def invalid(reason: str) -> Verdict:
    return Verdict(kind=VerdictKind.invalid, score=0.0, detail=reason)


def judged(right: bool, detail: str) -> Verdict:
    if right:
        return Verdict(kind=VerdictKind.correct, score=1.0)
    return Verdict(kind=VerdictKind.wrong, score=0.0, detail=detail)


def read_answer(text: str, stop: StopReason, *, tagged: bool) -> tuple[str | None, str]:
    """The answer's text without the space around it, or None with the reason.

    Plain form: the whole text, which must have ended by itself. Tagged form: the last complete answer block, which
    counts even where the text was cut later; without any block, the plain form of what follows the thinking.
    """
    if tagged:
        content, reason = answer_block(text)
        if content is not None:
            return content.strip(), ""
        segment = final_segment(text)
        if segment is None or reason != "no answer block":
            return None, reason
        text = segment
    if stop is StopReason.length:
        return None, "truncated"
    return text.strip(), ""


def digits_verdict(text: str, answer: str, stop: StopReason, *, tagged: bool = False) -> Verdict:
    """Whether the answer is exactly the digit string `answer`. Score 1 or 0."""
    given, reason = read_answer(text, stop, tagged=tagged)
    if given is None:
        return invalid(reason)
    if len(given) > MAX_DIGITS or not (given.isascii() and given.isdigit()):
        return invalid("not a digit string")
    return judged(given == answer, "other digits")


def last_number_verdict(text: str, answer: int, stop: StopReason, *, tagged: bool = False) -> Verdict:
    """Whether the last of the comma-separated numbers is `answer`; those before it are working and are not checked.
    Score 1 or 0."""
    given, reason = read_answer(text, stop, tagged=tagged)
    if given is None:
        return invalid(reason)
    try:
        return judged(last_integer(given) == answer, "wrong number")
    except ParseError as error:
        return invalid(str(error))
