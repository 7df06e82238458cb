"""Reward functions of the user: their scores in place of the task's, its verdicts kept for accuracy.

- The score is the function's; of several, their weighted sum, a None of one left out (as TRL does).
- Accuracy stays the verdict of the task's own verifier. Where it has no gold to judge by, a score of `correct_at` or
  more counts as correct. A `Verdict` that the only function returns stands as it is.
- A function that raises, returns None, NaN, an infinity or no number leaves that completion without a verdict
  (`infra_error`): it is counted, and takes no part in its group.

A call has a time limit (`time_limit` says what it can end): one that takes longer leaves its completions without a
verdict. A batch that takes long is told of once.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout

from rollwise.errors import UserError
from rollwise.records import Prompt, Verdict, VerdictKind, mean
from rollwise.verify.reward_file import load_function
from rollwise.verify.reward_shapes import Scorer, scorer
from rollwise.verify.reward_value import ABSENT, NoScore, Value
from rollwise.verify.scoring import Completion, infra_error
from rollwise.verify.unjudged import REASON

SLOW = 60.0  # seconds a batch may take before the user is told
NO_GOLD = ("gold:", REASON)  # how the detail of a verdict begins that found no gold it can read


class UserRewards:
    """Functions by `file.py:function` with their weights. Raises UserError for any that cannot be used."""

    def __init__(
        self,
        functions: Mapping[str, float],
        correct_at: float = 1.0,
        note: Callable[[str], None] | None = None,
        *,
        seconds: float | None = None,
    ) -> None:
        self.scorers: list[tuple[Scorer, float]] = [
            (scorer(load_function(f, seconds)), w) for f, w in functions.items()
        ]
        names = [s.function.name for s, _ in self.scorers]
        if len(set(names)) < len(names):
            raise UserError(f"reward.functions: two are called '{max(names, key=names.count)}'; give them two names")
        self.correct_at, self.seconds = correct_at, seconds
        self.note = note or (lambda text: print(f"note: {text}", file=sys.stderr))
        self._told = False
        self._seen: dict[str, list[float]] = {}

    @property
    def digests(self) -> list[str]:
        """The files' sha256."""
        return [s.function.digest for s, _ in self.scorers]

    def check(self, prompt: Prompt) -> None:
        """Raises UserError where a function needs what the data has not."""
        for s, _ in self.scorers:
            s.check(prompt)

    def verdicts(self, completions: Sequence[Completion], own: Sequence[Verdict]) -> list[Verdict]:
        """`own`, the task's verdicts, with the scores of the functions."""
        clock = time.monotonic()
        with redirect_stdout(sys.stderr):
            columns = [(s.function.name, w, s(completions, self.seconds)) for s, w in self.scorers]
        took = time.monotonic() - clock
        if took > SLOW and not self._told:
            self._told = True
            limit = "nothing limits it" if self.seconds is None else f"reward.seconds={self.seconds:g} limits a call"
            self.note(f"the reward function took {took:.0f} s for {len(completions)} completions; {limit}")
        for name, _, values in columns:
            self._seen.setdefault(name, []).extend(_number(v) for v in values if not _missing(v))
        return [self._one(verdict, [(n, w, v[i]) for n, w, v in columns]) for i, verdict in enumerate(own)]

    def _one(self, own: Verdict, given: Sequence[tuple[str, float, Value]]) -> Verdict:
        if len(given) == 1 and isinstance(given[0][2], Verdict):
            return given[0][2]
        for name, _, value in given:
            if _missing(value) and value is not ABSENT:
                return infra_error(f"{name}: {_reason(value)}")
        scores = [w * _number(v) for _, w, v in given if not _missing(v)]
        if not scores:
            return infra_error(f"{', '.join(n for n, _, _ in given)}: no score")
        score = sum(scores)
        if own.kind is not VerdictKind.infra_error:
            return dataclasses.replace(own, score=score)
        if not own.detail.startswith(NO_GOLD):
            return own
        kind = VerdictKind.correct if score >= self.correct_at else VerdictKind.wrong
        return Verdict(kind=kind, score=score, detail="by the score")

    def take(self) -> dict[str, float]:
        """rewards/<name>/mean (TRL's name) over the scores given since the last call, unweighted."""
        out = {f"rewards/{name}/mean": mean(values) for name, values in self._seen.items() if values}
        self._seen = {}
        return out


def _missing(value: Value) -> bool:
    return isinstance(value, NoScore) or (isinstance(value, Verdict) and value.kind is VerdictKind.infra_error)


def _number(value: Value) -> float:
    assert not isinstance(value, NoScore)
    return value.score if isinstance(value, Verdict) else value


def _reason(value: Value) -> str:
    return value.reason if isinstance(value, NoScore) else value.detail if isinstance(value, Verdict) else ""
