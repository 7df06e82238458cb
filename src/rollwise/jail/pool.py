"""Several launchers side by side, one for each thread; one that fails is replaced."""

from __future__ import annotations

import functools
import os
import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from rollwise.jail.launch import Launcher, LauncherError, Tier
from rollwise.jail.restrict import Limits
from rollwise.jail.session import Session

T = TypeVar("T")
R = TypeVar("R")
Launch = Callable[[Tier], Launcher]


class Worker:
    """A launcher and what is started with it."""

    def __init__(self, tier: Tier, limits: Limits, output_bytes: int, launch: Launch = Launcher) -> None:
        self.tier, self.limits, self.output_bytes = tier, limits, output_bytes
        self._launch = launch
        self._launcher: Launcher | None = None

    @contextmanager
    def session(self, stdin: bytes | None = None) -> Iterator[Session]:
        """A jailed process: for a script where `stdin` is given, else for calls. Raises LauncherError."""
        launcher = self._start() if self.tier.single else self._warm()
        try:
            with Session(launcher, self.limits, self.output_bytes, stdin) as session:
                yield session
        finally:
            if self.tier.single:
                launcher.close()

    def _warm(self) -> Launcher:
        if self._launcher is None:
            self._launcher = self._start()
        return self._launcher

    def _start(self) -> Launcher:
        try:
            return self._launch(self.tier)
        except OSError as error:
            raise LauncherError(f"launcher does not start: {error.strerror}") from None

    def close(self) -> None:
        """Ends the launcher; the next session starts another."""
        launcher, self._launcher = self._launcher, None
        if launcher is not None:
            launcher.close()


class Pool:
    """`workers` launchers, started when first needed. `map` may be called from several threads."""

    def __init__(
        self, tier: Tier, limits: Limits, output_bytes: int, workers: int = 1, launch: Launch = Launcher
    ) -> None:
        self.tier = tier
        self._make = functools.partial(Worker, tier, limits, output_bytes, launch)
        self._count = workers
        self._fill()

    def _fill(self) -> None:
        self._owner = os.getpid()
        self._workers = [self._make() for _ in range(self._count)]
        self._free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._free.put(worker)

    def map(self, function: Callable[[Worker, T], R], items: Sequence[T]) -> list[R | LauncherError]:
        """`function(worker, item)` for every item, in order. One whose launcher fails is tried once more with a fresh
        one; failing again, its place holds the error."""
        if self._owner != os.getpid():  # after a fork the launchers are the other process's
            self._fill()

        def one(item: T) -> R | LauncherError:
            worker = self._free.get()
            try:
                return _twice(function, worker, item)
            finally:
                self._free.put(worker)

        if len(items) == 1 or self._count == 1:
            return [one(item) for item in items]
        with ThreadPoolExecutor(self._count) as threads:
            return list(threads.map(one, items))

    def close(self) -> None:
        """Ends the launchers; a later `map` starts others."""
        if self._owner == os.getpid():
            for worker in self._workers:
                worker.close()


def _twice(function: Callable[[Worker, T], R], worker: Worker, item: T) -> R | LauncherError:
    for last in (False, True):
        try:
            return function(worker, item)
        except (LauncherError, OSError) as error:
            worker.close()
            if last:
                return error if isinstance(error, LauncherError) else LauncherError(f"jail: {error.strerror}")
    raise AssertionError
