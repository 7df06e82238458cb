"""A pool of processes that run math-verify, each ended with SIGKILL and replaced at its deadline.

`ask` may be called from any thread. Workers are started by exec of `rollwise.verify.worker`, so the trainer is never
forked; they end when the trainer does, since their input ends then. A worker that dies by itself costs its question one
more try in a fresh one.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

START = 60.0  # seconds for a worker to import what it needs
MAX_REPLY = 4_096  # bytes
REMEMBERED = 100_000  # answers kept, so that equal completions are asked about once
MISSING = "math-verify is not installed; pip install 'rollwise[math]'"
MODULE = "rollwise.verify.worker"

Kind = Literal["said", "gold", "unread", "slow", "failed", "missing"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: `said` with `same`; a side not read (`gold`, `unread`); `slow`, `failed` or `missing`."""

    kind: Kind
    same: bool = False
    detail: str = ""


Pair = tuple[str, str]  # gold, answer


def installed() -> bool:
    """Whether the full parser is there."""
    return all(importlib.util.find_spec(m) is not None for m in ("math_verify", "latex2sympy2_extended", "antlr4"))


class Worker:
    """One process. `ready` once it has imported its libraries; `until` is when it will be ended."""

    def __init__(self) -> None:
        root = str(Path(__file__).parents[2])
        kept = {k: os.environ[k] for k in ("PATH", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV") if k in os.environ}
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**kept, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # a Ctrl-C is for the trainer
            bufsize=0,
        )
        assert self.process.stdin and self.process.stdout
        self.input, self.output = self.process.stdin, self.process.stdout
        os.set_blocking(self.output.fileno(), False)
        self.ready = False
        self.question: Pair | None = None
        self.until = time.monotonic() + START
        self.received = b""

    @property
    def busy(self) -> bool:
        return self.question is not None or not self.ready

    def send(self, pair: Pair, deadline: float) -> None:
        """Raises OSError where the process has gone."""
        self.question, self.until = pair, time.monotonic() + deadline
        self.input.write(json.dumps({"gold": pair[0], "answer": pair[1]}).encode() + b"\n")

    def receive(self) -> dict[str, object] | None:
        """The next line, or None where it is not whole yet. Raises OSError where there will be none."""
        got = self.output.read(MAX_REPLY)
        if got is None:
            return None
        self.received += got
        if not got or len(self.received) > MAX_REPLY:
            raise OSError("worker ended")
        if not self.received.endswith(b"\n"):
            return None
        line, self.received = self.received, b""
        try:
            reply = json.loads(line)
        except ValueError:
            raise OSError("worker wrote no JSON") from None
        if not isinstance(reply, dict) or reply.get("kind") == "exhausted":
            raise OSError("worker out of memory")
        return reply

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.input.close()
        self.output.close()


class Pool:
    """Up to `size` workers, started when there is work. One caller at a time; the others wait."""

    def __init__(self, size: int | None = None) -> None:
        self.size = size or max(1, min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2))
        self.workers: list[Worker] = []
        self.owner = os.getpid()  # a fork of this process has the object and not the workers
        self.started = 0  # processes, all in all
        self.asked = 0  # questions that went to one
        self._lock = threading.Lock()
        self._known: OrderedDict[Pair, Answer] = OrderedDict()

    def ask(self, pairs: Sequence[Pair], deadline: float) -> list[Answer]:
        """What math-verify says of each (gold, answer), in order."""
        with self._lock:
            todo = [p for p in dict.fromkeys(pairs) if p not in self._known]
            fresh = _Round(self, todo, deadline).run() if todo else {}
            out = [fresh.get(p) or self._known[p] for p in pairs]
            for pair, answer in fresh.items():
                if answer.kind in ("said", "gold", "unread"):  # what hangs on the clock is asked again
                    self._known[pair] = answer
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return out

    def start(self) -> Worker:
        worker = Worker()
        self.started += 1
        self.workers.append(worker)
        return worker

    def forget(self) -> None:
        """Forget earlier answers; for measurements."""
        with self._lock:
            self._known.clear()

    def close(self) -> None:
        with self._lock:
            for worker in self.workers if self.owner == os.getpid() else []:
                worker.end()
            self.workers = []


class _Round:
    """The questions of one call: those waiting, and the answers so far."""

    def __init__(self, pool: Pool, todo: list[Pair], deadline: float) -> None:
        self.pool, self.todo, self.deadline = pool, todo, deadline
        self.waiting = deque(todo)
        self.out: dict[Pair, Answer] = {}
        self.failures: dict[Pair, int] = {}
        self.bad_starts = 0  # in a row
        self.selector = selectors.DefaultSelector()

    def run(self) -> dict[Pair, Answer]:
        self.pool.asked += len(self.todo)
        now = time.monotonic()
        for worker in self.pool.workers:
            self.selector.register(worker.output, selectors.EVENT_READ, worker)
            if not worker.ready:  # started at the end of an earlier call; nobody has looked since
                worker.until = now + START
        with self.selector:
            while len(self.out) < len(self.todo):
                self._staff()
                if not self.pool.workers:
                    dead = Answer("failed", detail="math-verify's process does not start")
                    self.out.update({p: dead for p in self.todo if p not in self.out})
                    break
                for worker in [w for w in self.pool.workers if w.ready and w.question is None]:
                    self._hand_out(worker)
                self._listen()
                self._expire()
        while len(self.pool.workers) < min(self.pool.size, len(self.todo)) and not self.bad_starts:
            self.pool.start()  # in place of what was ended: imports while the trainer goes on
        return self.out

    def _staff(self) -> None:
        left = len(self.todo) - len(self.out)
        while len(self.pool.workers) < min(self.pool.size, left) and self.bad_starts < 3:
            worker = self.pool.start()
            self.selector.register(worker.output, selectors.EVENT_READ, worker)

    def _hand_out(self, worker: Worker) -> None:
        if not self.waiting:
            return
        pair = self.waiting.popleft()
        try:
            worker.send(pair, self.deadline)
        except OSError:  # it died while idle
            worker.question = None
            self.waiting.appendleft(pair)
            self._lose(worker, "")

    def _listen(self) -> None:
        now = time.monotonic()
        until = min((w.until for w in self.pool.workers if w.busy), default=now)
        for key, _ in self.selector.select(max(0.0, until - now)):
            worker: Worker = key.data
            try:
                reply = worker.receive()
            except OSError as error:
                self._lose(worker, str(error))
                continue
            if reply is None:
                continue
            if not worker.ready:
                worker.ready, self.bad_starts = True, 0
            elif worker.question is not None:
                self.out[worker.question] = _answer(reply)
                worker.question = None

    def _expire(self) -> None:
        now = time.monotonic()
        for worker in [w for w in self.pool.workers if w.busy and w.until <= now]:
            if worker.question is not None:
                self.out[worker.question] = Answer("slow", detail=f"took longer than {self.deadline:g} s")
                worker.question = None
            self._lose(worker, "")

    def _lose(self, worker: Worker, reason: str) -> None:
        """End a worker. A question that it had is asked once again, in a fresh one."""
        self.bad_starts += not worker.ready
        self.selector.unregister(worker.output)
        self.pool.workers.remove(worker)
        worker.end()
        pair = worker.question
        if pair is None:
            return
        self.failures[pair] = self.failures.get(pair, 0) + 1
        if self.failures[pair] > 1:
            self.out[pair] = Answer("failed", detail=f"math-verify failed twice: {reason}")
        else:
            self.waiting.append(pair)


def _answer(reply: dict[str, object]) -> Answer:
    kind = reply.get("kind")
    if kind == "said":
        return Answer("said", same=reply.get("same") is True)
    detail = str(reply.get("detail", ""))[:100]
    if kind == "gold":
        return Answer("gold", detail=detail)
    return Answer("unread", detail=detail) if kind == "unread" else Answer("failed", detail="an unknown reply")


_pool: Pool | None = None
_pool_of = 0  # the process it belongs to: after a fork the child starts its own
_making = threading.Lock()


def pool() -> Pool:
    """The pool of this process."""
    global _pool, _pool_of
    with _making:
        if _pool is None or _pool_of != os.getpid():
            _pool, _pool_of = Pool(), os.getpid()
            atexit.register(_pool.close)
        return _pool


def ask(pairs: Sequence[Pair], *, deadline: float) -> list[Answer]:
    """What math-verify says of each (gold, answer); `missing` for all where it is not installed."""
    if not installed():
        return [Answer("missing", detail=MISSING)] * len(pairs)
    return pool().ask(pairs, deadline)
