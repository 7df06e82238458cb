"""Words that change what a number or an answer says: number words, multipliers, operators, hedges, negations."""

from __future__ import annotations

import re

from rollwise.verify.latex import names

DASHES = "-‐‑‒–—―−﹘﹣－⁻₋➖"
MULTIPLIERS = {
    "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12,
    "hundreds": 100, "thousands": 1000, "millions": 10**6, "billions": 10**9, "trillions": 10**12, "dozens": 12,
}  # fmt: skip
ORDERED = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
COUNTING = {word: value for value, word in enumerate(ORDERED.split())}
NUMBERS = names(f"{ORDERED} thirty forty fifty sixty seventy eighty ninety")
PARTS = names(
    "half halves third thirds quarter quarters fourth fourths fifth fifths sixth sixths seventh sevenths eighth "
    "eighths ninth ninths tenth tenths hundredth hundredths thousandth thousandths millionth millionths"
)
OPERATORS = names(
    "plus minus times over into divided multiplied by squared cubed factorial sqrt root power pi point mod modulo "
    "double twice triple doubled tripled halved negative positive infinity log ln sin cos tan exponent exp remainder "
    "sum product difference quotient reciprocal inverse to k mil mn bn tn"
)
HEDGES = names(
    "or and maybe perhaps possibly probably about around approximately approx roughly nearly almost either least most "
    "more less fewer than below above under beyond between up vs versus alternatively otherwise but could might may "
    "should wait short debt loss pair pairs score gross"
)
NEGATIONS = names(
    "not no never neither nor none wrong false incorrect except without non cannot isn aren is was be are "
    "untrue mistake"
)
CHANGING = frozenset(MULTIPLIERS) | NUMBERS | PARTS | OPERATORS | HEDGES | NEGATIONS
WORD = re.compile(r"[^\W\d_]+")


def changing(text: str) -> str:
    """The first word that changes the value it stands beside, or "" where the words leave it as it is."""
    return next((w for w in WORD.findall(text.lower()) if w in CHANGING), "")
