"""What stands behind a number: units, percent signs, words. They are told apart from the value, and never converted."""

from __future__ import annotations

import re

from rollwise.verify.latex import Different, Refused, Token, names
from rollwise.verify.spoken import CHANGING, MULTIPLIERS

UNITS = names(
    "cm mm km dm nm ft in inch inches feet foot mile miles yard yards kg mg lb lbs oz hr hrs min mins sec secs day "
    "days hour hours minute minutes second seconds year years week weeks month months meter meters metre metres unit "
    "units degree degrees deg rad radian radians mph kmh percent dollar dollars cent cents euro euros way ways am pm ml"
)
SPELLINGS = {
    "mm": "mm millimeter millimeters millimetre millimetres", "cm": "cm centimeter centimeters centimetre centimetres",
    "dm": "dm decimeter decimeters decimetre decimetres", "m": "m meter meters metre metres", "nm": "nm",
    "km": "km kilometer kilometers kilometre kilometres", "in": "in inch inches", "ft": "ft feet foot",
    "yd": "yd yard yards", "mile": "mi mile miles", "mg": "mg milligram milligrams", "g": "g gram grams",
    "kg": "kg kilogram kilograms", "lb": "lb lbs pound pounds", "oz": "oz ounce ounces",
    "ton": "t ton tons tonne tonnes",
    "ml": "ml milliliter milliliters millilitre millilitres", "l": "l liter liters litre litres",
    "h": "h hr hrs hour hours",
    "gallon": "gallon gallons", "cup": "cup cups", "pint": "pint pints", "quart": "quart quarts",
    "min": "min mins minute minutes", "s": "s sec secs second seconds", "ms": "ms millisecond milliseconds",
    "day": "d day days", "week": "week weeks", "month": "month months", "year": "year years",
    "dollar": "dollar dollars usd $", "cent": "cent cents ¢", "euro": "euro euros €", "pence": "pence",
    "deg": "degree degrees deg °", "rad": "rad radian radians", "celsius": "c celsius", "fahrenheit": "f fahrenheit",
    "am": "am", "pm": "pm", "nickel": "nickel nickels", "dime": "dime dimes", "penny": "penny pennies",
    "newton": "n newton newtons", "joule": "j joule joules", "watt": "w watt watts", "kw": "kw kilowatt kilowatts",
    "volt": "v volt volts", "amp": "a amp amps ampere amperes", "kelvin": "k kelvin", "hz": "hz hertz",
    "mile/h": "mph", "km/h": "kmh kph",
}  # fmt: skip
PHYSICAL = {word: unit for unit, words in SPELLINGS.items() for word in words.split()}
OF_ANGLES = names("sin cos tan cot sec csc")
LETTERS = frozenset("mglLsShHdtnNJjWVAKCFT")  # that are a unit by themselves, in text
OPPOSED = [
    names(group)
    for group in (
        "increase decrease", "increased decreased", "north south east west", "left right", "up down", "gain loss",
        "profit loss", "before after", "above below", "clockwise counterclockwise anticlockwise", "ahead behind",
        "gained lost", "won lost", "higher lower", "faster slower", "older younger", "taller shorter", "more less",
    )
]  # fmt: skip
WORD = re.compile(r"[^\W\d_]+")
ALLOWED = frozenset(" ~./-'’^°%$€¢(),·⋅{}")


def physical(unit: str) -> str:
    """The unit in one spelling, "" for an unknown one: `5 cm` and `5 m` differ, `9 values` and `9 integers` do not."""
    text = unit.lower().replace("~", " ").replace("a.m", "am").replace("p.m", "pm").replace("·", " ")
    for old, new in ((" per ", "/"), (" an ", "/"), (" a ", "/"), ("{", ""), ("}", ""), (" / ", "/")):
        text = text.replace(old, new)
    out = []
    for part in text.strip(" .(),").split("/"):
        power, found = "", []
        for word in part.replace("-", " ").split():
            base, _, raised = word.strip(".").partition("^")
            power = {"square": "2", "sq": "2", "squared": "2", "cubic": "3", "cubed": "3"}.get(base, raised or power)
            if base not in ("square", "sq", "squared", "cubic", "cubed", ""):
                found.append(PHYSICAL.get(base, ""))
        if not found or not all(found):
            return ""
        out.append(" ".join(found) + (f"^{power}" if power else ""))
    return "/".join(out)


def differ(a: str, b: str) -> bool:
    """Whether two units, each as written, are known to be different ones."""
    first, second = physical(a), physical(b)
    if first and second and first != second:
        return not (first.split()[0] == second.split()[0] == "deg" and "deg" in (first, second))
    left, right = set(WORD.findall(a.lower())), set(WORD.findall(b.lower()))
    return any(left & group and right & group and left & group != right & group for group in OPPOSED)


def _checked(unit: str, *, alone: bool) -> str:
    """The unit, if words and signs in it leave the number as it is. Raises Different."""
    text = unit.replace("a.m", "am").replace("p.m", "pm")
    words = WORD.findall(text)
    squared = [w for w in words if w.lower() in ("squared", "cubed") and physical(unit)]
    wrong = [w for w in words if w.lower() in CHANGING and w not in squared]
    if wrong and not (wrong == ["times"] and words[-1] == "times") and not (alone and physical(unit)):
        raise Different(f"'{wrong[0]}' beside a number")
    lone = [w for w in words if len(w) == 1 and w.isascii() and w not in LETTERS and not (w == "a" and len(words) > 2)]
    if lone or ".." in text or not all(c.isalnum() or c in ALLOWED for c in text) or not (words or text.strip(" ~-")):
        raise Different("no unit")
    return unit


def trimmed(found: list[Token]) -> list[Token]:
    start, end = 0, len(found)
    while start < end and found[start].kind == "space":
        start += 1
    while end > start and found[end - 1].kind == "space":
        end -= 1
    return found[start:end]


def with_plus(kept: list[Token], space: int) -> list[Token]:
    """`12 3/5` with a plus in the gap; any other gap between two numbers is Unreadable."""
    after = [t.text for t in kept[space + 1 :]]
    if len(after) != 3 or after[1] != "/" or space > 2:
        raise Refused("two numbers without a sign between them")
    sign = "-" if kept[0].text == "-" else "+"
    return [*kept[:space], Token("sign", sign), *kept[space + 1 :]]


def without_unit(found: list[Token]) -> tuple[list[Token], str]:
    """The tokens without the unit at their end, and the unit with its power: `%`, degrees, text, or letters that are
    one. "4 million" becomes a product. Raises Different for words that make it another value."""
    kept = trimmed(list(found))
    power, raised = len(kept), ""
    texts = [t.text for t in kept]
    if texts[-2:] in (["^", "2"], ["^", "3"]):
        power, raised = power - 2, texts[-1]
    elif texts[-4:] in (["^", "{", "2", "}"], ["^", "{", "3", "}"]):
        power, raised = power - 4, texts[-2]
    end, unit = power, ""
    inside = any(t.kind == "command" and t.text in OF_ANGLES for t in kept)  # \sin 1^\circ
    while end > 1:
        start, word, sure = end, "", False
        if texts[end - 2 : end] == ["^", "circ"] and not inside:
            start, word, sure = end - 2, "degrees", True
        elif texts[end - 4 : end] == ["^", "{", "circ", "}"] and not inside:
            start, word, sure = end - 4, "degrees", True
        elif kept[end - 1].kind == "text" or kept[end - 1].text == "%":
            start, word, sure = end - 1, kept[end - 1].text, True
        else:
            while start > 0 and kept[start - 1].kind == "letter":
                start -= 1
                word = kept[start].text + word
            spaced = start > 0 and kept[start - 1].kind == "space"
            sure = word.lower() in UNITS or (spaced and (len(word) >= 4 or word.lower() in MULTIPLIERS))
        if not sure or start == 0:
            break
        unit = f"{word} {unit}".strip()
        end = len(trimmed(kept[:start]))
    if not unit:
        return kept, ""
    unit = " ".join(unit.replace("~", " ").split())
    left = trimmed(kept[:end])
    if any(t.kind == "text" and physical(t.text) for t in left):
        raise Different("several units")
    first, _, others = unit.lower().partition(" ")
    if first in MULTIPLIERS and left[-1].kind in ("number", "sign"):
        left = [*left, Token("command", "times"), Token("number", str(MULTIPLIERS[first]))]
        unit = others
    if raised and not physical(unit) and unit not in ("units", "unit"):
        raise Different("a power of words")
    if unit:
        _checked(unit, alone=len(unit.split()) == 1)
    return left, f"{unit}^{raised}" if raised else unit
