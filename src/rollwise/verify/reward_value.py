"""What a user's function returned, as a number or the reason why it is none. Never a zero that nobody gave."""

from __future__ import annotations

import asyncio
import functools
import math
import threading
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from rollwise.errors import show
from rollwise.records import Verdict, VerdictKind

CONCURRENT = 64  # asynchronous calls under way at a time


@dataclass(frozen=True, slots=True)
class NoScore:
    """The function said nothing of this completion."""

    reason: str


Value = float | Verdict | NoScore
ABSENT = NoScore("no score")  # what None says: another function may still have one


def failed(error: BaseException) -> NoScore:
    return NoScore(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def value_of(given: Any) -> Value:
    """A score: numbers of any kind (bool, numpy, one-element arrays), a dict with `score`, or a Verdict.

    None, NaN, infinities and anything else are no score.
    """
    if isinstance(given, BaseException):
        return failed(given)
    if isinstance(given, Verdict):
        known = given.kind is VerdictKind.infra_error or math.isfinite(given.score)
        return given if known else NoScore(f"score {given.score}")
    if isinstance(given, dict):
        if "score" not in given:
            return NoScore(f"a dict without 'score' ({show(sorted(map(str, given)))})")
        given = given["score"]
    try:
        if callable(item := getattr(given, "item", None)):  # numpy and torch
            given = item()
        number = float(given) if isinstance(given, Real) else None
    except Exception as error:
        return failed(error)
    if number is None:
        return ABSENT if given is None else NoScore(f"not a number: {show(given)}")
    return number if math.isfinite(number) else NoScore(f"score {number}")


def values_of(given: Any, count: int) -> list[Value]:
    """The scores of a function that takes many completions; all without one where their number is wrong."""
    if isinstance(given, BaseException):
        return [failed(given)] * count
    try:
        listed = None if isinstance(given, str | bytes | dict) else list(given)
    except Exception:  # no iterable, or a generator that raises
        listed = None
    if listed is None:
        return [NoScore(f"returned {show(given)}, not a list")] * count
    if len(listed) != count:
        return [NoScore(f"{len(listed)} scores for {count} completions")] * count
    return [value_of(v) for v in listed]


def awaited(results: Sequence[Any]) -> list[Any]:
    """The results with the awaitable ones waited for, side by side; what one raises stands in its place.

    They run in one event loop for the life of the process, in a thread of its own: it works wherever it is called from,
    and a client that a function keeps between calls is never left with a closed loop.
    """
    waiting = [i for i, r in enumerate(results) if isinstance(r, Awaitable)]
    out = list(results)
    if waiting:
        done = asyncio.run_coroutine_threadsafe(_all([results[i] for i in waiting]), _loop()).result()
        for i, result in zip(waiting, done, strict=True):
            out[i] = result
    return out


async def _all(things: Sequence[Awaitable[Any]]) -> list[Any]:
    gate = asyncio.Semaphore(CONCURRENT)

    async def one(thing: Awaitable[Any]) -> Any:
        async with gate:
            try:
                return await thing
            except (Exception, SystemExit) as error:
                return error

    return await asyncio.gather(*(one(t) for t in things), return_exceptions=True)


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="rollwise-rewards", daemon=True).start()
    return loop
