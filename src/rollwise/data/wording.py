"""What an error of the data recommends, in the words of the command that was typed.

Errors name settings of a run: `task_args.map.gold=answer`. A command with flags for them is told of its flags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from rollwise.errors import UserError

SETTING = re.compile(r"(?<!--set )(?<![\w.])task_args\.(\w+)=")


def in_flags(text: str, verifier: str = "--verifier") -> str:
    """With `--map`, the flag that names a verifier, and `--set` for any other setting that is recommended."""
    text = re.sub(r"task_args\.map\.", "--map ", text)
    text = re.sub(r"task_args\.map\b", "--map", text)
    text = re.sub(r"task_args\.verifier=", f"{verifier} ", text)
    text = re.sub(r"task_args\.verifier\b", verifier, text)
    return SETTING.sub(r"--set task_args.\1=", text)


@contextmanager
def flags(verifier: str = "--verifier") -> Iterator[None]:
    """Errors raised inside are in the words of flags."""
    try:
        yield
    except UserError as error:
        raise UserError(in_flags(str(error), verifier)) from None
