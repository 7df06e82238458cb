"""Where the answer stands in a completion. Found with `str.find`, so time is linear in the text whatever it is."""

from __future__ import annotations

OPEN, CLOSE = "<answer>", "</answer>"
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


def final_segment(text: str) -> str | None:
    """What follows the end of thinking: the whole text where none is marked, None where it was opened and not closed.

    The prompt may have opened the thinking itself, so a lone `</think>` ends it too. The last mark counts: a model that
    starts to think again has not answered yet.
    """
    end = text.rfind(THINK_CLOSE)
    tail = text if end < 0 else text[end + len(THINK_CLOSE) :]
    return None if THINK_OPEN in tail else tail


def answer_block(text: str) -> tuple[str | None, str]:
    """The content of the last complete `<answer>` block after the thinking, or None with the reason.

    A block opened after the last complete one withdraws it: the answer was being revised when the text ended.
    """
    segment = final_segment(text)
    if segment is None:
        return None, "thinking not closed"
    close = segment.rfind(CLOSE)
    if close < 0:
        return None, "answer block not closed" if OPEN in segment else "no answer block"
    start = segment.rfind(OPEN, 0, close)
    if start < 0:
        return None, "answer block not opened"
    if segment.find(OPEN, close) >= 0:
        return None, "a later answer block not closed"
    return segment[start + len(OPEN) : close], ""
