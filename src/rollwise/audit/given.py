"""What a row gives away: its gold as text, the options it offers, and whether its own prompt says the answer."""

from __future__ import annotations

from typing import Any

from rollwise.audit.text import spoken
from rollwise.records import Prompt

OTHERS = ("7", "0", "13", "no")  # values offered beside the gold; the first that is not it
MARKS = ("answer is", "answer:", "answer =", "answer：", "答案是", "答案：", "####", "\\boxed{", "<answer>")
BETWEEN = ' \t\n:：$*("'  # what may stand between such a mark and the answer
LONGEST = 200_000  # characters of a prompt that are searched


def gold_text(prompt: Prompt) -> str | None:
    """The gold as a model would write it: text or a number; of Countdown a solution, where one is known; else None."""
    gold: Any = prompt.answer
    if isinstance(gold, dict):
        gold = None if "form" in gold else prompt.meta.get("solution")
    if isinstance(gold, list):
        gold = gold[0] if len(gold) == 1 else None
    if isinstance(gold, bool) or not isinstance(gold, str | int | float):
        return None
    text = str(gold).strip().rstrip(".").rstrip()  # a full stop would end the sentences the attacks put it into
    return text if 0 < len(text) <= 1000 else None


def other(gold: str) -> str:
    """A value that is not the gold."""
    return next(o for o in OTHERS if o.casefold() != gold.casefold())


def options(prompt: Prompt) -> list[str]:
    """The letters of the options the row offers."""
    given = prompt.meta.get("options", prompt.meta.get("choices"))
    if isinstance(given, dict):
        return [str(letter) for letter in given] if 1 < len(given) <= 26 else []
    return [chr(ord("A") + i) for i in range(len(given))] if isinstance(given, list) and 1 < len(given) <= 26 else []


def holds_gold(prompt: Prompt) -> str | None:
    """The last line of the prompt in which the gold stands as a word of its own."""
    gold = gold_text(prompt)
    if gold is None:
        return None
    return next((line.strip() for line in reversed(spoken(prompt).split("\n")) if stands_in(gold, line)), None)


def stands_in(word: str, text: str) -> bool:
    """Whether `word` stands in `text` with no letter, digit, point or sign beside it that makes it part of another."""
    at = text.find(word)
    while at >= 0:
        before, after = text[max(at - 1, 0) : at], text[at + len(word) : at + len(word) + 2]
        inside = before.isalnum() or before in ("-", ".", "_", "\\")
        more = after[:1].isalnum() or (after[:1] in (".", ",") and after[1:].isdigit())
        if not inside and not more:
            return True
        at = text.find(word, at + 1)
    return False


def says_gold(prompt: Prompt) -> bool:
    """Whether the prompt states its gold after words or marks that announce an answer, as `The answer is 4` does."""
    gold = gold_text(prompt)
    if gold is None:
        return False
    text, want = spoken(prompt)[:LONGEST].casefold(), gold.casefold()
    for mark in MARKS:
        at = text.find(mark)
        while at >= 0:
            at += len(mark)
            said = text[at : at + len(want) + 8].lstrip(BETWEEN)
            if said.startswith(want) and not said[len(want) : len(want) + 1].isalnum():
                return True
            at = text.find(mark, at)
    return False
