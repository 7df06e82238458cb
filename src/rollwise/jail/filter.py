"""The system calls a jailed program may make, as a classic BPF program for seccomp. Pure; x86-64 and aarch64.

A list of what is allowed, so that a call nobody thought of is refused: the answer is EPERM. A thread may be started,
a process may not; files are opened by a name; a signal may go to the process itself and to nobody else; limits may be
read and not set; nothing is executed, mounted, traced, connected or owned. `clone3` answers ENOSYS, since its flags lie
in memory that a filter cannot read; the C library then falls back to `clone`. A call of another architecture, or of
x32, kills the process.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# name: number on x86-64, number on aarch64 (Linux headers: asm/unistd_64.h, asm-generic/unistd.h); -1: none there.
PLAIN: dict[str, tuple[int, int]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "stat": (4, -1),
    "fstat": (5, 80),
    "lstat": (6, -1),
    "poll": (7, -1),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "readv": (19, 65),
    "writev": (20, 66),
    "access": (21, -1),
    "pipe": (22, -1),
    "select": (23, -1),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "dup": (32, 23),
    "dup2": (33, -1),
    "pause": (34, -1),
    "nanosleep": (35, 101),
    "getitimer": (36, 102),
    "alarm": (37, -1),
    "setitimer": (38, 103),
    "getpid": (39, 172),
    "exit": (60, 93),
    "uname": (63, 160),
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "ftruncate": (77, 46),
    "getdents": (78, -1),
    "getcwd": (79, 17),
    "chdir": (80, 49),
    "fchdir": (81, 50),
    "rename": (82, -1),
    "unlink": (87, -1),
    "readlink": (89, -1),
    "umask": (95, 166),
    "gettimeofday": (96, 169),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "sysinfo": (99, 179),
    "times": (100, 153),
    "getuid": (102, 174),
    "getgid": (104, 176),
    "geteuid": (107, 175),
    "getegid": (108, 177),
    "getppid": (110, 173),
    "getpgrp": (111, -1),
    "getpgid": (121, 155),
    "getsid": (124, 156),
    "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137),
    "rt_sigsuspend": (130, 133),
    "sigaltstack": (131, 132),
    "arch_prctl": (158, -1),
    "gettid": (186, 178),
    "time": (201, -1),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "epoll_create": (213, -1),
    "getdents64": (217, 61),
    "restart_syscall": (219, 128),
    "fadvise64": (221, 223),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "epoll_wait": (232, -1),
    "epoll_ctl": (233, 21),
    "newfstatat": (262, 79),
    "unlinkat": (263, 35),
    "renameat": (264, 38),
    "readlinkat": (267, 78),
    "faccessat": (269, 48),
    "pselect6": (270, 72),
    "ppoll": (271, 73),
    "set_robust_list": (273, 99),
    "epoll_pwait": (281, 22),
    "eventfd2": (290, 19),
    "epoll_create1": (291, 20),
    "dup3": (292, 24),
    "pipe2": (293, 59),
    "getcpu": (309, 168),
    "renameat2": (316, 276),
    "getrandom": (318, 278),
    "membarrier": (324, 283),
    "statx": (332, 291),
    "rseq": (334, 293),
    "close_range": (436, 436),
    "faccessat2": (439, 439),
}
KILL, TGKILL, FCNTL, IOCTL, CLONE, CLONE3, PRLIMIT, OPENAT, OPEN = range(9)
SPECIAL: tuple[tuple[int, int], ...] = (
    *((62, 129), (234, 131), (72, 25), (16, 29), (56, 220), (435, 435), (302, 261), (257, 56), (2, -1)),
)

# fcntl: duplicate, and the flags of a descriptor. Owners, leases and notifications would send signals to others.
FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030)
# ioctl: TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX.
IOCTL_COMMANDS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
CLONE_THREAD = 0x00010000
TMPFILE = 0x00400000  # the bit of O_TMPFILE that no other flag has: a file without a name, which nobody could count
THREAD_FLAGS = 0x007D0F00  # what the C libraries start a thread with; any other flag, a namespace above all, is refused

ALLOW, KILL_PROCESS, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, ENOSYS = 1, 38
X32 = 0x40000000

LOAD, JUMP, JEQ, JGE, JSET, RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06  # classic BPF, 32-bit words
NUMBER, ARCH = 0, 4  # offsets in struct seccomp_data


class Instruction(NamedTuple):
    code: int
    jump_true: int
    jump_false: int
    value: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """What `platform.machine()` names, as the kernel's filter sees it."""

    audit: int
    column: int  # in the tables above


ARCHITECTURES: Mapping[str, Architecture] = {
    "x86_64": Architecture(0xC000003E, 0),
    "aarch64": Architecture(0xC00000B7, 1),
}


def argument(index: int, *, high: bool = False) -> int:
    """Offset of a word of a system call's argument; both architectures are little-endian."""
    return 16 + 8 * index + (4 if high else 0)


def seccomp_program(machine: str, pid: int) -> list[Instruction]:
    """The filter for the process `pid`. Raises KeyError for a machine that has no table."""
    arch = ARCHITECTURES[machine]
    special = [numbers[arch.column] for numbers in SPECIAL]
    plain = [n[arch.column] for n in PLAIN.values() if n[arch.column] >= 0]
    out = [
        Instruction(LOAD, 0, 0, ARCH),
        Instruction(JEQ, 1, 0, arch.audit),
        Instruction(RETURN, 0, 0, KILL_PROCESS),
        Instruction(LOAD, 0, 0, NUMBER),
    ]
    if machine == "x86_64":
        out += [Instruction(JGE, 0, 1, X32), Instruction(RETURN, 0, 0, KILL_PROCESS)]
    out += [Instruction(JEQ, len(plain) - i, 0, number) for i, number in enumerate(plain)]
    out += [Instruction(JUMP, 0, 0, 1), Instruction(RETURN, 0, 0, ALLOW)]
    allow, refuse = Instruction(RETURN, 0, 0, ALLOW), Instruction(RETURN, 0, 0, ERRNO | EPERM)

    def one_of(number: int, offset: int, values: Sequence[int]) -> list[Instruction]:
        checks = [Instruction(JEQ, len(values) - i, 0, v) for i, v in enumerate(values)]
        return guarded(number, [Instruction(LOAD, 0, 0, offset), *checks, refuse, allow])

    def guarded(number: int, body: list[Instruction]) -> list[Instruction]:
        return [Instruction(JEQ, 0, len(body), number), *body]

    out += one_of(special[KILL], argument(0), [pid])  # pid_t is 32 bits wide
    out += one_of(special[TGKILL], argument(0), [pid])
    out += one_of(special[FCNTL], argument(1), FCNTL_COMMANDS)
    out += one_of(special[IOCTL], argument(1), IOCTL_COMMANDS)
    thread = [
        Instruction(LOAD, 0, 0, argument(0, high=True)),
        Instruction(JEQ, 0, 3, 0),
        Instruction(LOAD, 0, 0, argument(0)),
        Instruction(JSET, 1, 0, 0xFFFFFFFF ^ THREAD_FLAGS),
        Instruction(JSET, 1, 0, CLONE_THREAD),
        refuse,
        allow,
    ]
    out += guarded(special[CLONE], thread)
    out += guarded(special[CLONE3], [Instruction(RETURN, 0, 0, ERRNO | ENOSYS)])
    reading = [
        Instruction(LOAD, 0, 0, argument(2)),
        Instruction(JEQ, 0, 2, 0),
        Instruction(LOAD, 0, 0, argument(2, high=True)),
        Instruction(JEQ, 1, 0, 0),
        refuse,
        allow,
    ]
    out += guarded(special[PRLIMIT], reading)
    for call, flags in ((OPENAT, 2), (OPEN, 1)):
        named = [Instruction(LOAD, 0, 0, argument(flags)), Instruction(JSET, 0, 1, TMPFILE), refuse, allow]
        out += guarded(special[call], named) if special[call] >= 0 else []
    out.append(refuse)
    return out


def packed(program: Sequence[Instruction]) -> bytes:
    """As an array of `struct sock_filter`."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
