"""The user's own file of reward functions: found, read and run before a model is loaded.

The file is trusted code, as any script of the user's: it runs in this process with all its rights. What it prints
goes to standard error, so that standard output stays ours.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
import types
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollwise.errors import UserError, nearest, show
from rollwise.verify.time_limit import OverTime, limited

LIMIT = "reward.seconds"
EXAMPLE = "give it as file.py:function"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of the user's file, under the name the user gave it."""

    name: str  # of the function
    where: str  # file.py:function, for error lines
    call: Callable[..., Any]
    digest: str  # sha256 of the file, in hex


def split_name(spec: str) -> tuple[Path, str]:
    """The file and the function of `file.py:function`. Raises UserError."""
    file, colon, name = spec.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise UserError(f"reward: {show(spec, 80)} names no function; {EXAMPLE}")
    return Path(file).expanduser(), name


def load_function(spec: str, seconds: float | None = None) -> Function:
    """The function that `file.py:function` names, its file run once, for which it may take `seconds`. Raises UserError:
    one line with the file, the line where there is one, and what is wrong."""
    path, name = split_name(spec)
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise UserError(f"reward: {path}: is no file; {EXAMPLE}")
        source = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise UserError(f"reward: {path}: cannot be read ({reason}); {EXAMPLE}") from None
    names = vars(_run(path, source, seconds))
    if name not in names:
        known = [n for n, v in names.items() if callable(v) and not n.startswith("_")]
        hint = nearest(name, known) if known else "it defines none"
        raise UserError(f"reward: {path}: no function '{name}'; {hint}")
    if not callable(names[name]):
        raise UserError(f"reward: {path}: '{name}' is {show(names[name])}; it must be a function")
    return Function(name=name, where=spec, call=names[name], digest=hashlib.sha256(source).hexdigest())


def _run(path: Path, source: bytes, seconds: float | None) -> types.ModuleType:
    """The file as a module. Not by the import system, whose cache can hold an older text of the same size and time."""
    module = types.ModuleType(f"rollwise_reward_{hashlib.sha256(bytes(path.absolute())).hexdigest()[:12]}")
    module.__file__ = str(path)
    folder = str(path.absolute().parent)
    if folder not in sys.path:  # at the end: files beside it can be imported, and hide nothing that is installed
        sys.path.append(folder)
    sys.modules[module.__name__] = module  # dataclasses and the like look there
    try:
        code = compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        at = f" line {error.lineno}" if error.lineno else ""
        raise UserError(f"reward: {path}{at}: not valid Python ({error.msg})") from None
    except ValueError as error:  # zero bytes; later versions call them a SyntaxError
        raise UserError(f"reward: {path}: not valid Python ({error})") from None
    try:
        with redirect_stdout(sys.stderr):
            limited(lambda: exec(code, module.__dict__), seconds, LIMIT)
    except OverTime as error:
        raise UserError(f"reward: {path}{_line(error, path)}: running it {error}") from None
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise UserError(f"reward: {path}{_line(error, path)}: running it raised {what[:200]}") from None
    return module


def _line(error: BaseException, path: Path) -> str:
    """The last line of the file that the error went through."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f" line {lines[-1]}" if lines else ""
