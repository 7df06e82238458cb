"""Whether an answer still stands: what is glued to a box, what follows an answer, and whether its mark was negated."""

from __future__ import annotations

import re

from rollwise.verify.spoken import DASHES, MULTIPLIERS, NUMBERS, PARTS

ALTERING = (
    frozenset(MULTIPLIERS) | NUMBERS | PARTS
    | {"divided", "squared", "cubed", "factorial", "pi", "modulo", "mod", "maybe", "perhaps", "possibly", "either"}
)  # fmt: skip
REACH = 600  # characters looked at on either side
NEGATED = re.compile(
    r"\b(?:wrong|incorrect|false|untrue|mistaken|unlikely|impossible|den(?:y|ies)|(?<!no )(?<!without )doubt"
    r"|not (?:true|the case|think|believe|say|sure|likely|possible|correct|right|mean|follow)"
    r"|(?:n't|cannot|can't) (?:think|believe|say|be|mean|follow))\b|\b(?:if|whether) the (?:final |correct )?$"
)
OPENERS = re.compile(
    r"(?:^|[.!?;,:]\s|\n)[*\s]*(?:or(?! (?:equivalent|approx|about|roughly|simply|in other))"
    r"|no(?=[,.\s]+(?:wait|it|the|answer|\$|[a-j]\b|\d|$))"
    r"|wait|actually|alternatively|maybe|perhaps|possibly|hmm|sorry|correction)\b"
)
DOUBTED = re.compile(
    r"\b(?:it|answer|this|that|value|result) (?:could|might|may|should) (?:also |well |instead )*be\b"
    r"|\b(?:could|might) also be\b"
    r"|(?<!\b[a-j] )\b(?:is|was|it's) (?:wrong|incorrect|not correct|not right|a mistake|not the answer)\b"
    r"|\b(?:correct|right|real|true|actual) (?:answer|one|value)(?: is|:)"
)
BARE = re.compile(
    r"\s*[(*$]*(?:[-+]?[0-9][0-9.,/]*|[A-Ja-j]|\\[a-z]+\{[^{}\n]{0,40}\}(?:\{[^{}\n]{0,40}\})?)[)*$]*\s*[.!]?\s*$"
)
CLAUSES = re.compile(r";\s|,\s+(?=(?:so|hence|thus|therefore|then|but|the)\b)")
SENTENCES = re.compile(r"[.!?]\s+|\n+")
OPERATED = re.compile(
    r"(?:[+*/^_<>≠±·×÷]|\\(?:neq?|not|cdot|times|div|pm|mp|neg|sqrt|log|ln|sin|cos|tan)|\\not\s*=|!=)\s*[({]?$"
)
WRAPPED = re.compile(r"(?:\^|_|\\sqrt|\\phantom|\\x?cancel|\\[dt]?frac|\\[dt]?frac\s*\{[^{}]*\}|\\overline)\s*\{$")
LAST_WORD = re.compile(r"([a-z']+)\W{0,3}(?:\\text\{)?$")
GLUED = re.compile(
    r"(?:\s|\\[,;! ])*(?:[+*/_!±·×÷²³]|\^(?!\s*\{?\s*\\circ)|[abcdefijkopqrtuvwxyz](?![a-z])"
    r"|\\(?:cdot|times|div|pm|mp|pi|sqrt|frac|dfrac|tfrac|pmod|bmod|cup|lor|vee)(?![a-z])|[0-9])"
)
GLUED_PROSE = re.compile(
    r"(?:\$|\\\))?(?:[.,][0-9]|[0-9_]|\^(?!\s*\{?\s*\\circ)| *[-+*/−^] *[0-9]|[*/×][0-9a-z(]|\+[0-9]|!\s*=)"
)
NEXT_WORD = re.compile(r"(?:\$|\\\)|\\\]|\s|\*(?!\*\w)|~|\\[ ,;]|\\(?:text|mathrm|textbf)\s*\{)*([a-z]+)")
MINUS = re.compile(f"[{re.escape(DASHES)}]")


def negated(before: str) -> bool:
    """Whether the sentence that leads to an answer denies it: `it is false that the`."""
    lead = SENTENCES.split(before[-REACH:].lower().replace("’", "'"))[-1][-120:]
    return bool(NEGATED.search(CLAUSES.split(lead)[-1]))


def withdrawn(after: str, *, bare: bool = True) -> bool:
    """Whether what follows an answer offers another: `. Or 7`, `. 7`, `but it could be 7`, `is wrong`."""
    rest = after[:REACH].lower()
    if OPENERS.search(rest) or DOUBTED.search(rest):
        return True
    if not bare:
        return False
    first = next((s for s in SENTENCES.split(rest) if s.strip(" .*$")), "")
    return bool(BARE.match(first))


def in_mathematics(before: str) -> bool:
    """Whether a place is between dollar signs or `\\(`, `\\[` that are open on its line or paragraph."""
    lead = before[-REACH:].rpartition("\n\n")[2].replace("\\$", "")
    if lead.count("$$") % 2 or lead.replace("$$", "").count("$") % 2:
        return True
    return max(lead.rfind("\\("), lead.rfind("\\[")) > max(lead.rfind("\\)"), lead.rfind("\\]"))


def glued(before: str, after: str) -> bool:
    """Whether text beside a box makes its content another value: a minus, an operator, digits, a negation."""
    before, after = before[-REACH:], after[:REACH].lower()
    inside = in_mathematics(before)
    lead = before.rstrip(" ").rstrip("$").rstrip(" ") if not inside else before.rstrip()
    gap = before[-1:] == " "
    minus = MINUS.match(lead[-1:]) and (inside or not gap or before.rstrip(" ").endswith("$"))
    if minus and (inside or lead[-3:-1] != "--"):
        return True
    if WRAPPED.search(lead[-80:]) or (inside and OPERATED.search(lead[-20:])) or (lead[-1:].isdigit() and not gap):
        return True
    word = LAST_WORD.search(lead.lower()[-30:])
    if word and word[1] in ("not", "never", "minus", "negative", "neither", "nor", "isn't", "half", "twice"):
        return True
    if (inside and (GLUED.match(after) or re.match(r"\s*[-−]\s*[0-9a-z\\]", after))) or GLUED_PROSE.match(after):
        return True
    following = NEXT_WORD.match(after)
    return following is not None and _alters(following[1], after[following.end() :])


def _alters(word: str, after: str) -> bool:
    if word == "or":
        return not re.match(r"\s*[,(]?\s*(?:equivalent|approx|about|roughly|simply|in other|\\approx|≈)", after)
    if word in ("times", "over", "plus", "minus"):  # 13 times is a number of times
        return bool(re.match(r"[\s}]*[$(\\]*[0-9]", after)) or (NEXT_WORD.match(after) or [""])[-1] in NUMBERS
    return word in ALTERING
