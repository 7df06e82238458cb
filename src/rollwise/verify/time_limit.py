"""A time limit on a call of the user's code in this process.

In the main thread a signal interrupts it, wherever Python looks at signals: in Python code, in a regular expression, in
a sleep, a lock, a socket or a wait for a process. A thread sends it, and a timer of processor time where a regular
expression lets no thread run. In another thread, where no signal can be had, the call is made in a thread of its own,
which is left behind. A call that catches every interrupt, or never looks at signals, ends the process; only compiled
code that lets no thread run cannot be ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

SIGNAL = signal.SIGURG  # from the thread: nobody else sends it, and a late one is ignored
AGAIN = 1.0  # seconds until code that caught the interrupt is interrupted again
STUBBORN = 30  # interrupts after which the process ends

T = TypeVar("T")


class OverTime(BaseException):
    """Not an Exception: a function that tries again after any failure must not catch it."""


def limited(call: Callable[[], T], seconds: float | None, name: str) -> T:
    """What `call` returns or raises. Raises OverTime after `seconds`, the limit that is called `name`; None: no
    limit."""
    if seconds is None:
        return call()
    error = OverTime(f"took more than the {seconds:g} s of {name}")
    if threading.current_thread() is threading.main_thread():
        return _by_signal(call, seconds, error)
    return _in_a_thread(call, seconds, error)


def _by_signal(call: Callable[[], T], seconds: float, error: OverTime) -> T:
    over = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def watch() -> None:
        wait = seconds
        for _ in range(STUBBORN):
            if over.wait(wait):
                return
            signal.pthread_kill(main, SIGNAL)
            wait = AGAIN
        if not over.wait(AGAIN):
            print(f"rollwise: error: {error}, and cannot be interrupted; mend it", file=sys.__stderr__, flush=True)
            os._exit(2)

    end = time.monotonic() + seconds

    def interrupt(signum: int, frame: object) -> None:
        if not over.is_set() and time.monotonic() >= end:
            raise error

    before = [(s, signal.signal(s, interrupt)) for s in (SIGNAL, signal.SIGVTALRM)]
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds, AGAIN)  # of all threads, so that it may come too early
        threading.Thread(target=watch, name="rollwise-time-limit", daemon=True).start()
        try:
            return call()
        finally:
            over.set()
    finally:
        over.set()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        for number, handler in before:
            signal.signal(number, handler)


def _in_a_thread(call: Callable[[], T], seconds: float, error: OverTime) -> T:
    done = threading.Event()
    returned: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(call())
        except BaseException as thrown:
            raised.append(thrown)
        done.set()

    threading.Thread(target=run, name="rollwise-limited", daemon=True).start()
    if not done.wait(seconds):
        raise error
    if raised:
        raise raised[0]
    return returned[0]
