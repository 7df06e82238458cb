"""Taking rights away from the present process, for good: Landlock, seccomp, limits, capabilities. Linux, by ctypes.

Every step raises `RestrictError` where the kernel refuses it; the caller must then end the process. What a kernel does
not know of Landlock (`missing`) is made up for by the seccomp filter, as far as the comment on each line says.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from rollwise.jail.filter import ARCHITECTURES, packed, seccomp_program

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same numbers on both architectures
SET_PDEATHSIG, SET_SECCOMP, SET_NO_NEW_PRIVS = 1, 22, 38
MODE_FILTER = 2

WRITE_FILE, READ_FILE, READ_DIR, REMOVE_FILE, MAKE_REG, TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 5, 1 << 8, 1 << 14
READ = READ_FILE | READ_DIR
SCRATCH = READ | WRITE_FILE | REMOVE_FILE | MAKE_REG | TRUNCATE  # no execution, folders, links, sockets or pipes
FILE_RIGHTS = WRITE_FILE | READ_FILE | TRUNCATE
NEWEST = 7

# What each version of Landlock added, and who refuses it where the kernel is older.
ADDED: tuple[tuple[int, str], ...] = (
    (2, "moving files between folders (Landlock 1 refuses it always)"),
    (3, "truncation by path (refused by the seccomp filter)"),
    (4, "TCP (refused by the seccomp filter, as all sockets are)"),
    (5, "ioctl on devices (refused by the seccomp filter but for six harmless commands; no device can be opened)"),
    (6, "signals and abstract sockets (refused by the seccomp filter)"),
)


class RestrictError(Exception):
    """A right could not be taken away."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use of the machine. MB is 2**20 bytes."""

    memory_mb: int = 512  # address space
    cpu_seconds: int = 10
    file_bytes: int = 4 << 20  # of one file
    open_files: int = 64


def fs_rights(abi: int) -> int:
    """All file rights that a ruleset of this version can handle; handled and not granted is refused."""
    return (1 << (13 if abi < 2 else 14 if abi < 3 else 15 if abi < 5 else 16)) - 1


def missing(abi: int) -> tuple[str, ...]:
    """What Landlock of this version does not govern."""
    return tuple(f"Landlock {abi} does not govern {what}" for version, what in ADDED if abi < version)


class Kernel:
    """The system calls used here. `newest` holds the version of Landlock down, as on an older kernel; 0: none."""

    def __init__(self, newest: int = NEWEST) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._newest = newest

    def call(self, number: int, *arguments: object) -> int:
        """A system call by number. Raises OSError."""
        converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
        result: int = self._libc.syscall(ctypes.c_long(number), *converted)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    def prctl(self, option: int, value: int, more: object = 0) -> None:
        """Raises RestrictError."""
        third = ctypes.c_ulong(more) if isinstance(more, int) else more
        zero = ctypes.c_ulong(0)
        if self._libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), third, zero, zero) != 0:
            raise RestrictError(f"prctl {option}: {os.strerror(ctypes.get_errno())}")

    def abi(self) -> int:
        """The version of Landlock in use, 0 where there is none."""
        try:
            found = self.call(CREATE_RULESET, 0, 0, 1)
        except OSError:
            return 0
        return min(found, self._newest)

    def drop_capabilities(self) -> None:
        """Empties all sets of the process, so that root inside is nobody in particular. Raises RestrictError."""
        header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0), 8)
        empty = ctypes.create_string_buffer(24)
        if self._libc.capset(header, empty) != 0:
            raise RestrictError(f"capset: {os.strerror(ctypes.get_errno())}")


def limit(limits: Limits) -> None:
    """Hard limits, which nothing in the jail can raise again."""
    wanted = {
        resource.RLIMIT_AS: limits.memory_mb << 20,
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CORE: 0,
    }
    for name, value in wanted.items():
        _, hard = resource.getrlimit(name)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))


def die_with_parent(kernel: Kernel, parent: int) -> None:
    """Asks to be killed when the process `parent` ends. Raises RestrictError where it already has."""
    kernel.prctl(SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise RestrictError("the launcher is gone")


def landlock(kernel: Kernel, read: Sequence[int], scratch: int, write: Sequence[int] = ()) -> None:
    """Only what is beneath the open folders and files `read` can be read, `write` also written, and files made beneath
    `scratch`; no TCP, no signals outside. All are descriptors. Raises RestrictError."""
    abi = kernel.abi()
    if abi < 1:
        raise RestrictError("this kernel has no Landlock")
    handled = fs_rights(abi)
    fields = [handled, *([3] if abi >= 4 else []), *([3] if abi >= 6 else [])]  # TCP bind, connect; sockets, signals
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    try:
        rules = kernel.call(CREATE_RULESET, ctypes.c_char_p(attributes), len(attributes), 0)
        for fd, rights in [
            *((fd, READ) for fd in read),
            *((fd, READ | WRITE_FILE) for fd in write),
            (scratch, SCRATCH),
        ]:
            if not _is_folder(fd):
                rights &= FILE_RIGHTS
            beneath = struct.pack("=Qi", rights & handled, fd)
            kernel.call(ADD_RULE, rules, 1, ctypes.c_char_p(beneath), 0)
        kernel.prctl(SET_NO_NEW_PRIVS, 1)
        kernel.call(RESTRICT_SELF, rules, 0)
        os.close(rules)
    except OSError as error:
        raise RestrictError(f"Landlock: {error.strerror}") from None


def _is_folder(fd: int) -> bool:
    return os.fstat(fd).st_mode & 0o170000 == 0o040000


def seccomp(kernel: Kernel) -> None:
    """Installs the filter of `filter.py`. Raises RestrictError."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise RestrictError(f"no seccomp filter for {machine}")
    code = packed(seccomp_program(machine, os.getpid()))
    body = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(body)))
    kernel.prctl(SET_NO_NEW_PRIVS, 1)
    kernel.prctl(SET_SECCOMP, MODE_FILTER, program)
