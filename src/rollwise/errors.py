"""The one exception a user is meant to see.

A `UserError` is one line: what is wrong, where, and what would be right. The command line prints it and exits with
status 2. Bugs raise anything else and keep their traceback.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can put right: a setting, a path, a data row. The message is one line."""


class PromptTooLong(UserError):
    """A prompt of more tokens than a model may be asked."""

    def __init__(self, text: str, tokens: int) -> None:
        super().__init__(text)
        self.tokens = tokens


_brief = reprlib.Repr()
_brief.maxstring = _brief.maxlong = _brief.maxother = 60
_brief.maxlevel = 3


def show(value: object, width: int = 40) -> str:
    """A value of any size as a few characters of an error line, without ever writing it out whole."""
    text = _brief.repr(value)
    return text if len(text) <= width else text[: width - 3] + "..."


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or the list of what is known where nothing is near. For the tail of an error line."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.55)
    if close:
        return f"did you mean '{close[0]}'?"
    return "known: " + ", ".join(names)
