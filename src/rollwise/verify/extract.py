"""The one final answer of a completion, found by a strict rule in time linear in the text.

1. Only what follows the thinking counts (`answers.final_segment`), and of that a complete `<answer>` block, if there is
   one, and of that the last `WINDOW` characters.
2. The last `\\boxed{...}` (or `\\fbox`) is the answer. Boxes before it that say something else are steps or were
   revised, if words of revision or a stretch of text lie between; boxes that only commas, "and", "or" or a few words
   part are one answer of several parts, so that `\\boxed{4} or \\boxed{5}` is never the answer 4. A box that holds
   only a blank to fill in is none.
3. Without a box, what follows the last "answer is", "answer:" or `####` on its line; else the whole text if it is one
   short line and no sentence. A box that does not close, or an empty one, is not passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rollwise.records import StopReason
from rollwise.verify.answers import CLOSE, OPEN, answer_block, final_segment
from rollwise.verify.standing import REACH, glued, negated, withdrawn

WINDOW = 16_384  # characters: a final answer stands at the end
APART = 80  # characters of text between two boxes that make the earlier one a step
LONGEST = 1_024  # of an answer; each verifier has a smaller limit of its own
SHORT = 120  # characters of a text that may be an answer without any mark

SENTENCE = 4  # words
COMMANDS = re.compile(r"\\[A-Za-z]+")
WORD = re.compile(r"[A-Za-z]{2,}")
UNBRACED = re.compile(r"\\boxed ?([0-9])(?![0-9A-Za-z{]|[.,][0-9])")
LEADING = re.compile(r"(?i)(?:therefore|indeed|thus|hence|then|simply|just),?\s+(?=[-$\\]*[0-9(\\])")
REASON = re.compile(r",?\s+(?:since|because)\b")
DIGITS = re.compile(r"[0-9]+")
PIECES = re.compile(r"\\boxed(?![A-Za-z])|\\fbox(?![A-Za-z])|\\.|[{}]", re.DOTALL)
MARKS = ("answer is", "answer:", "answer :", "answer**:", "answer:**", "final answer**", "####")
REVISING = (
    "but", "wait", "recheck", "actually", "instead", "however", "correct", "therefore", "so ", " so,", "thus", "hence",
    "final", "mistake", "no,", "rather", "sorry", "then", "gives", "which", "=>", "implies", "now", "next", "step",
)  # fmt: skip
HEDGING = (" or ", "either", "alternative", "maybe", "perhaps", "possibly", "could also")


@dataclass(frozen=True, slots=True)
class Found:
    """The answer's text, or None with the reason. `boxed` tells how it was marked."""

    text: str | None
    reason: str = ""
    boxed: bool = False
    void: bool = False  # an answer was given, and it says nothing or several things: wrong, with the reason
    line: str = ""  # the whole line that the text was taken from


SEVERAL = Found(None, "several answers", void=True)
DENIED = Found(None, "the answer is denied", void=True)


def final_answer(
    text: str,
    stop: StopReason = StopReason.eos,
    marks: tuple[str, ...] = MARKS,
    *,
    solution: bool = False,
    whole_line: bool = False,
) -> Found:
    """The final answer of a completion. `solution`: of a gold's worked solution, where nothing takes an answer back.
    `whole_line`: the caller judges what stands behind the answer on its line, as in `C. Rome`."""
    segment, closed, reason = _segment(text)
    if segment is None:
        return Found(None, reason)
    cut = stop is StopReason.length and not closed
    segment = segment.rstrip()
    tail = segment[-WINDOW:]
    tail = UNBRACED.sub(r"\\boxed{\1}", tail)
    boxes, unclosed = _boxes(tail)
    if unclosed:
        return Found(None, "box not closed")
    if boxes:
        if not solution and (reason := _taken_back(tail, boxes, marks)):
            return Found(None, reason, boxed=True, void=True)
        return _of_boxes(tail, boxes)
    marked = _marked(tail, marks, cut=cut, whole_line=whole_line)
    if marked is not None:
        return marked
    line = tail.strip()
    if 0 < len(line) <= SHORT and "\n" not in line and len(segment) <= WINDOW and not wordy(line):
        return Found(None, "truncated") if cut else Found(line)
    return Found(None, "truncated" if cut else "no final answer")


def wordy(text: str) -> bool:
    """Whether a text is a sentence: several words outside LaTeX commands, or a script without blanks between words."""
    words = WORD.findall(COMMANDS.sub(" ", text))
    han = sum(ord(c) > 0x2E80 for c in text)
    return len(words) >= SENTENCE or (han > 0 and (han > 8 or any(c.isdigit() for c in text)))


def _segment(text: str) -> tuple[str | None, bool, str]:
    """The text to look in, whether it is a block that was closed, and why there is none."""
    segment = final_segment(text)
    if segment is None:
        return None, False, "thinking not closed"
    if OPEN in segment or CLOSE in segment:
        block, reason = answer_block(text)
        return block, block is not None, reason
    return segment, False, ""


def _boxes(text: str) -> tuple[list[tuple[int, int, int]], bool]:
    """Outermost boxes as (start, start of content, end of content), and whether a later one does not close."""
    boxes: list[tuple[int, int, int]] = []
    if "\\boxed" not in text and "\\fbox" not in text:
        return boxes, False
    open_braces: list[tuple[int, int]] = []  # (start of the box or -1, start of content)
    inside = 0  # boxes that are open
    pending = -1
    for match in PIECES.finditer(text):
        piece, at = match.group(), match.start()
        if piece[0] == "\\":
            pending = at if piece in ("\\boxed", "\\fbox") else pending
        elif piece == "{":
            between = text[pending + 1 : at] if pending >= 0 and at - pending < 12 else ""
            is_box = pending >= 0 and between.rstrip() in ("boxed", "fbox")
            open_braces.append((pending if is_box else -1, match.end()))
            inside += is_box
            pending = -1
        elif open_braces:
            start, content = open_braces.pop()
            if start >= 0:
                inside -= 1
                if inside == 0:
                    boxes.append((start, content, at))
    return boxes, inside > 0


def _of_boxes(text: str, boxes: list[tuple[int, int, int]]) -> Found:
    parts = [_content(text, boxes[-1])]
    start = boxes[-1][0]
    for box in reversed(boxes[:-1]):
        content = _content(text, box)
        if not content.strip("?_\\;,. ") or content.startswith(("\\phantom", "\\text{?", "\\quad")):
            continue  # a blank to fill in
        between = text[box[2] + 1 : start]
        if content != parts[0] and not _joined(between):
            break
        start = box[0]
        if content not in parts:
            parts.insert(0, content)
    if not all(parts) or max(map(len, parts)) > LONGEST or len(parts) > 50:
        if not parts[-1]:
            return Found("", "empty box", boxed=True, void=True)
        if max(map(len, parts)) > LONGEST:
            return Found(None, f"over {LONGEST} characters", boxed=True)
    return Found(parts[0] if len(parts) == 1 else ", ".join(parts[-50:]), boxed=True)


def _content(text: str, box: tuple[int, int, int]) -> str:
    """What the box holds; a box that holds only a box is that box."""
    content = text[box[1] : box[2]].strip()
    for _ in range(20):
        if not (content.startswith("\\boxed") and content.endswith("}")):
            break
        inner = content[len("\\boxed") :].strip()
        if not inner.startswith("{"):
            break
        content = inner[1:-1].strip()
    return content


def _joined(between: str) -> bool:
    """Whether the text between two boxes leaves both standing."""
    words = " ".join(between.lower().split())
    if len(words) > APART:
        return False
    if any(word in f" {words} " for word in HEDGING):
        return True
    return not any(word in f" {words} " for word in REVISING)


def _taken_back(text: str, boxes: list[tuple[int, int, int]], marks: tuple[str, ...]) -> str:
    """Why the last box does not stand, or ""."""
    start, content, end = boxes[-1]
    before, after = text[:start], text[end + 1 :]
    if negated(before):
        return "the answer is denied"
    if glued(before, after):
        return "more beside the box"
    if withdrawn(after, bare=False):
        return "several answers"
    later = _marked(after[:REACH], marks, cut=False) if after.strip() else None
    if later is not None and later.void:
        return later.reason
    if later is None or not later.text:
        return ""
    said, boxed = later.text, text[content:end]
    if DIGITS.findall(said) and DIGITS.findall(boxed):  # a letter behind a value may be its option
        return "" if DIGITS.findall(said) == DIGITS.findall(boxed) else "several answers"
    return ""


def _marked(text: str, marks: tuple[str, ...], *, cut: bool, whole_line: bool = False) -> Found | None:
    lower = text.lower()
    if len(lower) != len(text):  # a few letters change length in lower case
        lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    at, mark = max(((lower.rfind(m), m) for m in marks), default=(-1, ""))
    if at < 0:
        return None
    if negated(text[:at]):
        return DENIED
    rest = text[at + len(mark) :].lstrip(" :*\t\r\n")[: LONGEST + 1]
    line, newline, below = rest.partition("\n")
    if cut and not newline and len(rest) <= LONGEST:
        return Found(None, "truncated")
    if LEADING.match(line):
        line = line[LEADING.match(line).end() :]  # type: ignore[union-attr]
    first = _sentence(line)
    reason = REASON.search(first)
    if reason and not whole_line and any(c.isdigit() for c in first[: reason.start()]):
        first = first[: reason.start()]
    answer = first.strip().replace("**.", ".").strip("*").strip()
    if not answer:
        return Found(None, "no final answer")
    if withdrawn(f"{line[len(first) :]}\n{below}", bare=not whole_line) or withdrawn(below):
        return SEVERAL
    return Found(answer, line=line.strip())


def _sentence(line: str) -> str:
    """The line up to the end of its first sentence: a full stop with a blank behind it."""
    end = line.find(". ")
    return line if end < 0 else line[:end]
