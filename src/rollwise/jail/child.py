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


def _module(name: str) -> dict[str, Any]:
    module = types.ModuleType(name)
    module.__dict__["__builtins__"] = builtins
    sys.modules[name] = module
    return module.__dict__


def _execute(source: str, namespace: dict[str, Any]) -> None:
    exec(compile(source, "<program>", "exec", dont_inherit=True), namespace)


def _execute_behind(before: str, program: str, namespace: dict[str, Any]) -> None:
    """As one text, since the program may go on where `before` ends; one after the other where that is no Python, as
    with imports from `__future__`, which must come first."""
    joined = f"{before}\n{program}" if before else program
    try:
        compile(joined, "<program>", "exec", dont_inherit=True)
    except SyntaxError:
        _execute(before, namespace)
        _execute(program, namespace)
    else:
        _execute(joined, namespace)


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
    namespace = _module("program")
    _execute_behind(job["before"], job["program"], namespace)
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
    """The function `name`, or that method of a class `Solution`, the form of some judges."""
    if name not in namespace and "Solution" in namespace:
        method: Callable[..., Any] = getattr(namespace["Solution"](), name)
        return method
    if name not in namespace and hasattr(builtins, name):
        raise NameError(name)
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
