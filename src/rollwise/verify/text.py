"""Exact text: the answer is the gold's text, compared by a fixed rule.

Both sides are put into Unicode compatibility form (NFKC, except that raised, lowered and circled characters and
fractions stay what they are: 10² is not 102), folded in case, with runs of white space as one blank,
without quotation marks around them and without a full stop at the end. Nothing else is forgiven. The answer is the
content of the last `<answer>` block, or the last box, or what follows "answer is" or "answer:", or the whole text after
the thinking. The gold is a text, a number, or a list of texts of which any one will do.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from rollwise.records import StopReason, Verdict
from rollwise.verify.answers import CLOSE, OPEN, answer_block, final_segment
from rollwise.verify.exact import invalid, judged
from rollwise.verify.extract import final_answer
from rollwise.verify.mathematics import number_text
from rollwise.verify.scoring import Completion, infra_error, one_by_one

MAX_TEXT = 4096  # characters
MARKS = ("answer is", "answer:", "answer :", "answer**:", "answer:**")
TAKEN_BACK = ("several answers", "the answer is denied", "more beside the box")
KEPT = ("<super>", "<sub>", "<circle>", "<fraction>")
QUOTES = "\"'`“”‘’"


class Exact:
    """Verifier `exact`."""

    name = "exact"

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        return one_by_one(_verdict, completions)

    def restated(self, completion: Completion) -> str | None:
        golds = gold_texts(completion.prompt.answer)
        return f"{OPEN}{golds[0]}{CLOSE}" if golds and OPEN not in golds[0] and CLOSE not in golds[0] else None


def gold_texts(answer: object) -> list[str]:
    """The accepted texts; empty where the gold is none."""
    many = answer if isinstance(answer, list | tuple) else [answer]
    if not many or not all(isinstance(a, str | int | float) for a in many):
        return []
    texts = [_said(a) for a in many if isinstance(a, str | int | float)]
    return texts if all(0 < len(t) <= MAX_TEXT and folded(t) for t in texts) else []


def _said(value: str | int | float) -> str:
    if isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else number_text(value)


def compatible(text: str) -> str:
    """Unicode compatibility form, except for characters whose form says something: 10², H₂, ①, ½."""
    if text.isascii():
        return text
    kept = (c if unicodedata.decomposition(c).startswith(KEPT) else unicodedata.normalize("NFKC", c) for c in text)
    return unicodedata.normalize("NFC", "".join(kept))


def folded(text: str) -> str:
    """The text as it is compared."""
    plain = " ".join(compatible(text).casefold().split())
    while True:
        before = plain
        plain = plain.strip(QUOTES).strip()
        plain = plain[:-1].rstrip() if plain.endswith(".") else plain
        if plain == before:
            return plain


def _verdict(text: str, answer: object, stop: StopReason) -> Verdict:
    golds = gold_texts(answer)
    if not golds:
        return infra_error("gold: no text, or too long")
    given, reason = _given(text, stop)
    if given is None:
        return judged(False, reason) if reason in TAKEN_BACK else invalid(reason)
    if len(given) > MAX_TEXT:
        return invalid(f"over {MAX_TEXT} characters")
    accepted = {folded(g) for g in golds}
    return judged(folded(given) in accepted or folded(_unboxed(given)) in accepted, "another text")


def _unboxed(given: str) -> str:
    """What a box holds, where the text is nothing but a box."""
    text = given.strip()
    if not text.startswith("\\boxed{") or not text.endswith("}"):
        return given
    return text[len("\\boxed{") : -1]


def _given(text: str, stop: StopReason) -> tuple[str | None, str]:
    segment = final_segment(text)
    if segment is None:
        return None, "thinking not closed"
    if OPEN in segment or CLOSE in segment:
        block, reason = answer_block(text)
        return block, reason
    found = final_answer(text, stop, MARKS)
    if found.text is not None or found.reason != "no final answer":
        return found.text, found.reason
    return segment, ""
