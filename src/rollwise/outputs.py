"""A file whose name a user gave, to be written: whole or not at all, and never in place of what is no file."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from rollwise.errors import UserError

STREAMS = ("/dev/std", "/dev/fd/", "/proc/")  # names of what is open already, which must not be replaced


@contextlib.contextmanager
def whole(file: str | Path) -> Iterator[BinaryIO]:
    """A stream of bytes. A file stands under its name once all is written, with the rights of the one it takes the
    place of; what a link points to is written, the link stays. A device or pipe is written to as it is.

    Raises UserError: a folder, a disk, or what cannot be written.
    """
    try:
        mode = _mode(file)
        if mode is not None and stat.S_ISDIR(mode):
            raise UserError(f"{file}: is a folder; give the name of a file")
        straight = mode is not None and not stat.S_ISREG(mode)
        if straight and not (stat.S_ISCHR(mode or 0) or stat.S_ISFIFO(mode or 0)):
            raise UserError(f"{file}: cannot be written (neither a file nor a stream); give the name of a file")
        if straight or str(Path(file).absolute()).startswith(STREAMS):
            stream: BinaryIO = open(os.open(file, os.O_WRONLY), "wb")  # noqa: SIM115
            temp = None
        else:
            target = Path(os.path.realpath(file))
            handle, temp = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.", suffix=".part")
            stream = open(handle, "wb")  # noqa: SIM115
    except OSError as error:
        raise _unwritable(file, error) from None
    try:
        with stream:
            yield stream
            if temp is None:
                return
            try:
                stream.flush()
                os.fchmod(stream.fileno(), _rights() if mode is None else stat.S_IMODE(mode) & 0o777)
            except OSError as error:
                raise _unwritable(file, error) from None
        try:
            os.replace(temp, target)
        except OSError as error:
            raise _unwritable(file, error) from None
    finally:
        if temp is not None:
            Path(temp).unlink(missing_ok=True)


def same_place(a: str | Path, b: str | Path) -> bool:
    """Whether two names are of one file, which one of them would then lose. Devices and pipes take from both."""
    try:
        modes = _mode(a), _mode(b)
        if None not in modes:
            return os.path.samefile(a, b) and stat.S_ISREG(modes[0] or 0)
    except OSError:  # whoever opens them says why
        return False
    return os.path.realpath(a) == os.path.realpath(b)


def _mode(file: str | Path) -> int | None:
    """What stands under a name, its links followed; None where nothing does."""
    try:
        return os.stat(file).st_mode
    except FileNotFoundError:
        return None


def _rights() -> int:
    """Those of a new file."""
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _unwritable(file: str | Path, error: OSError) -> UserError:
    return UserError(f"{file}: cannot be written ({error.strerror}); give a path in a folder")
