"""What a user's function returned, as a number or the reason why it is none. Never a zero that nobody gave."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import threading
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from rollwise.errors import show
from rollwise.records import Verdict, VerdictKind
from rollwise.verify.time_limit import OverTime

CONCURRENT = 64  # asynchronous calls under way at a time
MOST = 1e30  # a larger score has no variance in double precision, and no gradient in single
GRACE = 5.0  # seconds in which an event loop ends what is over its time


@dataclass(frozen=True, slots=True)
class NoScore:
    """The function said nothing of this completion."""

    reason: str


Value = float | Verdict | NoScore
ABSENT = NoScore("no score")  # what None says: another function may still have one


def failed(error: BaseException) -> NoScore:
    """The error as a reason. It is the user's: even its own text may raise."""
    name = type(error).__name__
    try:
        text = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        text = ""
    return NoScore(f"{name}: {text}" if text else name)


def value_of(given: Any) -> Value:
    """A score: numbers of any kind (bool, numpy, one-element arrays), a dict with `score`, or a Verdict.

    None, NaN, infinities and anything else are no score. Raises nothing, whatever the object does when it is looked at,
    but for an interrupt.
    """
    try:
        return _read(given)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return failed(error)


def _read(given: Any) -> Value:
    if isinstance(given, BaseException):
        return failed(given)
    if isinstance(given, Verdict):
        return _verdict(given)
    if isinstance(given, dict):
        if "score" not in given:
            return NoScore(f"a dict without 'score' ({show(sorted(map(str, given)))})")
        given = given["score"]
    return _number(given)


def _verdict(given: Verdict) -> Value:
    """One of our own making: the user's may hold anything, or be of a class of theirs."""
    known = [k for k in VerdictKind if k == given.kind]
    if not known:
        return NoScore(f"a Verdict of kind {show(given.kind)}")
    detail = given.detail if isinstance(given.detail, str) else show(given.detail)
    if known[0] is VerdictKind.infra_error:
        return Verdict(kind=known[0], score=0.0, detail=detail)
    score = _number(given.score)
    if isinstance(score, NoScore):
        return NoScore("a Verdict without a score") if score is ABSENT else score
    return Verdict(kind=known[0], score=score, detail=detail)


def _number(given: Any) -> float | NoScore:
    if callable(item := getattr(given, "item", None)):  # numpy and torch
        given = item()
    number = float(given) if isinstance(given, Real) else None
    if number is None:
        return ABSENT if given is None else NoScore(f"not a number: {show(given)}")
    if math.isfinite(number) and abs(number) > MOST:
        return NoScore(f"score {number:g} is beyond {MOST:g}")
    return number if math.isfinite(number) else NoScore(f"score {number}")


def values_of(given: Any, count: int) -> list[Value]:
    """The scores of a function that takes many completions; all without one where their number is wrong."""
    try:
        listed = _listed(given, count)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        listed = failed(error)
    return [listed] * count if isinstance(listed, NoScore) else [value_of(v) for v in listed]


def _listed(given: Any, count: int) -> list[Any] | NoScore:
    if isinstance(given, BaseException):
        return failed(given)
    try:
        listed = None if isinstance(given, str | bytes | dict) else list(given)
    except Exception:  # no iterable, or a generator that raises
        listed = None
    if listed is None:
        return NoScore(f"returned {show(given)}, not a list")
    return listed if len(listed) == count else NoScore(f"{len(listed)} scores for {count} completions")


def awaited(results: Sequence[Any], seconds: float | None) -> list[Any]:
    """The results with the awaitable ones waited for, side by side; what one raises stands in its place. Each may take
    `seconds` (None: no limit).

    They run in one event loop for the life of the process, in a thread of its own: it works wherever it is called from,
    and a client that a function keeps between calls is never left with a closed loop. Where one blocks that loop past
    all limits, it is left behind, and the next call gets another.
    """
    waiting = [
        i for i, r in enumerate(results) if issubclass(type(r), Awaitable)
    ]  # what `r` says of itself is the user's
    out = list(results)
    if waiting:
        future = asyncio.run_coroutine_threadsafe(_all([results[i] for i in waiting], seconds), _loop())
        turns = math.ceil(len(waiting) / CONCURRENT)
        try:
            done = future.result(None if seconds is None else seconds * turns + GRACE)
        except KeyboardInterrupt:  # of this thread's: the user's own
            future.cancel()
            raise
        except BaseException as error:  # a function that cancels all there is, or blocks the loop
            blocked = not future.done()
            if blocked:
                future.cancel()
                _loop.cache_clear()
            done = [OverTime("blocked the event loop past reward.seconds") if blocked else error] * len(waiting)
        for i, result in zip(waiting, done, strict=True):
            out[i] = result
    return out


async def _all(things: Sequence[Awaitable[Any]], seconds: float | None) -> list[Any]:
    gate = asyncio.Semaphore(CONCURRENT)

    async def one(thing: Awaitable[Any]) -> Any:
        async with gate:
            try:
                async with asyncio.timeout(seconds) as limit:
                    return await thing
            except BaseException as error:  # an interrupt too: it is not the user's, who interrupts the main thread
                over = isinstance(error, TimeoutError) and limit.expired()
                return OverTime(f"took more than the {seconds:g} s of reward.seconds") if over else error

    return await asyncio.gather(*(one(t) for t in things), return_exceptions=True)


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=_forever, args=(loop,), name="rollwise-rewards", daemon=True).start()
    return loop


def _forever(loop: asyncio.AbstractEventLoop) -> None:
    """A function may stop the loop, or end it by a task that raises an interrupt: somebody still waits for the rest."""
    while not loop.is_closed():
        with contextlib.suppress(BaseException):
            loop.run_forever()
