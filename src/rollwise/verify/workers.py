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

DEADLINE = 2.0  # seconds that one answer may take
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
        self.started = 0  # processes, all in all
        self.asked = 0  # questions that went to one
        self._lock = threading.Lock()
        self._known: OrderedDict[Pair, Answer] = OrderedDict()

    def ask(self, pairs: Sequence[Pair], deadline: float) -> list[Answer]:
        """What math-verify says of each (gold, answer), in order."""
        with self._lock:
            todo = [p for p in dict.fromkeys(pairs) if p not in self._known]
            fresh = self._work(todo, deadline) if todo else {}
            out = [fresh.get(p) or self._known[p] for p in pairs]
            for pair, answer in fresh.items():
                if answer.kind in ("said", "gold", "unread"):  # what hangs on the clock is asked again
                    self._known[pair] = answer
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return out

    def close(self) -> None:
        with self._lock:
            for worker in self.workers:
                worker.end()
            self.workers = []

    def _work(self, todo: list[Pair], deadline: float) -> dict[Pair, Answer]:
        waiting, out, failures = deque(todo), dict[Pair, Answer](), dict[Pair, int]()
        starts = 0  # failed ones in a row
        self.asked += len(todo)
        with selectors.DefaultSelector() as selector:
            for worker in self.workers:
                selector.register(worker.output, selectors.EVENT_READ, worker)
            while len(out) < len(todo):
                busy = sum(w.question is not None or not w.ready for w in self.workers)
                while len(self.workers) < self.size and busy < len(todo) - len(out) and starts < 3:
                    self._start(selector)
                    busy += 1
                if not self.workers:  # they die as they start
                    dead = Answer("failed", detail="math-verify's process does not start")
                    out.update({p: dead for p in todo if p not in out})
                    break
                for worker in [w for w in self.workers if w.ready and w.question is None]:
                    if waiting:
                        self._send(worker, waiting.popleft(), deadline, selector, waiting, out, failures)
                now = time.monotonic()
                running = [w.until for w in self.workers if w.question is not None or not w.ready]
                for key, _ in selector.select(max(0.0, min(running, default=now) - now)):
                    worker = key.data
                    try:
                        reply = worker.receive()
                    except OSError as error:
                        starts += not worker.ready
                        self._lost(worker, str(error), selector, waiting, out, failures)
                        continue
                    if reply is None:
                        continue
                    if not worker.ready:
                        worker.ready, starts = True, 0
                    elif worker.question is not None:
                        out[worker.question] = _answer(reply)
                        worker.question = None
                now = time.monotonic()
                for worker in [w for w in self.workers if w.until <= now and (w.question is not None or not w.ready)]:
                    if worker.question is not None:
                        out[worker.question] = Answer("slow", detail=f"took longer than {deadline:g} s")
                        worker.question = None
                    starts += not worker.ready
                    self._lost(worker, "too slow", selector, waiting, out, failures)
        return out

    def _start(self, selector: selectors.BaseSelector) -> None:
        worker = Worker()
        self.started += 1
        self.workers.append(worker)
        selector.register(worker.output, selectors.EVENT_READ, worker)

    def _send(
        self,
        worker: Worker,
        pair: Pair,
        deadline: float,
        selector: selectors.BaseSelector,
        waiting: deque[Pair],
        out: dict[Pair, Answer],
        failures: dict[Pair, int],
    ) -> None:
        try:
            worker.send(pair, deadline)
        except OSError as error:
            self._lost(worker, str(error), selector, waiting, out, failures)

    def _lost(
        self,
        worker: Worker,
        reason: str,
        selector: selectors.BaseSelector,
        waiting: deque[Pair],
        out: dict[Pair, Answer],
        failures: dict[Pair, int],
    ) -> None:
        """A worker that is no more: its question is asked once again, in a fresh one."""
        selector.unregister(worker.output)
        self.workers.remove(worker)
        worker.end()
        pair = worker.question
        if pair is None:
            return
        failures[pair] = failures.get(pair, 0) + 1
        if failures[pair] > 1:
            out[pair] = Answer("failed", detail=f"math-verify failed twice: {reason}")
        else:
            waiting.append(pair)


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


def ask(pairs: Sequence[Pair], *, deadline: float = DEADLINE) -> list[Answer]:
    """What math-verify says of each (gold, answer); `missing` for all where it is not installed."""
    if not installed():
        return [Answer("missing", detail=MISSING)] * len(pairs)
    return pool().ask(pairs, deadline)
