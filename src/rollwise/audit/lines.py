"""Completions in bulk: one JSON object a line in, one with its verdict a line out, in the same order.

In: `task` (a verifier's name), `gold`, `completion`; `tests` instead of `gold` where the task is code; further keys
(`options`, ...) reach the verifier as the prompt's columns. Optional: `prompt` (text), `stop` ("eos" or "length"),
`want`, which scoring never reads. A line that cannot be scored is an object with `verdict: null` and `error`.

Memory is bounded by the longest line allowed and the number of workers, whatever the file's length.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO

from rollwise.errors import nearest, show
from rollwise.records import Prompt, StopReason, Verdict
from rollwise.verify.base import Verifier
from rollwise.verify.scoring import Completion, judged
from rollwise.verify.table import make_verifier, verifier_names

MAX_BYTES = 4 * 2**20  # of one line
AHEAD = 8  # lines in work or waiting for their turn, for each worker
OWN_KEYS = frozenset({"task", "gold", "completion", "prompt", "stop", "want"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line read: what to score, or why it cannot be."""

    number: int  # 1-based, as an editor counts
    task: str = ""
    completion: Completion | None = None
    want: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One line with its verdict; None where it could not be scored, with the reason in `line.error`."""

    line: Line
    verdict: Verdict | None = None
    seconds: float = 0.0

    @property
    def as_wanted(self) -> bool:
        return self.verdict is not None and self.verdict.kind.value == self.line.want

    def to_json(self, *, expect: bool = False) -> dict[str, Any]:
        v = self.verdict
        out: dict[str, Any] = {"line": self.line.number, "verdict": None if v is None else v.kind.value}
        if v is None:
            out |= {"score": None, "detail": "", "seconds": round(self.seconds, 6), "error": self.line.error}
        else:
            out |= {"score": v.score, "detail": v.detail, "seconds": round(self.seconds, 6)}
        return {**out, "want": self.line.want} if expect and self.line.want is not None else out


def raw_lines(stream: BinaryIO, limit: int = MAX_BYTES) -> Iterator[tuple[int, bytes | None]]:
    """Line numbers from 1 and the lines without their end, blank ones left out; None for a line over `limit` bytes,
    which is passed over in pieces. Lines end at a line feed and nowhere else."""
    number = 0
    while piece := stream.readline(limit + 2):
        number += 1
        whole = piece.endswith(b"\n") or len(piece) < limit + 2
        while not whole:
            more = stream.readline(limit)
            whole = not more or more.endswith(b"\n")
        line = piece.rstrip(b"\r\n")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if len(line) > limit:
            yield number, None
        elif line.strip():
            yield number, line


def read_object(line: bytes | None) -> dict[str, Any]:
    """The JSON object of one line. Raises ValueError with the reason in a few words."""
    if line is None:
        raise ValueError(f"over {MAX_BYTES // 2**20} MB")
    try:
        row = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(row, dict):
        raise ValueError(f"a {type(row).__name__} and not an object")
    return row


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def read_lines(stream: BinaryIO) -> Iterator[Line]:
    """Every line that is not blank, read as a completion to score."""
    known = verifier_names()
    for number, raw in raw_lines(stream):
        want: Any = None
        try:
            row = read_object(raw)
            want = row.get("want")
            task, completion = _completion(row, number)
            if task not in known:
                raise ValueError(f"unknown task {show(task)}; {nearest(task[:40], known)}")
        except ValueError as error:
            yield Line(number=number, want=want, error=str(error))
        else:
            yield Line(number=number, task=task, completion=completion, want=want)


def _completion(row: dict[str, Any], number: int) -> tuple[str, Completion]:
    task, text, stop = row.get("task"), row.get("completion"), row.get("stop", "eos")
    for name, value in (("task", task), ("completion", text), ("prompt", row.get("prompt", ""))):
        if not isinstance(value, str):
            raise ValueError(f"'{name}' is {show(value)}, not text" if name in row else f"no '{name}'")
    if stop not in ("eos", "length"):
        raise ValueError(f"'stop' is {show(stop)}; eos or length")
    meta = {k: v for k, v in row.items() if k not in OWN_KEYS}
    prompt = Prompt(
        uid=f"line:{number}",
        text=row.get("prompt", ""),
        answer=_gold(str(task), row),
        task=str(task),
        row=number - 1,
        meta=meta,
    )
    return str(task), Completion(prompt=prompt, text=str(text), stop=StopReason(stop))


def _gold(task: str, row: dict[str, Any]) -> Any:
    if task == "code":
        from rollwise.verify.code_tests import tests_of

        tests = tests_of(row) or tests_of({"tests": row.get("gold")})
        if tests is None and row.get("gold") is None:
            raise ValueError("no 'gold' and no 'tests'")
        return tests or row["gold"]
    if "gold" not in row:
        raise ValueError("no 'gold'")
    return row["gold"]


def score(lines: Iterator[Line], workers: int = 1) -> Iterator[Scored]:
    """The lines with their verdicts, in order. `seconds` is the time of the one judgement, waiting not counted."""
    own = threading.local()

    def one(line: Line) -> Scored:
        if line.completion is None:
            return Scored(line=line)
        verifiers: dict[str, Verifier] = own.__dict__
        if line.task not in verifiers:
            verifiers[line.task] = make_verifier(line.task)
        start = time.perf_counter()
        (verdict,) = judged(verifiers[line.task].judge, [line.completion])
        return Scored(line=line, verdict=verdict, seconds=time.perf_counter() - start)

    if workers == 1:
        yield from map(one, lines)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Scored]] = deque()
        for line in lines:
            waiting.append(pool.submit(one, line))
            if len(waiting) >= AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
