"""The launcher: a small process without threads that forks a child for each program. Executed by path, never imported.

It never sees a program: the child is handed its own connection, gives up its rights, and only then reads from it. The
messages on its connection are JSON datagrams: an order comes with the child's four descriptors (stdin, stdout, frames,
scratch), is answered with the pid, and later with the child's end. When the connection closes it kills what it started
and ends.
"""

from __future__ import annotations

import array
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import types

if __name__ == "__main__":
    # The package by its folder: the bare interpreter finds no installed packages, and this runs nothing but the jail.
    _package = types.ModuleType("rollwise")
    _package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    sys.modules["rollwise"] = _package

from rollwise.jail import child
from rollwise.jail.restrict import Kernel, Limits, die_with_parent, landlock, limit, seccomp

CONTROL = 3
# What programs use most is loaded before they are forked, so that they find it there.
PRELOAD = (
    "bisect collections contextlib copy dataclasses datetime decimal enum fractions functools heapq itertools math "
    "operator queue re statistics string textwrap time typing"
)
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")


class Zygote:
    def __init__(
        self, connection: int, layers: list[str], newest: int, scratch: str | None, packages: list[str]
    ) -> None:
        self.layers = layers
        self.scratch = scratch  # a folder of the launcher's own file system, in place of the one that is handed over
        if connection != CONTROL:  # 0 to 3 stay taken, so that nothing opened later has a number the child needs
            os.dup2(connection, CONTROL, inheritable=False)
            os.close(connection)
        self.connection = socket.socket(fileno=CONTROL)
        self.kernel = Kernel(newest)
        self.children: dict[int, int] = {}  # pidfd: pid
        self.read = _opened([*_library(), *packages]) if "landlock" in layers else []
        self.null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)

    def run(self) -> None:
        """Until the connection closes."""
        try:
            while True:
                ready, _, _ = select.select([CONTROL, *self.children], [], [])
                for fd in ready:
                    if fd in self.children:
                        self.reap(fd)
                if CONTROL in ready and not self.message():
                    return
        finally:
            for fd in list(self.children):
                self.kill(self.children[fd])

    def message(self) -> bool:
        size = array.array("i").itemsize
        data, ancillary, _, _ = self.connection.recvmsg(1 << 16, socket.CMSG_SPACE(4 * size))
        if not data:
            return False
        request = json.loads(data)
        if "kill" in request:
            self.kill(request["kill"])
            return True
        fds = array.array("i")
        for _, kind, body in ancillary:
            if kind == socket.SCM_RIGHTS:
                fds.frombytes(body[: len(body) - len(body) % size])
        try:
            self.reply({"pid": self.spawn(list(fds), Limits(**request["limits"]))})
        except OSError as error:
            self.reply({"failed": f"fork: {error.strerror}"})
        for fd in fds:
            os.close(fd)
        return True

    def reply(self, message: dict[str, object]) -> None:
        self.connection.send(json.dumps(message).encode())

    def spawn(self, fds: list[int], limits: Limits) -> int:
        """Forks; only the parent returns."""
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self.become(fds, limits, parent)
            finally:
                os._exit(1)
        self.children[os.pidfd_open(pid)] = pid
        return pid

    def become(self, fds: list[int], limits: Limits, parent: int) -> None:
        stdin, stdout, frames, scratch = fds
        if self.scratch is not None:
            scratch = os.open(self.scratch, os.O_RDONLY | os.O_DIRECTORY)
        os.setsid()
        highest = max([*fds, scratch, self.null, *self.read]) + 1
        kept = [os.dup2(fd, highest + i) for i, fd in enumerate((stdin, stdout, self.null, frames))]
        for number, fd in enumerate(kept):  # in two goes, since a descriptor may have one of the numbers 0 to 3
            os.dup2(fd, number)

        def give_up_rights() -> None:
            die_with_parent(self.kernel, parent)
            os.fchdir(scratch)
            if "landlock" in self.layers:
                landlock(self.kernel, self.read, scratch, write=[self.null])
            os.closerange(4, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 16))
            signal.signal(signal.SIGINT, signal.default_int_handler)
            limit(limits)
            if "seccomp" in self.layers:
                self.kernel.drop_capabilities()
                seccomp(self.kernel)

        child.main(give_up_rights)

    def kill(self, pid: int) -> None:
        """Of a child that is not reaped yet, so that the number cannot be another's."""
        if pid in self.children.values():
            for send in (os.killpg, os.kill):
                try:
                    send(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue

    def reap(self, fd: int) -> None:
        pid = self.children[fd]
        self.kill(pid)  # what it left behind in its group, where the tier lets it start anything
        _, status = os.waitpid(pid, 0)
        del self.children[fd]
        os.close(fd)
        self.reply({"exit": pid, "status": os.waitstatus_to_exitcode(status)})


def _library() -> list[str]:
    """The standard library without installed packages, and the system's shared libraries."""
    home = os.path.dirname(os.__file__)
    inside = [os.path.join(home, name) for name in os.listdir(home) if name not in ("site-packages", "dist-packages")]
    beside = [os.path.join(os.path.dirname(home), n) for n in os.listdir(os.path.dirname(home)) if ".so" in n]
    return [*LIBRARIES, *inside, *beside, "/dev/urandom"]


def _opened(paths: list[str]) -> list[int]:
    return [os.open(p, os.O_PATH | os.O_CLOEXEC) for p in paths if os.path.exists(p)]


def main() -> None:
    for name in PRELOAD.split():
        __import__(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    settings = json.loads(sys.argv[1])
    sys.path += settings["packages"]
    Zygote(int(sys.argv[2]), **settings).run()


if __name__ == "__main__":
    main()
