"""Numbers and foreign text made fit to print.

Anything missing or not finite prints as a dash. Text that came from a model, a path or a config is never trusted:
control characters, direction overrides and broken surrogates are shown as escapes, so they can neither move the cursor
nor reorder a line.
"""

from __future__ import annotations

import math
import unicodedata
from typing import Any

DASH = "-"
_KEPT = {"\u200c", "\u200d", "\ufe0f"}  # joiners that scripts and emoji need
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def real(value: Any) -> float:
    """`value` as a float; NaN for anything that is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def whole(value: Any) -> int:
    """`value` as an int; 0 for anything that is not a finite number."""
    number = real(value)
    return int(number) if math.isfinite(number) else 0


def count(value: Any) -> str:
    """41000 as `41,000`."""
    number = real(value)
    return f"{number:,.0f}" if math.isfinite(number) else DASH


def share(value: Any, digits: int = 1) -> str:
    """0.292 as `29.2 %`."""
    number = real(value)
    return f"{100 * number:.{digits}f} %" if math.isfinite(number) else DASH


def decimal(value: Any, digits: int = 3) -> str:
    """0.5236 as `0.524`."""
    number = real(value)
    return f"{number:.{digits}f}" if math.isfinite(number) else DASH


def signed(value: Any, digits: int = 3) -> str:
    """0.0236 as `+0.024`."""
    number = real(value)
    return f"{number:+.{digits}f}" if math.isfinite(number) else DASH


def brief(value: Any) -> str:
    """A number in as few characters as an axis or a status line needs: 25000 as `25 K`."""
    number = real(value)
    if not math.isfinite(number):
        return DASH
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e4, " K")):
        if abs(number) >= size:
            return f"{number / (1e3 if unit == ' K' else size):.4g}{unit}"
    return f"{number:,.0f}" if number == round(number) else f"{number:.4g}"


def plural(n: Any, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{count(n)} {noun}" if real(n) == 1 else f"{count(n)} {noun}s"


def clean(value: Any, limit: int | None = None, *, lines: bool = False) -> str:
    """Foreign text with everything invisible made visible. `lines` keeps line breaks and tabs, else they are blanks."""
    text = str(value)
    cut = limit is not None and len(text) > limit
    out: list[str] = []
    for char in text[:limit] if cut else text:
        if char in "\n\t":
            out.append(char if lines else " ")
        elif unicodedata.category(char) in _HIDDEN and char not in _KEPT:
            out.append(f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}")
        else:
            out.append(char)
    return "".join(out) + ("..." if cut else "")


def duration(seconds: float) -> str:
    """46 s, 3 min 20 s, 2 h 5 min."""
    whole_seconds = round(seconds)
    minutes, rest = divmod(whole_seconds, 60)
    hours, minutes_left = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes_left} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
