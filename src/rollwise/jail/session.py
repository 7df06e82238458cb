"""One program in the jail, seen from outside: bytes in, bytes and frames out, and a deadline that holds."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import struct
import tempfile
import time
from dataclasses import dataclass
from typing import Any, Literal

from rollwise.jail.launch import Launcher, LauncherError, ready
from rollwise.jail.restrict import Limits

READY_SECONDS = 20.0
POLL_SECONDS = 0.1  # between two looks at the scratch folder and the threads, whatever the program does meanwhile
SCRATCH_FILES = 64  # with the limit on one file this bounds the disk
THREADS = 64
SCRIPT_FRAMES = 16  # a script has one to send at most; whatever sends more does so to keep us busy
Event = Literal["frame", "exit", "time", "output", "files", "threads"]


@dataclass(frozen=True, slots=True)
class Ran:
    """What a script did. `how` is `exit` where it ended by itself, else the limit that ended it."""

    stdout: bytes
    how: Event
    status: int = 0  # exit status, negative: killed by that signal
    error: str = ""  # class of the exception that ended it, as the program's own process told it


class Session:
    """A jailed process. Use as a context manager: nothing of it is left afterwards.

    Raises LauncherError where the launcher fails, and only then: whatever the program does is an event.
    """

    def __init__(self, launcher: Launcher, limits: Limits, output_bytes: int, stdin: bytes | None = None) -> None:
        self._launcher, self._cap = launcher, output_bytes
        self._stdout, self._frames = bytearray(), bytearray()
        self._looked = time.monotonic()
        self._folder = tempfile.mkdtemp(prefix=f"rollwise-{secrets.token_hex(8)}-")
        self._pid: int | None = None
        self._control, theirs = socket.socketpair()
        opened = [theirs.fileno()]
        try:
            self._out = -1
            if stdin is None:
                given = wanted = os.open(os.devnull, os.O_RDWR)
                opened.append(given)
            else:
                given = _memory_file(stdin)
                opened.append(given)
                self._out, wanted = os.pipe()
                opened.append(wanted)
                os.set_blocking(self._out, False)
            scratch = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            opened.append(scratch)
            self._pid = launcher.spawn([given, wanted, theirs.fileno(), scratch], limits)
        except BaseException:
            self.close()
            raise
        finally:
            for fd in opened[1:]:
                os.close(fd)
            theirs.close()
        self._control.setblocking(False)
        self._streams = [self._control.fileno(), *([self._out] if self._out >= 0 else [])]
        self._begin()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kills the process if it still runs, and removes its scratch folder without following links."""
        try:
            if self._pid is not None:
                pid, self._pid = self._pid, None
                self._launcher.finish(pid)
        finally:
            self._control.close()
            if self._out >= 0:
                os.close(self._out)
                self._out = -1
            shutil.rmtree(self._folder, ignore_errors=True)

    def _begin(self) -> None:
        """Waits until the process has given up its rights. Only then is it told anything."""
        try:
            event = self.wait(time.monotonic() + READY_SECONDS)
            frame = self.take() if event == "frame" else {}
            if frame.get("ready") is not True:
                raise LauncherError(f"jail: {frame.get('refused', 'the process did not become ready')}"[:200])
        except BaseException:
            self.close()
            raise

    def send(self, frame: dict[str, Any], deadline: float) -> Event:
        """Sends a frame whole, or returns what came between: `exit` or `time`. `frame` means sent."""
        body = json.dumps(frame).encode()
        data = memoryview(struct.pack(">I", len(body)) + body)
        while data:
            try:
                data = data[self._control.send(data) :]
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0:
                    return "time"
                ready([self._control.fileno()], min(left, POLL_SECONDS), to_write=True)
                if self._launcher.ended(self._number()) is not None:
                    return "exit"
            except OSError:  # the other end is closed
                return "exit"
        return "frame"

    def wait(self, deadline: float) -> Event:
        """What happens next: a whole frame, the end of the process, or a limit. What has already happened when the
        deadline is noticed still counts, so that a parent that was held up does not blame the program."""
        late = False
        while True:
            if excess := self._excess():
                return excess
            if len(self._frames) >= 4:
                size = struct.unpack(">I", self._frames[:4])[0]
                if size > self._cap:
                    return "output"
                if len(self._frames) >= 4 + size:
                    return "frame"
            ended = self._launcher.ended(self._number()) is not None
            left = deadline - time.monotonic()
            progress = self._drain(0 if ended else min(POLL_SECONDS, left))
            if len(self._stdout) > self._cap or len(self._frames) > self._cap + (1 << 16):
                return "output"
            if not progress and ended:
                return "exit"
            if left <= 0 and not ended:
                if late:
                    return "time"
                late = True

    def take(self) -> dict[str, Any]:
        """The frame that has come; empty where it is not one."""
        size = struct.unpack(">I", self._frames[:4])[0]
        body = bytes(self._frames[4 : 4 + size])
        del self._frames[: 4 + size]
        try:
            frame = json.loads(body)
        except (ValueError, RecursionError):
            return {}
        return frame if isinstance(frame, dict) else {}

    def script(self, program: str, seconds: float) -> Ran:
        """Runs a program to its end, `seconds` of wall time at most."""
        deadline = time.monotonic() + seconds
        error, frames = "", 0
        event = self.send({"mode": "script", "program": program}, deadline)
        while event == "frame":
            event = self.wait(deadline)
            if event == "frame":
                told = self.take().get("error", "")
                error, frames = told[:80] if isinstance(told, str) else "", frames + 1
                event = "frame" if frames < SCRIPT_FRAMES else "output"
        pid, self._pid = self._number(), None
        end = self._launcher.finish(pid)
        return Ran(bytes(self._stdout[: self._cap]), event, int(end["status"]), error)

    def ask(self, frame: dict[str, Any], deadline: float) -> tuple[Event, dict[str, Any]]:
        """Sends a frame and waits for the next one."""
        event = self.send(frame, deadline)
        if event == "frame":
            event = self.wait(deadline)
        return event, self.take() if event == "frame" else {}

    def _number(self) -> int:
        assert self._pid is not None
        return self._pid

    def _drain(self, seconds: float) -> bool:
        """Reads what is there within `seconds`, from both streams and no more than a piece of each."""
        waiting = ready([*self._streams, self._launcher.descriptor], seconds)
        progress = False
        for fd in [fd for fd in self._streams if fd in waiting]:
            try:
                piece = os.read(fd, 1 << 16)
            except OSError:
                piece = b""
            if piece:
                progress = True
                (self._stdout if fd == self._out else self._frames).extend(piece)
            else:
                self._streams.remove(fd)
        return progress

    def _excess(self) -> Literal["files", "threads"] | None:
        """What there is too much of. By the clock: a program that is busy writing is looked at as one that waits."""
        now = time.monotonic()
        if now - self._looked < POLL_SECONDS:
            return None
        self._looked = now
        if self._launcher.ended(self._number()) is not None:
            return None
        try:
            with os.scandir(self._folder) as entries:
                files = sum(1 for _ in zip(range(SCRATCH_FILES + 1), entries, strict=False))
        except OSError:  # without a jail a program can remove it
            files = 0
        if files > SCRATCH_FILES:
            return "files"
        return "threads" if self._launcher.threads(self._number(), THREADS) > THREADS else None


def _memory_file(content: bytes) -> int:
    """A descriptor to read `content` from: unlike a pipe it can be left unread."""
    fd = os.memfd_create("stdin")
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
