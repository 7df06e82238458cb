"""A program against its tests: the jail runs it and says what came out, and everything is compared here, outside.

Whole programs get a fresh process for each test; functions get one process for all calls of a program, since that is
how such tests are written, and are asked one call at a time. The first failed test ends it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollwise.jail import values
from rollwise.jail.launch import LauncherError
from rollwise.jail.pool import Worker
from rollwise.jail.session import Event, Ran, Session
from rollwise.verify.code_eval import evaluate, same
from rollwise.verify.code_plan import Plan, plan
from rollwise.verify.code_settings import CodeSettings

Frame = dict[str, Any]
# What judges of this form put before a solution (LiveCodeBench, LeetCode): annotations such as List[int] need it.
JUDGE_IMPORTS = "\n".join(
    [
        "from string import *",
        "from collections import *",
        "from heapq import *",
        "from bisect import *",
        "from math import *",
        "from itertools import *",
        "from functools import *",
        "from builtins import *",  # `pow` again, which math has too
        "from typing import *",
        "import bisect, collections, copy, functools, heapq, itertools, math, operator, random, re, string, sys",
    ]
)


class Failed(Exception):
    """The program failed a test. The message is the kind of failure, never the expected value."""


@dataclass(frozen=True, slots=True)
class Job:
    program: str
    tests: Mapping[str, Any]
    settings: CodeSettings


def run_job(worker: Worker, job: Job) -> str:
    """Empty where every test passes, else the first failed test and how it failed. Raises LauncherError."""
    limit = time.monotonic() + job.settings.program_seconds
    if job.tests["form"] == "stdio":
        return _scripts(worker, job, limit)
    number = 0
    try:
        if job.tests["form"] == "calls":
            with worker.session() as session:
                program = _Program(session, job, limit, JUDGE_IMPORTS)
                for number, (given, wanted) in enumerate(
                    zip(job.tests["inputs"], job.tests["outputs"], strict=True), 1
                ):
                    if not _answers(program.call(job.tests["name"], given, {}), wanted, job.tests["outputs"]):
                        return f"test {number}: wrong output"
            return ""
        planned = plan(job.tests)
        if planned.split is None:
            return _apart(worker, job, planned, limit)
        with worker.session() as session:
            program = _Program(session, job, limit, planned.before, planned.alias)
            for number, expression in enumerate(planned.split, 1):
                try:
                    held = evaluate(expression, program.call, planned.functions)
                    holds = not isinstance(held, values.Opaque) and bool(held)
                except (Failed, LauncherError, OSError):
                    raise
                except Exception:  # whatever it is, the answer does not fit the test's expression
                    holds = False
                if not holds:
                    return f"test {number}: wrong output"
        return ""
    except Failed as failed:
        return f"test {max(number, 1)}: {failed}"


class _Program:
    """The functions of a program in a jail. Loaded with its first call, whose time it shares, behind the code that
    belongs before it: imports, helpers, an opened definition."""

    def __init__(
        self, session: Session, job: Job, limit: float, before: str, alias: tuple[str, str] = ("", "")
    ) -> None:
        self._session, self._settings, self._limit, self._alias = session, job.settings, limit, alias
        self._loading: Frame | None = {"mode": "serve", "before": before, "program": job.program}
        self.calls = 0

    def reply(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """What the process answers to a call, its arguments encoded: `value`, or `error`. Raises Failed where it says
        nothing in time."""
        deadline = min(self._limit, time.monotonic() + self._settings.test_seconds)
        if self._loading is not None:
            frame, self._loading = self._loading, None
            loaded = self._ask(frame, deadline)
            if "loaded" not in loaded:
                raise Failed(_told(loaded))
        self.calls += 1
        return self._ask({"call": name, "args": list(args), "kwargs": dict(kwargs)}, deadline)

    def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The value that the function returns. Raises Failed where there is none."""
        name = self._alias[1] if name == self._alias[0] else name
        encoded = [values.encode(a) for a in args], {k: values.encode(v) for k, v in kwargs.items()}
        answer = self.reply(name, *encoded)
        if "value" not in answer:
            raise Failed(_told(answer))
        try:
            return values.decode(answer["value"])
        except values.ValueLimit as error:
            raise Failed(str(error)) from None

    def relay(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """As `reply`, with the value read and written again: nothing but a value passes on."""
        answer = self.reply(name, args, kwargs)
        try:
            return {"value": values.encode(values.decode(answer["value"]))}
        except (KeyError, values.ValueLimit):
            error = answer.get("error", "result")
            return {"error": error[:80] if isinstance(error, str) else "result"}

    def _ask(self, frame: dict[str, Any], deadline: float) -> dict[str, Any]:
        event, answer = self._session.ask(frame, deadline)
        if event != "frame":
            raise Failed(_why(event, self._settings))
        return answer


def _apart(worker: Worker, job: Job, planned: Plan, limit: float) -> str:
    """The test code in one jail and the program in another; calls and values pass between them through here."""
    with worker.session() as session, worker.session() as testing:
        program = _Program(session, job, limit, planned.before)
        frame: dict[str, Any] = {
            "mode": "check",
            "setup": planned.setup,
            "program": planned.code,
            "proxies": sorted(planned.functions),
        }
        while True:
            event, said = testing.ask(frame, limit)
            if event != "frame":
                return f"tests: {_why(event, job.settings)}"
            if "call" not in said:
                break
            frame = program.relay(said["call"], said["args"], said["kwargs"])
        if said.get("passed") is not True:
            return f"tests: {_told(said)}"
        return "" if program.calls else "tests: never called the program"


def _scripts(worker: Worker, job: Job, limit: float) -> str:
    for number, (given, wanted) in enumerate(zip(job.tests["inputs"], job.tests["outputs"], strict=True), 1):
        seconds = min(job.settings.test_seconds, limit - time.monotonic())
        if seconds <= 0:
            return f"test {number}: over {job.settings.program_seconds} s for all tests"
        with worker.session(given.encode("utf-8", "surrogateescape")) as session:
            ran = session.script(job.program, seconds)
        failure = _failure(ran, job.settings)
        if failure or not _printed(ran.stdout, wanted):
            return f"test {number}: {failure or 'wrong output'}"
    return ""


def _failure(ran: Ran, settings: CodeSettings) -> str:
    """How a script ended where that was not by itself and with status 0."""
    if ran.how != "exit":
        return _why(ran.how, settings)
    if ran.error:
        return _named(ran.error)
    if ran.status < 0:
        return f"killed by signal {-ran.status}"
    return f"exit status {ran.status}" if ran.status else ""


def _why(event: Event, settings: CodeSettings) -> str:
    return {
        "exit": "the process ended",
        "time": f"over {settings.test_seconds} s",
        "output": f"over {settings.output_kb} KiB of output",
        "files": "too many files",
        "threads": "too many threads",
    }.get(event, event)


def _told(answer: Frame) -> str:
    """The error of a frame that holds no result. Text or nothing: the program may have put anything there."""
    error = answer.get("error")
    return _named(error) if isinstance(error, str) else "nothing that can be read"


def _named(error: str) -> str:
    """The class of an exception as the program's process told it: at most a short name."""
    short = "".join(c for c in error[:60] if c.isalnum() or c in "_ ")
    return {"MemoryError": "over the memory limit", "result": "a result too large or nested too deep"}.get(short, short)


def _printed(stdout: bytes, wanted: str) -> bool:
    """Whether the output is the wanted one: every line and all of them; white space at the end of a line and empty
    lines at the end do not count."""
    try:
        text = stdout.decode()
    except UnicodeDecodeError:
        return False
    return _lines(text) == _lines(wanted)


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _answers(value: Any, wanted: Any, outputs: Sequence[Any]) -> bool:
    """Whether a function returned the wanted JSON value. JSON has no tuples, so a tuple counts as a list here. Where
    every output of the row is a list of one, as in APPS, the value itself is accepted too."""
    try:
        got = _listed(value)
        if same(got, wanted):
            return True
        wrapped = all(isinstance(o, list) and len(o) == 1 for o in outputs)
        return wrapped and same(got, wanted[0])
    except Exception:  # a value that cannot be compared is not the wanted one
        return False


def _listed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_listed(v) for v in value]
    if isinstance(value, dict):
        return {k: _listed(v) for k, v in value.items()}
    return value
