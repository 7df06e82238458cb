"""The parent's end of a launcher: starting one for a tier, and handing it descriptors."""

from __future__ import annotations

import array
import contextlib
import dataclasses
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rollwise.errors import UserError
from rollwise.jail.restrict import NEWEST, Kernel, Limits

TierName = Literal["landlock", "bwrap", "none"]
REPLY_SECONDS = 20.0  # for a launcher to start or to answer; far above what either takes
HERE = Path(__file__).parent
SCRATCH = "/scratch"
SCRATCH_BYTES = 64 << 20
# All that a program can see of it. One thread for numerical packages: each of theirs reserves address space.
ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PATH": "/usr/bin:/bin",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


class LauncherError(Exception):
    """The launcher failed or is gone: nothing is known of the program."""


@dataclass(frozen=True, slots=True)
class Tier:
    """A way to jail a program. `layers` are applied inside the launcher's children."""

    name: TierName
    layers: tuple[str, ...]
    prefix: tuple[str, ...] = ()  # the command that the launcher runs under
    single: bool = False  # a launcher of its own for each program
    scratch: str | None = None  # a folder that exists only inside
    newest: int = NEWEST  # version of Landlock not to be exceeded; 0: as if there were none
    packages: tuple[str, ...] = ()  # folders of installed packages that programs may import from


def make_tier(name: TierName, newest: int = NEWEST, *, installed: bool = False) -> Tier:
    """The tier `name` on this machine; `installed`: programs may import the packages of this environment. Raises
    UserError where something it needs is missing."""
    if sys.platform != "linux":
        raise UserError(f"code jail: tier {name} needs Linux, this is {sys.platform}; programs are not run here")
    folders = dict.fromkeys(p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages"))
    packages = tuple(p for p in folders if os.path.isdir(p)) if installed else ()
    if name == "none":
        return Tier("none", (), newest=newest, packages=packages)
    abi = Kernel(newest).abi()
    if name == "landlock":
        if abi < 1:
            raise UserError(
                "code jail: tier landlock needs a kernel with Landlock (Linux 5.13 or newer, enabled at boot, not shut "
                "off by the container); install bubblewrap and set tier to bwrap, or use another machine"
            )
        return Tier("landlock", ("landlock", "seccomp"), newest=newest, packages=packages)
    command = shutil.which("bwrap")
    if command is None:
        raise UserError("code jail: tier bwrap needs the command bwrap; install the package bubblewrap")
    layers = ("landlock", "seccomp") if abi >= 1 else ("seccomp",)
    prefix = bubblewrap(command, packages)
    return Tier("bwrap", layers, prefix, single=True, scratch=SCRATCH, newest=newest, packages=packages)


def python() -> str:
    """The interpreter without its virtual environment."""
    return os.path.realpath(sys.executable)


def bubblewrap(command: str, packages: Sequence[str]) -> tuple[str, ...]:
    """New namespaces of every kind, no network, and a file system of the interpreter, the libraries and a bounded
    scratch folder."""
    out = [command, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for folder in ("/usr", "/lib", "/lib64", "/bin", sys.base_prefix, str(HERE), *packages):
        out += ["--ro-bind-try", folder, folder]
    out += ["--dev", "/dev", "--size", str(SCRATCH_BYTES), "--tmpfs", SCRATCH, "--chdir", SCRATCH, "--"]
    return tuple(out)


def ready(fds: Sequence[int], seconds: float, *, to_write: bool = False) -> set[int]:
    """Those of `fds` that can be read, or written, within `seconds`. By poll: a trainer may have 1,024 files open."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLOUT if to_write else select.POLLIN)
    return {fd for fd, _ in poll.poll(1000 * max(seconds, 0))}


def threads_of(pid: int, most: int) -> int:
    """Threads of a process, `most` and one at most."""
    try:
        with os.scandir(f"/proc/{pid}/task") as entries:
            return sum(1 for _ in zip(range(most + 1), entries, strict=False))
    except OSError:  # it is gone
        return 0


def beneath(pid: int) -> list[int]:
    """The processes that `pid` and its children started, as the kernel lists them; none where it does not."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(word) for word in file.read().split()]
    except OSError:
        return []
    return [*children, *(p for child in children for p in beneath(child))]


class Launcher:
    """A running launcher. For one thread at a time."""

    def __init__(self, tier: Tier) -> None:
        self.tier = tier
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection = ours
        self._exits: dict[int, dict[str, Any]] = {}
        options = json.dumps(
            {"layers": tier.layers, "newest": tier.newest, "scratch": tier.scratch, "packages": tier.packages}
        )
        interpreter = [python(), "-s", "-S", "-P", "-B", "-X", "utf8", str(HERE / "zygote.py"), options]
        try:
            self.process = subprocess.Popen(
                [*tier.prefix, *interpreter, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=ENVIRONMENT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                cwd="/",
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()

    @property
    def descriptor(self) -> int:
        """Of the connection. Raises LauncherError where another thread has closed it."""
        if (fd := self.connection.fileno()) < 0:
            raise LauncherError("the launcher was closed")
        return fd

    def spawn(self, fds: Sequence[int], limits: Limits) -> int:
        """A child with these descriptors: stdin, stdout, frames, scratch. Raises LauncherError."""
        request = json.dumps({"limits": dataclasses.asdict(limits)}).encode()
        try:
            self.connection.sendmsg(
                [request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())]
            )
        except OSError as error:
            raise LauncherError(f"launcher: {error.strerror}") from None
        deadline = time.monotonic() + REPLY_SECONDS
        while True:
            message = self._read(deadline - time.monotonic())
            if "pid" in message:
                return int(message["pid"])
            if "failed" in message:
                raise LauncherError(str(message["failed"]))

    def ended(self, pid: int) -> dict[str, Any] | None:
        """How the child `pid` ended, if it has: `status`, negative for a signal. Raises LauncherError."""
        while pid not in self._exits and ready([self.descriptor], 0):
            self._read(0)
        return self._exits.get(pid)

    def threads(self, pid: int, most: int) -> int:
        """Threads of the child `pid`, `most` and one at most; where it has a number of its own inside, of all that the
        launcher of that one program started."""
        own = beneath(self.process.pid) if self.tier.single else [pid]
        return max((threads_of(p, most) for p in own), default=0)

    def finish(self, pid: int) -> dict[str, Any]:
        """Kills the child if it still runs; returns once it is gone. Raises LauncherError."""
        if self.ended(pid) is None:
            with contextlib.suppress(OSError):
                self.connection.send(json.dumps({"kill": pid}).encode())
            deadline = time.monotonic() + REPLY_SECONDS
            while pid not in self._exits:
                self._read(deadline - time.monotonic())
        return self._exits.pop(pid)

    def _read(self, seconds: float) -> dict[str, Any]:
        """The next message; ends are also remembered. Raises LauncherError."""
        if not ready([self.descriptor], seconds):
            raise LauncherError("the launcher does not answer")
        try:
            data = self.connection.recv(1 << 16)
        except OSError as error:
            raise LauncherError(f"launcher: {error.strerror}") from None
        if not data:
            raise LauncherError("the launcher is gone")
        message: dict[str, Any] = json.loads(data)
        if "exit" in message:
            self._exits[message["exit"]] = message
        return message

    def close(self) -> None:
        """Ends the launcher and whatever it started."""
        self.connection.close()
        try:
            self.process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
