"""Multiple choice: one letter of up to ten, or several where the gold has several.

A letter may stand as `C`, `(C)`, `C.`, `\\text{C}`, `Option C` or `C: the option's text`, in a box, behind "answer is"
or alone on the last line. Where the row holds its options (`meta["options"]` or `["choices"]`), the text of an option
stands for its letter; a letter with the text or the value of anything but that option is wrong (a reason may
follow). The gold is a letter, a set of letters, the place of the option counted from 0, or an option's text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rollwise.records import StopReason, Verdict, VerdictKind
from rollwise.verify.exact import invalid, judged
from rollwise.verify.extract import MARKS as ANSWER_MARKS
from rollwise.verify.extract import WINDOW, final_answer
from rollwise.verify.mathematics import compare, read_gold, squeeze
from rollwise.verify.scoring import Completion, infra_error
from rollwise.verify.standing import glued
from rollwise.verify.text import compatible

LETTERS = "ABCDEFGHIJ"
MAX_ANSWER = 1024  # characters: an option's text may be a sentence
MARKS = (*ANSWER_MARKS, "option is", "choice is", "option:", "choice:")
LABELLED = re.compile(r"\s*\(?([A-Ja-j])\s*[).:．、]\s*", re.ASCII)
BEFORE_TEXT = re.compile(
    r"\s*\(?([A-J])\)?(?:\s*[).:．、,]\s*|\s+[-–—]\s+|\s*(?=\()|\s+(?=(?i:because|since|as|is)\b))(.*)", re.DOTALL
)
WRAPPED_LABEL = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox)\{\s*(\(?[A-J]\)?[.:)]?\s*)\}")
REASONED = re.compile(
    r"(?i)(?:because|since|as)\b|(?:is|would be)(?: the)? (?:correct|right|best|true)(?: (?:answer|option|choice))?$"
)
OTHER_LABEL = re.compile(r"^\W*[A-J]{1,10}\W*$|\b[B-HJ]\s*[).:]|\b(?:or|and)\b[^.]*\b[A-J]\b")
LEADING = re.compile(r"(?i)(?:the\s+)?(?:correct\s+)?(?:option|choice|answer)\s*:?\s+")
WRAPPERS = ("\\text", "\\textbf", "\\mathrm", "\\mathbf", "\\mbox")
WORDS = re.compile(r"[A-Za-z]{2,}")
SHORTEST = 3  # words of a sentence that is no option's text
SEPARATORS = re.compile(r"(?:[\s,;&/]|\band\b)+")


class Choice:
    """Verifier `choice`."""

    name = "choice"

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        out: list[Verdict] = []
        for c in completions:
            try:
                out.append(_verdict(c))
            except Exception as error:  # a verifier that fails says nothing of the answer
                out.append(infra_error(f"{type(error).__name__}: {error}"))
        return out

    def restated(self, completion: Completion) -> str | None:
        gold = gold_letters(completion.prompt.answer, options_of(completion.prompt.meta))
        return f"\\boxed{{{', '.join(sorted(gold))}}}" if gold else None


def _verdict(c: Completion) -> Verdict:
    options = options_of(c.prompt.meta)
    gold = gold_letters(c.prompt.answer, options)
    if gold is None:
        return infra_error(f"gold: {str(c.prompt.answer)[:60]!r} is not a letter from A to J or an option")
    found = final_answer(c.text, c.stop, MARKS, whole_line=True)
    text = found.text
    if found.line and text is not None and BEFORE_TEXT.fullmatch(_bare(found.line)):
        text = found.line  # C. Rome
    if found.void:
        return judged(False, found.reason)
    if text is None and found.reason == "no final answer" and c.stop is not StopReason.length:
        before, _, text = c.text[-WINDOW:].rstrip().rpartition("\n")  # the last line, if it is a letter
        if len(text) > 12 or glued(before, ""):
            text = None
    if text is None:
        return invalid(found.reason)
    if len(text) > MAX_ANSWER:
        return invalid(f"over {MAX_ANSWER} characters")
    given = letters(text, options)
    if given is None:
        return invalid("not a letter or an option")
    return judged(given == gold, f"not {', '.join(sorted(gold))}")


def options_of(meta: Mapping[str, Any]) -> dict[str, str]:
    """The options of a row by letter, from any published shape: texts (with or without `A)`), pairs, or a mapping."""
    raw = meta.get("options", meta.get("choices"))
    if isinstance(raw, Mapping) and isinstance(raw.get("text"), list):  # {"label": [...], "text": [...]}
        raw = raw["text"]
    if isinstance(raw, Mapping):
        return {str(k).strip().upper(): str(v) for k, v in raw.items() if str(k).strip().upper() in LETTERS}
    if not isinstance(raw, list | tuple) or not 1 <= len(raw) <= len(LETTERS):
        return {}
    out: dict[str, str] = {}
    for letter, item in zip(LETTERS, raw, strict=False):
        if isinstance(item, Mapping) and len(item) == 1:
            ((key, value),) = item.items()
            out[str(key).strip().upper()] = str(value)
            continue
        text = str(item)
        label = LABELLED.match(text)
        out[letter] = text[label.end() :] if label and label.group(1).upper() == letter else text
    return out


def gold_letters(answer: Any, options: Mapping[str, str]) -> frozenset[str] | None:
    """The gold as letters, or None where it is none."""
    if isinstance(answer, list | tuple) and answer and all(isinstance(a, str) for a in answer):
        answer = ", ".join(answer)
    if isinstance(answer, int) and not isinstance(answer, bool):
        return frozenset(LETTERS[answer]) if 0 <= answer < len(options) else None
    return letters(answer, options) if isinstance(answer, str) and 0 < len(answer) <= MAX_ANSWER else None


def letters(text: str, options: Mapping[str, str]) -> frozenset[str] | None:
    """The letters that a text names, or None. An option's text counts as its letter."""
    bare = _bare(text)
    named = [k for k, v in options.items() if v and flat(_bare(v)) == flat(bare)]
    if len(named) == 1:
        return frozenset(named)
    parts = [p.strip("()[]. ") for p in SEPARATORS.split(bare) if p]
    if len(parts) == 1 and 1 < len(parts[0]) <= len(LETTERS) and parts[0].isupper() and set(parts[0]) <= set(LETTERS):
        parts = list(parts[0]) if len(set(parts[0])) == len(parts[0]) else parts
    if all(len(p) == 1 and p.isalpha() for p in parts):
        return _known([p.upper() for p in parts], options)
    raw = WRAPPED_LABEL.sub(r"\1", text.strip()).replace("~", " ").replace("\\ ", " ").replace("**", "")
    label = BEFORE_TEXT.fullmatch(raw) or BEFORE_TEXT.fullmatch(bare)
    if label is None:
        lower = LABELLED.match(bare)
        if lower is None:
            return None
        letter, rest = lower[1].upper(), bare[lower.end() :]
    else:
        letter, rest = label[1], label[2]
    if not rest.strip("). }*"):
        return _known([letter], options)
    if _known([letter], options) is None:
        return None
    return frozenset([letter]) if _agrees(letter, rest, options) else frozenset()


def _agrees(letter: str, rest: str, options: Mapping[str, str]) -> bool:
    """Whether the text behind a letter is that option's, in words or by value, or a reason: no other option's."""
    if REASONED.match(rest.strip(" .*")):
        return True
    if letter not in options:
        return not OTHER_LABEL.search(rest)
    same = [k for k, v in options.items() if _alike(v) == _alike(rest)]
    if same:
        return letter in same
    verdict = compare(read_gold(options[letter]), rest.strip("() "))
    if isinstance(verdict, Verdict) and verdict.kind is VerdictKind.correct:
        return True
    others = [_alike(v) for k, v in options.items() if k != letter and v]
    sentence = (
        len(WORDS.findall(rest)) > len(WORDS.findall(options[letter])) + 2 and len(WORDS.findall(rest)) > SHORTEST
    )
    return sentence and "\\" not in rest and not OTHER_LABEL.search(rest) and not _alike(rest).startswith(tuple(others))


def _alike(text: str) -> str:
    """A text for comparing: folded, without the wrappers, quotation marks and brackets round it."""
    return flat(squeeze(_bare(text)) if "\\" in text else _bare(text)).strip(" .,;:!()*'\"")


def _known(named: Sequence[str], options: Mapping[str, str]) -> frozenset[str] | None:
    known = set(options) or set(LETTERS)
    return frozenset(named) if named and set(named) <= known else None


def _bare(text: str) -> str:
    """The text without wrappers and the words before a letter."""
    out = text.strip().replace("**", "").strip("*$").strip()
    for wrapper in WRAPPERS:
        out = out.replace(wrapper + "{", "{")
    out = out.replace("{", " ").replace("}", " ").replace("~", " ").strip().rstrip(".").strip()
    leading = LEADING.match(out)
    return out[leading.end() :] if leading else out


def flat(text: str) -> str:
    """Unicode compatibility form, lower case, single blanks, no dollar signs, no full stop at the end."""
    plain = compatible(text).replace("$", "").casefold()
    return " ".join(plain.split()).rstrip(". ")
