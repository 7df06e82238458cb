"""The left side of `x = 5` as a name of the value: a variable, a function at a place, points, a short label in words.

What is not a name (`|x|`, `x!`, `\\sin x`, `x(x-1)`, `\\text{half of }x`) says something of another value. A gold may
still state its value so (`\\cos B = \\frac12`): then the name starts with a question mark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rollwise.verify.expressions import GREEK, NAMED
from rollwise.verify.latex import Token, names
from rollwise.verify.spoken import changing

CONSTANTS = names("pi infty square bullet star diamond ell")  # never a name; e and i are one where the gold says so
ACCENTS = names("overline bar vec hat tilde widehat overrightarrow underline mathcal mathscr mathfrak boldsymbol")
FIGURES = names("angle triangle measuredangle")
FUNCTION_LETTERS = NAMED | frozenset("yuvwTSVN")  # that name a function where the gold does not say so
LABEL_WORDS = names("sum product difference remainder quotient total power root score loss is")
LONGEST_LABEL = 4  # words
NAME = re.compile(
    r"(?P<base>\\?[A-Za-z]+'*(?:_(?:\{[^{}]*\}|[^{}()]))?'*)(?P<inverse>\^\{?-1\}?)?(?:\((?P<inside>.*)\))?"
)


def name_of(found: Sequence[Token]) -> str:
    """The name that tokens are, "" for none, with a "?" before it where only a gold may write it."""
    kept = [t for t in found if t.kind != "space"]
    if not kept:
        return ""
    texts = [t.text for t in kept]
    if kept[0].kind == "text":
        rest = kept[1:]
        words = texts[0].lower().strip(" :").split()
        free = " ".join(w for w in words if w not in LABEL_WORDS)
        if len(words) > LONGEST_LABEL or changing(free) or not all(w.replace("'", "").isalpha() for w in words):
            return ""
        inner = name_of(rest) if rest else ""
        return "" if rest and (not inner or inner[0] in '?"') else '"' + " ".join(words) + inner
    if texts[0] == "(" and texts[-1] == ")":
        parts = "".join(texts[1:-1]).split(",")
        return "".join(texts) if len(parts) > 1 and all(len(p) == 1 and p.isalpha() for p in parts) else ""
    if kept[0].kind == "command" and texts[0] in ACCENTS | FIGURES:
        rest_texts = [t for t in texts[1:] if t not in ("{", "}")]
        return "".join(texts) if rest_texts and all(t.isalnum() and len(t) < 3 for t in rest_texts) else ""
    if all(t.kind == "letter" and t.text.isupper() for t in kept) and len(kept) > 1:
        return "".join(texts)
    return _variable(kept) or _loose(kept)


def _variable(kept: Sequence[Token]) -> str:
    head = kept[0]
    if head.kind == "command" and (head.text not in GREEK or head.text in CONSTANTS):
        return ""
    if head.kind not in ("letter", "command"):
        return ""
    written = ("\\" if head.kind == "command" else "") + head.text + " " * (head.kind == "command")
    text = written.strip() + "".join(t.text for t in kept[1:])
    match = NAME.fullmatch(text)
    if match is None or match["base"].lstrip("\\").split("_")[0].rstrip("'") != head.text:
        return ""
    depth = 0
    for at, token in enumerate(kept):  # one pair of parentheses, up to the end
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.text == ")" and at < len(kept) - 1:
            return ""
    return text if not match["inverse"] or match["inside"] is not None else ""


def _loose(kept: Sequence[Token]) -> str:
    simple = kept[0].kind == "command" and not any(t.text in "+*/^!-" or t.text in ("cdot", "times") for t in kept)
    outside = kept[0].text in GREEK or kept[0].text in ("frac", "sqrt", "binom", "lfloor", "lceil", "emptyset")
    return "?" + "".join(t.text for t in kept) if simple and not outside else ""


def plain_name(name: str) -> bool:
    """Whether an answer may bring this name along where the gold has none."""
    if not name or name.startswith("?") or name in ("e", "i"):
        return False
    match = NAME.fullmatch(name)
    return match is None or match["inside"] is None or match["base"][0] in FUNCTION_LETTERS


def mentions(found: Sequence[Token], name: str) -> bool:
    """Whether the variable stands among the tokens; `y_0` is another."""
    behind = [*(t.text for t in found[1:]), ""]
    return any(t == Token("letter", name) and b not in ("_", "'") for t, b in zip(found, behind, strict=False))


def same_name(gold: str, answer: str) -> bool:
    """f(x) is f, the argument may be left out where it is a letter, and the value may be called y."""
    if gold == answer:
        return True
    first, second = NAME.fullmatch(gold), NAME.fullmatch(answer)
    if first is None or second is None or (first["inside"] is None) == (second["inside"] is None):
        return False
    called, bare = (first, second) if first["inside"] is not None else (second, first)
    if called["base"][0] not in NAMED or not re.fullmatch(r"[A-Za-z](?:,[A-Za-z])*", called["inside"]):
        return False
    return bool(bare["base"] == called["base"] and bare["inverse"] == called["inverse"]) or bare["base"] == "y"
