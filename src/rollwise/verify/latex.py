"""From an answer's LaTeX (or plain writing) to tokens of one spelling, within limits that are checked first.

What is dropped: dollar signs, `\\left`, spacing and style commands, a full stop at the end. What is unified: `\\dfrac`,
`\\leqslant`, `**`, Unicode signs, full-width characters. What is text (`\\text{...}`) stays one token. Time is linear.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple


class Unreadable(ValueError):
    """Not an answer of the grammar read here. The message is the reason."""


class Refused(Unreadable):
    """Surely no answer, whatever another parser makes of it."""


class Different(Unreadable):
    """Surely another answer than the value in it: `4 or more`, `4 squared`."""


class OverLimit(ValueError):
    """Breaks a limit; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an answer may hold. Where the gold itself needs more, that much is allowed (`Limits.of`)."""

    characters: int = 256
    digits: int = 50  # of one integer
    nesting: int = 20
    exponent: int = 1000
    factorial: int = 100


DEFAULT = Limits()
HARD = Limits(characters=1024, digits=1000, nesting=40, exponent=5000, factorial=3000)  # for gold answers


class Token(NamedTuple):
    kind: str  # number, letter, command, text, sign, space
    text: str


SIGNS = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "‒": "-", "―": "-", "﹣": "-", "⁻": "-",
    "\u200b": "", "\u200c": "", "\u200d": "", "\u2060": "", "\ufeff": "", "\u00ad": "",
    "×": "\\times ", "÷": "/", "·": "\\cdot ", "∗": "*", "⋅": "\\cdot ", "π": "\\pi ",
    "√": "\\sqrt ", "°": "^\\circ ", "∞": "\\infty ", "≤": "\\le ", "≥": "\\ge ", "≠": "\\ne ", "∪": "\\cup ",
    "∩": "\\cap ", "∈": "\\in ", "±": "\\pm ", "∅": "\\emptyset ", "ℝ": "\\mathbb{R}", "²": "^2", "³": "^3",
    "≈": "\\approx ",
    "½": "\\frac{1}{2}", "¼": "\\frac{1}{4}", "θ": "\\theta ", "α": "\\alpha ", "β": "\\beta ", "λ": "\\lambda ",
    "φ": "\\phi ", "。": ".", "、": ",", "\u00a0": " ", "\u3000": " ", "\u202f": " ", "\u2009": " ", "∶": ":",
    "“": '"', "”": '"', "’": "'",
}  # fmt: skip
FULL_WIDTH = {chr(0xFF01 + i): chr(0x21 + i) for i in range(94)}  # wide forms of ASCII: the same characters
TABLE = str.maketrans({**FULL_WIDTH, **SIGNS})

SYNONYMS = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "dbinom": "binom", "tbinom": "binom", "leq": "le",
    "leqslant": "le", "geq": "ge", "geqslant": "ge", "neq": "ne", "lt": "<", "gt": ">", "ast": "*", "div": "/",
    "lbrace": "\\{", "rbrace": "\\}", "lbrack": "[", "rbrack": "]", "lparen": "(", "rparen": ")", "lvert": "|",
    "rvert": "|", "vert": "|", "mid": "|", "colon": ":", "cdotp": "cdot", "varnothing": "emptyset",
    "oslash": "emptyset", "O": "emptyset", "degree": "circ", "land": "and", "wedge": "and", "lor": "or", "vee": "or",
    "lg": "log", "varphi": "phi", "varepsilon": "epsilon", "vartheta": "theta",
}  # fmt: skip


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


DROPPED = names(
    "left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr displaystyle textstyle "
    "scriptstyle limits nolimits rm bf it mathstrut strut hfill quad qquad hspace thinspace enspace"
)
TEXT = names("text textbf textit textrm textnormal textsf texttt mbox hbox mathrm mathbf mathit mathsf operatorname")
PLAIN_WORDS = names("sqrt pi sin cos tan cot sec csc ln log exp infinity inf and or theta alpha beta pm times infty")
SPACING = frozenset("!,;:> ~")
PIECES = re.compile(r"\\[A-Za-z]+|\\.|[0-9]+|[A-Za-z]+|\s+|.", re.DOTALL)
OPENING, CLOSING = frozenset(["(", "[", "{", "\\{"]), frozenset([")", "]", "}", "\\}"])
DIGITS = frozenset("0123456789")


def plain(text: str) -> str:
    """The text without what surrounds the answer: blanks, dollar signs, `\\(...\\)`, a full stop at the end."""
    text = text.translate(TABLE).strip()
    while True:
        before = text
        text = text.strip().rstrip(".,;:").strip()
        for left, right in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**")):
            if text.startswith(left) and text.endswith(right) and len(text) > len(left) + len(right):
                inside = text[len(left) : -len(right)]
                if left not in inside:
                    text = inside
        if text == before:
            return text


def check(text: str, limits: Limits) -> None:
    """Raise OverLimit for a text that no parser should meet. Looks only at characters."""
    if len(text) > limits.characters:
        raise OverLimit(f"over {limits.characters} characters")
    depth = run = 0
    for at, char in enumerate(text):
        run = run + 1 if char in DIGITS else 0
        if run > limits.digits:
            raise OverLimit(f"over {limits.digits} digits in a number")
        if char in "([{":
            depth += 1
            if depth > limits.nesting:
                raise OverLimit(f"nested deeper than {limits.nesting}")
        elif char in ")]}" and depth:
            depth -= 1
        elif char == "!" and text[at - 1 : at] != "\\":
            _check_factorial(text[:at], limits)
    _check_exponents(text, limits)


def _check_factorial(before: str, limits: Limits) -> None:
    digits = before[len(before.rstrip(" )}").rstrip("0123456789")) :].strip(" )}")
    if digits and DIGITS.issuperset(digits) and int(digits) > limits.factorial:
        raise OverLimit(f"factorial over {limits.factorial}")
    if before.endswith("!!!") or (before.rstrip(" )}") != before and before.rstrip(" )}").endswith("!")):
        raise OverLimit("factorial of a factorial")


def _check_exponents(text: str, limits: Limits) -> None:
    """A whole-number exponent over the limit, or an exponent that has an exponent of numbers: 9^{9^9}."""
    parts = text.replace("**", "^").split("^")
    chained = False
    for part in parts[1:]:
        part = part.lstrip(" {(+-")
        digits = part[: len(part) - len(part.lstrip("0123456789,"))].replace(",", "")
        if digits and int(digits) > limits.exponent:
            raise OverLimit(f"exponent over {limits.exponent}")
        only_digits = bool(digits) and not part[len(digits) :].strip(" {(")
        if chained and digits:
            raise OverLimit("exponent of an exponent")
        chained = only_digits


def tokens(text: str) -> list[Token]:
    """The tokens of a text that `plain` and `check` have seen. Raises Unreadable for a brace that never closes."""
    text = text.replace("**", "^").replace("{,}", "\\!,\\!")
    pieces = PIECES.findall(text)
    out: list[Token] = []
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        at += 1
        if piece[0] == "\\" and len(piece) > 1:
            at = _command(piece, pieces, at, out)
        elif piece[0] in DIGITS:
            out.append(Token("number", piece))
        elif piece.isspace() or piece == "~":
            out.append(Token("space", " "))
        elif piece.isascii() and piece.isalpha():
            if piece in PLAIN_WORDS:
                name = {"infinity": "infty", "inf": "infty"}.get(piece, piece)
                out.append(Token("command", name))
            else:
                out.extend(Token("letter", c) for c in piece)
        elif piece not in ("$", '"', "£", "€", "¢"):
            out.append(Token("sign", piece))
    return out


def _command(piece: str, pieces: list[str], at: int, out: list[Token]) -> int:
    name = piece[1:]
    if name in SPACING or name in DROPPED:
        if name in " ~;:,>" or "quad" in name:
            out.append(Token("space", "\\," if name == "," else " "))
        elif name == "!":
            out.append(Token("space", "\\!"))
        elif name == "hspace":
            _, at = _group(pieces, at)
        elif name in ("left", "right") and at < len(pieces) and pieces[at] == ".":
            at += 1
        return at
    if name in TEXT:
        content, at = _group(pieces, at)
        word = content.strip()
        if len(word) == 1 and word.isalpha() and name != "text" and name != "mbox":
            out.append(Token("letter", word))
        elif word.startswith("\\") or any(c in DIGITS for c in word):  # mathematics in text style
            out.extend(tokens(content))
        elif word:
            out.append(Token("text", word))
        return at
    if name == "mathbb":
        content, at = _group(pieces, at)
        out.append(Token("command", f"mathbb {content.strip()}"))
        return at
    if name in ("begin", "end"):
        content, at = _group(pieces, at)
        out.append(Token("command", f"{name} {content.strip()}"))
        return at
    if name in ("$", "%", "&", "#"):
        if name == "%":
            out.append(Token("sign", "%"))
        return at
    if name in ("{", "}", "\\", "|"):
        out.append(Token("sign", piece if name != "|" else "|"))
        return at
    name = SYNONYMS.get(name, name)
    kind = "command" if name.isalpha() else "sign"
    out.append(Token(kind, name))
    return at


def _group(pieces: list[str], at: int) -> tuple[str, int]:
    """The raw content of the braces that open at `at` (blanks before them skipped), or the next piece alone."""
    while at < len(pieces) and pieces[at].isspace():
        at += 1
    if at >= len(pieces):
        raise Unreadable("ends too early")
    if pieces[at] != "{":
        return pieces[at], at + 1
    depth, start = 1, at + 1
    for end in range(start, len(pieces)):
        depth += {"{": 1, "}": -1}.get(pieces[end], 0)
        if depth == 0:
            return "".join(pieces[start:end]), end + 1
    raise Unreadable("brace not closed")
