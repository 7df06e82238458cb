"""The call shapes of reward functions, told apart by the names of their arguments.

    f(prompts, completions, **columns) -> list of scores          TRL: all completions at once
    compute_score(data_source, solution_str, ground_truth, extra_info=None) -> score or {"score": ...}     verl
    f(completion, answer, state, prompt, info, task) -> score     verifiers (v0): whichever of them it names
    score(completion: str, answer, *, prompt, meta) -> score or Verdict      ours: names `meta`, or says `: str`

A function is given those of a shape's arguments that it names, all of them if it takes `**kwargs`: copies to any depth,
since it may change what it is given, and the golds must not change with it. TRL and verifiers see a completion as
messages where the prompt is messages, else as text. Any of them may be asynchronous.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from rollwise.errors import UserError, show
from rollwise.records import Prompt
from rollwise.verify.reward_file import LIMIT, Function
from rollwise.verify.reward_value import NoScore, Value, awaited, failed, value_of, values_of
from rollwise.verify.scoring import Completion
from rollwise.verify.time_limit import OverTime, limited

T = TypeVar("T")
KNOWN = (
    "a reward function takes `completions` (as in TRL), `solution_str` and `ground_truth` (verl), "
    "`completion` and `answer` (verifiers; ours with `completion: str`)"
)
GOLD = ("answer", "ground_truth", "solution")  # columns that hold the gold where a row has none of that name
PLAIN = (bool, int, float, type(None), OverTime)  # that do nothing when they are read
TIRED = 3  # calls of a batch that may run into the limit
NOT_CALLED = OverTime(f"not called: {TIRED} before it took more than {LIMIT}")
BATCH = ("prompts", "completions", "completion_ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """A user's function that can be called on completions."""

    function: Function
    shape: str  # trl, verl, verifiers, own
    names: frozenset[str]  # the arguments it names
    required: frozenset[str]
    takes_all: bool  # has **kwargs
    arguments: Callable[[Completion], dict[str, Any]] | None = field(repr=False)  # None: all completions at once

    def __call__(self, completions: Sequence[Completion], seconds: float | None) -> list[Value]:
        """A score for each, or why there is none. Raises nothing that the function raises, but for an interrupt. A call
        may take `seconds`; after `TIRED` that took longer none is begun."""
        if self.arguments is None:
            return self._all(completions, seconds) if completions else []
        given: list[Any] = []
        slow = 0
        for c in completions:
            offered = copy.deepcopy(self.arguments(c))
            given.append(NOT_CALLED if slow >= TIRED else self._call(offered, seconds))
            slow += type(given[-1]) is OverTime  # what it says of itself is the user's
        return [self._read(partial(value_of, v), v, seconds) for v in awaited(given, seconds)]

    def _all(self, completions: Sequence[Completion], seconds: float | None) -> list[Value]:
        count = len(completions)
        (given,) = awaited([self._call(columns(completions), seconds)], seconds)
        read = self._read(partial(values_of, given, count), given, seconds)
        return [read] * count if isinstance(read, NoScore) else read

    def _read(self, read: Callable[[], T], given: Any, seconds: float | None) -> T | NoScore:
        """What was returned as a value: a generator has its work still before it, and an object may do any."""
        if type(given) in PLAIN:
            return read()
        try:
            return limited(read, seconds, LIMIT)
        except OverTime as error:
            return failed(error)

    def _call(self, offered: Mapping[str, Any], seconds: float | None) -> Any:
        given = offered if self.takes_all else {k: v for k, v in offered.items() if k in self.names}
        try:
            return limited(partial(self.function.call, **given), seconds, LIMIT)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return error

    def check(self, prompt: Prompt) -> None:
        """Raises UserError where the function needs a column that the rows of `prompt`'s data set do not have."""
        probe = Completion(prompt=prompt, text="")
        offered = columns([probe]) if self.arguments is None else self.arguments(probe)
        missing = sorted(self.required - set(offered))
        if missing:
            has = ", ".join(k for k in offered if k not in BATCH)
            raise UserError(
                f"reward: {self.function.where} needs '{missing[0]}', which is no column of {prompt.task or 'the data'}"
                f" (it has {show(has, 120)[1:-1]}); give it a default, or rename it"
            )


def scorer(function: Function) -> Scorer:
    """The function with its call shape. Raises UserError where its arguments are those of none."""
    try:
        parameters = inspect.signature(function.call).parameters
    except (TypeError, ValueError):
        raise UserError(f"reward: {function.where}: its arguments cannot be read; {KNOWN}") from None
    named = {n: p for n, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    shape = _shape(named)
    required = {n for n, p in named.items() if p.default is p.empty}
    required |= {n for n, p in parameters.items() if p.kind is p.POSITIONAL_ONLY and p.default is p.empty}
    made = Scorer(
        function=function,
        shape=shape,
        names=frozenset(named),
        required=frozenset(required),
        takes_all=any(p.kind is p.VAR_KEYWORD for p in parameters.values()),
        arguments=ARGUMENTS.get(shape),
    )
    offered = set() if shape in ("", "trl") else set(ARGUMENTS[shape](Completion(prompt=Prompt(uid=""), text="")))
    foreign = sorted(required - offered)
    if not shape or (offered and foreign):
        args = ", ".join(parameters)
        known = f"'{foreign[0]}' is none of {', '.join(sorted(offered))}" if shape else KNOWN
        raise UserError(f"reward: {function.where} takes ({show(args, 80)[1:-1]}); {known}")
    return made


def _shape(named: Mapping[str, inspect.Parameter]) -> str:
    if "completions" in named:
        return "trl"
    if "solution_str" in named:
        return "verl"
    if "completion" not in named:
        return "verifiers" if "state" in named else ""
    text = named["completion"].annotation in (str, "str")
    return "own" if text or "meta" in named else "verifiers"


def columns(completions: Sequence[Completion]) -> dict[str, Any]:
    """What TRL passes: prompts, completions, their token ids, and every column of the rows as a list. The gold is there
    as `answer`, `ground_truth` and `solution`, and by its own keys where it is a mapping; a row's own column goes
    first."""
    out: dict[str, list[Any]] = {
        "prompts": [_question(c) for c in completions],
        "completions": [_said(c) for c in completions],
        "completion_ids": [[] if c.token_ids is None else c.token_ids.tolist() for c in completions],
    }
    rows = [copy.deepcopy(_row(c.prompt)) for c in completions]
    for name in dict.fromkeys(k for row in rows for k in row if k not in BATCH):
        out[name] = [row.get(name) for row in rows]
    return out


def _row(prompt: Prompt) -> dict[str, Any]:
    gold = dict(prompt.answer) if isinstance(prompt.answer, Mapping) else {}
    return {**dict.fromkeys(GOLD, prompt.answer), **gold, **prompt.meta}


def _question(c: Completion) -> Any:
    """Messages, or text."""
    return c.prompt.text if c.prompt.messages is None else copy.deepcopy(c.prompt.messages)


def _said(c: Completion) -> Any:
    return c.text if c.prompt.messages is None else [{"role": "assistant", "content": c.text}]


def _info(prompt: Prompt, name: str) -> dict[str, Any]:
    """The row's column of that name where it is a mapping, else all its further columns."""
    own = prompt.meta.get(name)
    return dict(own) if isinstance(own, Mapping) else dict(prompt.meta)


def _verl(c: Completion) -> dict[str, Any]:
    return {
        "data_source": c.prompt.meta.get("data_source", c.prompt.task),
        "solution_str": c.text,
        "ground_truth": c.prompt.answer,
        "extra_info": _info(c.prompt, "extra_info"),
    }


def _verifiers(c: Completion) -> dict[str, Any]:
    seen = {
        "prompt": _question(c),
        "completion": _said(c),
        "answer": c.prompt.answer,
        "task": c.prompt.task,
        "info": _info(c.prompt, "info"),
    }
    return {**seen, "state": dict(seen)}


def _own(c: Completion) -> dict[str, Any]:
    return {"completion": c.text, "answer": c.prompt.answer, "prompt": _question(c), "meta": dict(c.prompt.meta)}


ARGUMENTS: dict[str, Callable[[Completion], dict[str, Any]]] = {"verl": _verl, "verifiers": _verifiers, "own": _own}
