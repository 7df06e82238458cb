"""The audit of golds: each is said back as a model that knows it would write it, and its own verifier must call that
correct. One that does not would reward no answer at all, or another one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from rollwise.errors import UserError
from rollwise.records import Prompt, VerdictKind
from rollwise.tasks.base import PromptSource, Task
from rollwise.verify.scoring import Completion, Judge, judged

CHUNK = 64  # golds judged in one call
AT_START = 2000  # rows checked before a run
SECONDS_AT_START = 60.0  # after which the check before a run has seen enough


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldFault:
    """A gold that is not right by its own verifier."""

    uid: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldAudit:
    checked: int  # golds said back and judged
    failed: tuple[GoldFault, ...] = ()
    silent: int = 0  # rows that hold nothing to say back, as code without a reference program

    def to_json(self) -> dict[str, Any]:
        failed = [{"uid": f.uid, "reason": f.reason} for f in self.failed]
        return {"checked": self.checked, "silent": self.silent, "failed": failed}


@runtime_checkable
class SaysBack(Protocol):
    """A task whose golds can be audited."""

    def restated(self, completion: Completion) -> str | None: ...


def audit_golds(
    prompts: Iterable[Prompt],
    judge: Judge,
    restated: Callable[[Completion], str | None],
    *,
    seconds: float | None = None,
) -> GoldAudit:
    """Judge what `restated` says of each prompt; after `seconds` no further ones are begun."""
    checked = silent = 0
    failed: list[GoldFault] = []
    rest = iter(prompts)
    end = None if seconds is None else time.monotonic() + seconds
    while (chunk := list(islice(rest, CHUNK))) and (end is None or time.monotonic() < end):
        said: list[Completion] = []
        for prompt in chunk:
            text = restated(Completion(prompt=prompt, text=""))
            if text is not None:
                said.append(Completion(prompt=prompt, text=text))
            elif reason := _unreadable(prompt, judge):
                checked += 1
                failed.append(GoldFault(uid=prompt.uid, reason=reason))
            else:
                silent += 1
        checked += len(said)
        failed += _not_right(said, judge)
    return GoldAudit(checked=checked, failed=tuple(failed), silent=silent)


def _not_right(said: Sequence[Completion], judge: Judge) -> list[GoldFault]:
    out = []
    for completion, verdict in zip(said, judged(judge, said) if said else [], strict=True):
        if verdict.kind is not VerdictKind.correct:
            why = verdict.detail or f"{' '.join(completion.text.split())[:60]!r} is judged {verdict.kind.value}"
            out.append(GoldFault(uid=completion.prompt.uid, reason=why))
    return out


def _unreadable(prompt: Prompt, judge: Judge) -> str:
    """Why a gold that is not said back cannot be read; "" where there is merely nothing to say."""
    (verdict,) = judged(judge, [Completion(prompt=prompt, text="")])
    return verdict.detail if verdict.kind is VerdictKind.infra_error and verdict.detail.startswith("gold: ") else ""


def check_golds(task: Task, most: int = AT_START) -> str | None:
    """The audit before a run, of up to `most` training rows of a task that is read from somewhere: a line for the user
    where any gold fails, else None. Raises UserError where all do."""
    if task.train.generated or not isinstance(task, SaysBack):
        return None
    found = audit_golds(_spread(task.train, most), task.judge, task.restated, seconds=SECONDS_AT_START)
    if not found.failed:
        return None
    first = found.failed[0]
    count = f"{len(found.failed):,} of {found.checked:,} golds checked are not right by their own verifier"
    example = f"the first is {first.uid}: {first.reason}"
    if len(found.failed) == found.checked:
        raise UserError(f"{task.name}: {count}; {example}; check the gold column and the verifier")
    return f"{task.name}: {count}; {example}"


def _spread(source: PromptSource, most: int) -> Iterable[Prompt]:
    """All rows, or `most` evenly spread ones."""
    stride = max(1, -(-len(source) // most))
    return (source[i] for i in range(0, len(source), stride))
