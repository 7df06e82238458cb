"""Multiple choice: one letter of up to ten, or several where the gold has several.

A letter may stand as `C`, `(C)`, `C.`, `\\text{C}`, `Option C` or `C: the option's text`, in a box, behind "answer is"
or alone on the last line. Where the row holds its options (`meta["options"]` or `["choices"]`), the text of an option
stands for its letter; a letter with the text or the value of something else is wrong. The gold is a letter, a set of
letters, the place of the option counted from 0, or an option's text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from rollwise.records import StopReason, Verdict, VerdictKind
from rollwise.verify.exact import invalid, judged
from rollwise.verify.extract import WINDOW, final_answer
from rollwise.verify.latex import plain
from rollwise.verify.mathematics import compare, read_gold
from rollwise.verify.reader import words_of
from rollwise.verify.scoring import Completion, infra_error

LETTERS = "ABCDEFGHIJ"
MAX_ANSWER = 1024  # characters: an option's text may be a sentence
LABELLED = re.compile(r"\s*\(?([A-Ja-j])\s*[).:．、]\s*", re.ASCII)
LEADING = re.compile(r"(?i)(?:the\s+)?(?:correct\s+)?(?:option|choice|answer)\s*:?\s+")
WRAPPERS = ("\\text", "\\textbf", "\\mathrm", "\\mathbf", "\\mbox")
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
    found = final_answer(c.text, c.stop)
    text = found.text
    if found.void:
        return judged(False, found.reason)
    if text is None and found.reason == "no final answer" and c.stop is not StopReason.length:
        text = c.text[-WINDOW:].rstrip().rpartition("\n")[2]  # the last line, if it is a letter and nothing else
        if len(text) > 12:
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
    label = LABELLED.match(text.strip()) or LABELLED.match(bare)
    if label:
        letter, rest = label.group(1).upper(), (text.strip() if LABELLED.match(text.strip()) else bare)[label.end() :]
        if not rest.strip("). }"):
            return _known([letter], options)
        if len(rest.strip()) > 2 and not LABELLED.match(rest.lstrip(" ,;&")):
            return _known([letter], options) if _agrees(letter, rest, options) else frozenset()
    parts = [p.strip("()[]. ") for p in SEPARATORS.split(bare) if p]
    if len(parts) == 1 and 1 < len(parts[0]) <= len(LETTERS) and parts[0].isupper() and set(parts[0]) <= set(LETTERS):
        parts = list(parts[0]) if len(set(parts[0])) == len(parts[0]) else parts
    return _known([p.upper() for p in parts], options) if all(len(p) == 1 for p in parts) else None


def _agrees(letter: str, rest: str, options: Mapping[str, str]) -> bool:
    """Whether the text behind a letter may be that option's: not another option's, and no other value."""
    if letter not in options:
        return True
    same = [k for k, v in options.items() if flat(_bare(v)) == flat(rest)]
    if same:
        return letter in same
    verdict = compare(read_gold(options[letter]), rest)
    return not isinstance(verdict, Verdict) or verdict.kind is not VerdictKind.wrong or bool(words_of(plain(rest)))


def _known(named: Sequence[str], options: Mapping[str, str]) -> frozenset[str] | None:
    known = set(options) or set(LETTERS)
    return frozenset(named) if named and set(named) <= known else None


def _bare(text: str) -> str:
    """The text without wrappers and the words before a letter."""
    out = text.strip().strip("*$").strip()
    for wrapper in WRAPPERS:
        out = out.replace(wrapper + "{", "{")
    out = out.replace("{", " ").replace("}", " ").replace("~", " ").strip().rstrip(".").strip()
    leading = LEADING.match(out)
    return out[leading.end() :] if leading else out


def flat(text: str) -> str:
    """Unicode compatibility form, lower case, single blanks, no dollar signs, no full stop at the end."""
    plain = unicodedata.normalize("NFKC", text).replace("$", "").casefold()
    return " ".join(plain.split()).rstrip(". ")
