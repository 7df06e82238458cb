"""What runs in the jailed process: restrictions first, then one program, whose results go out as frames.

A frame is four bytes of length, big-endian, and that much JSON. The program can forge frames: they are its own output
and are believed as little. It never receives an expected answer.
"""

from __future__ import annotations

import atexit
import builtins
import io
import json
import os
import random
import struct
import sys
import threading
import types
from collections.abc import Callable
from typing import Any, NoReturn

from rollwise.jail import values

CONTROL = 3  # the descriptor of the frames
Frame = dict[str, Any]


def send(frame: Frame) -> None:
    body = json.dumps(frame).encode()
    data = struct.pack(">I", len(body)) + body
    while data:
        data = data[os.write(CONTROL, data) :]


def receive() -> Frame | None:
    """The next frame, None when there are no more."""
    head = _exactly(4)
    body = _exactly(struct.unpack(">I", head)[0]) if head else b""
    frame: Frame | None = json.loads(body) if body else None
    return frame


def _exactly(count: int) -> bytes:
    out = b""
    while len(out) < count:
        piece = os.read(CONTROL, min(count - len(out), 1 << 16))
        if not piece:
            return b""
        out += piece
    return out


def main(restrict: Callable[[], None]) -> NoReturn:
    """Takes the rights away, says so, and runs the one program it is then sent. Never returns."""
    try:
        restrict()
        send({"ready": True})
        job = receive()
    except BaseException as error:
        send({"refused": f"{type(error).__name__}: {error}"[:200]})
        os._exit(1)
    if job is None:
        os._exit(0)
    _console()
    status = 1
    try:
        status = {"script": _script, "serve": _serve, "check": _check}[job["mode"]](job)
    except BaseException as error:  # a program may raise anything; memory may be short even here
        _report(error)
    _flush()
    os._exit(status)


def _console() -> None:
    """Fresh text streams over descriptors 0 to 2, and what the interpreter's `site` would have added."""
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)), "utf-8", errors="surrogateescape")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w")), "utf-8", errors="surrogateescape")
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, "w")), "utf-8", errors="backslashreplace")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]
    sys.argv = ["program"]
    random.seed(0)


def _module(name: str, known: types.ModuleType = builtins) -> dict[str, Any]:
    """The names of a new module, which looks up what it does not bind itself in `known`."""
    module = types.ModuleType(name)
    module.__dict__["__builtins__"] = known
    sys.modules[name] = module
    return module.__dict__


def _execute(source: str, namespace: dict[str, Any]) -> None:
    exec(compile(source, "<program>", "exec", dont_inherit=True), namespace)


def _loaded(before: str, program: str) -> dict[str, Any]:
    """The names that the program binds. It can use those of `before` as it can the built-in ones, and they are not
    among its own: a program that defines nothing would pass for one that defines what was there already.

    Where the program is no Python by itself and goes on where `before` ends, as one text: the body of a function that
    `before` opens.
    """
    if before and not _compiles(program) and _compiles(f"{before}\n{program}"):
        namespace = _module("program")
        _execute(f"{before}\n{program}", namespace)
        return namespace
    given = _module("program")
    _execute(before, given)
    known = types.ModuleType("builtins")
    known.__dict__.update({**vars(builtins), **{k: v for k, v in given.items() if not _dunder(k)}})
    namespace = _module("program", known)
    _execute(program, namespace)
    return namespace


def _compiles(source: str) -> bool:
    try:
        compile(source, "<program>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):  # a null byte, for one
        return False
    return True


def _dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _script(job: Frame) -> int:
    """As `python program.py`: to the end of its threads and exit functions. The exit status is the result."""
    status = 0
    try:
        _execute(job["program"], _module("__main__"))
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    _flush()
    return status & 0xFF


def _serve(job: Frame) -> int:
    """Defines the program's functions, then calls them one at a time as asked. Values go out, judgements do not."""
    namespace = _loaded(job["before"], job["program"])
    send({"loaded": True})
    while (request := receive()) is not None:
        try:
            function = _find(namespace, request["call"])
            arguments = [values.decode(a) for a in request["args"]]
            named = {k: values.decode(v) for k, v in request["kwargs"].items()}
            send({"value": values.encode(function(*arguments, **named))})
        except BaseException as error:
            _report(error)
    return 0


def _find(namespace: dict[str, Any], name: str) -> Callable[..., Any]:
    """The program's own function `name`, or that method of its class `Solution`, the form of some judges."""
    if name not in namespace and "Solution" in namespace:
        method: Callable[..., Any] = getattr(namespace["Solution"](), name)
        return method
    function: Callable[..., Any] = namespace[name]
    return function


def _check(job: Frame) -> int:
    """Runs the code of a test. `proxies` are functions whose calls are carried out elsewhere."""
    namespace = _module("test")
    _execute(job["setup"], namespace)
    for name in job["proxies"]:
        namespace[name] = _proxy(name)
    _execute(job["program"], namespace)
    send({"passed": True})
    return 0


def _proxy(name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        sent = [values.encode(a) for a in args], {k: values.encode(v) for k, v in kwargs.items()}
        send({"call": name, "args": sent[0], "kwargs": sent[1]})
        reply = receive() or {}
        if "value" in reply:
            return values.decode(reply["value"])
        raised = getattr(builtins, str(reply.get("error")), None)
        if isinstance(raised, type) and issubclass(raised, Exception):
            raise raised(f"{name} raised")
        raise RuntimeError(f"{name} raised {reply.get('error')}")

    return call


def _report(error: BaseException) -> None:
    name = "result" if isinstance(error, values.ValueLimit) else type(error).__name__
    try:
        send({"error": str(name)[:80]})
    except BaseException:
        os._exit(1)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            continue
