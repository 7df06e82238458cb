"""What stands behind a number: units, percent signs, words. They are told apart from the value, and never converted."""

from __future__ import annotations

from rollwise.verify.latex import Refused, Token, names

UNITS = names(
    "cm mm km dm nm ft in inch inches feet foot mile miles yard yards kg mg lb lbs oz hr hrs min mins sec secs day "
    "days hour hours minute minutes second seconds year years week weeks month months meter meters metre metres unit "
    "units degree degrees deg rad radian radians mph kmh percent dollar dollars cent cents euro euros way ways am pm"
)
PHYSICAL = {
    "cm": "cm", "centimeters": "cm", "centimetres": "cm", "mm": "mm", "m": "m", "meters": "m", "metres": "m",
    "meter": "m", "km": "km", "kilometers": "km", "ft": "ft", "feet": "ft", "foot": "ft", "inches": "in", "inch": "in",
    "in": "in", "miles": "mile", "mile": "mile", "yards": "yd", "kg": "kg", "g": "g", "grams": "g", "hours": "h",
    "hour": "h", "minutes": "min", "minute": "min", "seconds": "s", "second": "s", "days": "day", "day": "day",
    "weeks": "week", "months": "month", "years": "year",
    "dollars": "dollar", "dollar": "dollar", "cents": "cent", "cent": "cent", "euros": "euro", "euro": "euro",
    "am": "am", "a.m": "am", "pm": "pm", "p.m": "pm",
}  # fmt: skip


def physical(unit: str) -> str:
    """The unit in one spelling, "" for an unknown one: `5 cm` and `5 m` differ, `9 values` and `9 integers` do not."""
    return PHYSICAL.get(unit.lower().strip("."), "")


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
    """The tokens without the unit at their end, and the unit: `%`, text, or letters that are one."""
    kept = trimmed(list(found))
    power = len(kept)
    texts = [t.text for t in kept]
    if texts[-2:] in (["^", "2"], ["^", "3"]):
        power -= 2
    elif texts[-4:] in (["^", "{", "2", "}"], ["^", "{", "3", "}"]):
        power -= 4
    end, unit = power, ""
    while end > 1:
        start, word, sure = end, "", False
        if kept[end - 1].kind == "text" or kept[end - 1].text == "%":
            start, word, sure = end - 1, kept[end - 1].text, True
        else:
            while start > 0 and kept[start - 1].kind == "letter":
                start -= 1
                word = kept[start].text + word
            sure = word.lower() in UNITS or (len(word) >= 4 and start > 0 and kept[start - 1].kind == "space")
        if not sure or start == 0:
            break
        unit = f"{word} {unit}".strip()
        end = len(trimmed(kept[:start]))
    if not unit:
        return kept, ""
    return trimmed(kept[:end]), " ".join(unit.replace("~", " ").split())
