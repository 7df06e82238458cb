"""A user's error on its way from the trainer to the command that verl was started with.

Ray and Hydra print where it was raised, and an advice of theirs below. The exception is pickled on that way: where it
arrives, its line is put at the end of what the process prints.
"""

from __future__ import annotations

import atexit
import sys
from typing import Any

from rollwise.errors import UserError


class Refused(UserError):
    """A user's error of a verl run."""

    def __reduce__(self) -> Any:
        return arrived, (str(self),)


def arrived(text: str) -> Refused:
    """The error in another process, which will end with its line."""
    atexit.register(_say, text)
    return Refused(text)


def _say(text: str) -> None:
    print(f"rollwise: error: {text}", file=sys.stderr, flush=True)
