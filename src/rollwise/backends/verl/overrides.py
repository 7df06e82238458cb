"""verl's settings as the arguments of its command line, in Hydra's override grammar.

Hydra 1.3, "Basic Override syntax" and "Extended Override syntax": quoted text keeps everything but the quote and the
backslashes before it; `${` begins an interpolation of OmegaConf in it unless a backslash stands before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from rollwise.errors import UserError, show

KEY = re.compile(r"(?!(?i:true|false|null|inf|nan)$)[A-Za-z_][A-Za-z0-9_-]*")  # of a mapping: no quotes are understood
_INTERPOLATION = re.compile(r"(\\*)\$\{")
_BEFORE_QUOTE = re.compile(r"(\\*)('|$)")


def arguments(settings: Mapping[str, Any]) -> list[str]:
    """`key=value` for each setting, by key. Raises UserError for a value that cannot be written."""
    return [f"{name}={written(value, name)}" for name, value in sorted(settings.items(), key=_by_name)]


def _by_name(item: tuple[str, Any]) -> str:
    return item[0].lstrip("+")


def written(value: Any, name: str) -> str:
    """A value of JSON's kinds, or an infinity, as Hydra reads it back."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, repr(value))
    if isinstance(value, str):
        return _quoted(value, name)
    if isinstance(value, list | tuple):
        return "[" + ",".join(written(v, name) for v in value) + "]"
    if isinstance(value, Mapping):
        for key in value:
            if not (isinstance(key, str) and KEY.fullmatch(key)):
                raise UserError(f"verl.{name} has the key {show(key)}; one of letters, digits, _ and -")
        return "{" + ",".join(f"{k}:{written(v, name)}" for k, v in value.items()) + "}"
    raise UserError(f"verl.{name} is {show(value)}; a number, text, true, false, null, a list or a mapping")


def _quoted(text: str, name: str) -> str:
    if text == "???" or "\0" in text:
        raise UserError(f"verl.{name} is {show(text)}, which no setting of verl can be")
    plain = _INTERPOLATION.sub(lambda m: m[1] * 2 + r"\${", text)
    return "'" + _BEFORE_QUOTE.sub(lambda m: m[1] * 2 + (r"\'" if m[2] else ""), plain) + "'"
