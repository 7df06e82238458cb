"""The seccomp filter, run by a small interpreter of classic BPF: what passes, on both architectures."""

from __future__ import annotations

import struct

import pytest

from rollwise.jail.filter import ARCHITECTURES, PLAIN, SPECIAL, Instruction, packed, seccomp_program

PID = 4242
ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
MACHINES = sorted(ARCHITECTURES)
# Numbers of calls that must never pass, from the kernel's headers: (x86-64, aarch64).
REFUSED: dict[str, tuple[int, int | None]] = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "openat2": (437, 437),
    "creat": (85, None),
    "truncate": (76, 45),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "fsetxattr": (190, 7),
    "link": (86, None),
    "linkat": (265, 37),
    "symlinkat": (266, 36),
    "mknodat": (259, 33),
    "mkdirat": (258, 34),
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "userfaultfd": (323, 282),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "mq_open": (240, 180),
    "setrlimit": (160, 164),
    "setuid": (105, 146),
    "capset": (126, 91),
    "prctl": (157, 167),
    "seccomp": (317, 277),
    "personality": (135, 92),
    "reboot": (169, 142),
    "init_module": (175, 105),
    "kexec_load": (246, 104),
    "quotactl": (179, 60),
    "setpriority": (141, 140),
    "sched_setaffinity": (203, 122),
    "not yet invented": (500, 500),
}


def run(program: list[Instruction], data: bytes) -> int:
    """What the kernel would answer to a `struct seccomp_data`."""
    accumulator, at = 0, 0
    while True:
        code, yes, no, value = program[at]
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif code == 0x05:
            at += value
        elif code == 0x06:
            return value
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            at += yes if holds else no


def answer(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    audit = ARCHITECTURES[machine].audit if arch is None else arch
    padded = [*arguments, *[0] * (6 - len(arguments))]
    return run(seccomp_program(machine, PID), struct.pack("=iIQ6Q", number, audit, 0, *padded))


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_that_must_not_pass(machine: str) -> None:
    column = ARCHITECTURES[machine].column
    numbers = {name: pair[column] for name, pair in REFUSED.items()}
    passed = [name for name, n in numbers.items() if n is not None and answer(machine, n) != EPERM]
    assert passed == []


@pytest.mark.parametrize("machine", MACHINES)
def test_plain_calls_pass(machine: str) -> None:
    column = ARCHITECTURES[machine].column
    numbers = [n[column] for n in PLAIN.values() if n[column] >= 0]
    assert len(numbers) == len(set(numbers))
    assert {answer(machine, n) for n in numbers} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_that_depend_on_their_arguments(machine: str) -> None:
    kill, tgkill, fcntl, ioctl, clone, clone3, prlimit, openat, plain = (
        n[ARCHITECTURES[machine].column] for n in SPECIAL
    )
    everyone, group = 2**64 - 1, 0
    assert answer(machine, kill, PID, 9) == answer(machine, tgkill, PID, 77, 9) == ALLOW
    for other in (PID + 1, 1, everyone, group, 2**32 + PID + 1):
        assert answer(machine, kill, other, 0) == answer(machine, tgkill, other, 1, 0) == EPERM
    assert answer(machine, fcntl, 3, 1) == ALLOW
    assert {answer(machine, fcntl, 3, c) for c in (8, 10, 15, 1024, 1026, 1033)} == {EPERM}  # owners, leases, seals
    assert answer(machine, ioctl, 0, 0x5401) == ALLOW
    assert {answer(machine, ioctl, 0, c) for c in (0x5412, 0x40086602, 0x8901)} == {EPERM}  # TIOCSTI, file flags
    thread = 0x003D0F00
    assert answer(machine, clone, thread) == answer(machine, clone, thread | 0x400000) == ALLOW
    assert answer(machine, clone, 17) == answer(machine, clone, 0x4111) == EPERM  # fork, vfork
    spaces = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
    assert {answer(machine, clone, thread | s) for s in spaces} == {EPERM}
    assert answer(machine, clone3, 0, 88) == ENOSYS
    assert answer(machine, prlimit, 0, 7, 0, 1 << 40) == ALLOW
    assert answer(machine, prlimit, 0, 7, 1 << 40, 0) == answer(machine, prlimit, 0, 7, 4096, 0) == EPERM
    unnamed = {0x400000, 0x410000, 0x404000, 0x410002}
    for flags in (0, 0o101, 0o2101, 0x10000, 0x4000, 0x80000):
        assert answer(machine, openat, 3, 1 << 40, flags) == ALLOW
        assert plain < 0 or answer(machine, plain, 1 << 40, flags) == ALLOW
    assert {answer(machine, openat, 3, 1 << 40, flags) for flags in unnamed} == {EPERM}
    assert plain < 0 or {answer(machine, plain, 1 << 40, flags) for flags in unnamed} == {EPERM}


def test_other_architectures_and_x32_are_killed() -> None:
    assert answer("x86_64", 0, arch=0x40000003) == KILL  # i386
    assert answer("aarch64", 63, arch=0x40000028) == KILL  # arm
    assert answer("x86_64", 0x40000000) == answer("x86_64", 0x40000000 | 59) == KILL


def test_a_filter_fits_the_kernel() -> None:
    for machine in MACHINES:
        program = seccomp_program(machine, PID)
        assert len(program) <= 4096 and len(packed(program)) == 8 * len(program)
        assert all(0 <= i.jump_true < 256 and 0 <= i.jump_false < 256 for i in program)
