"""Difficulty by measurement: the pass rate of a model on each row, and what it is called.

SRPO (arXiv 2504.14286) grades by pass@k and states neither k nor the limits; 8 samples, easy above 0.75 and hard below
0.25 are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rollwise.evaluate import Sampler, pass_at_k
from rollwise.records import Group, Prompt, Request, Sampling, VerdictKind, mean
from rollwise.verify.scoring import Judges, form_groups

Grade = Literal["easy", "medium", "hard"]
TIME_OVER = "not asked: ended by --seconds"


class Prompts(Protocol):
    """Prompts by index: a list, or a source that makes them."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Prompt: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One row's numbers. `grade` is None where no sample got a verdict: the verifier failed on all of them."""

    samples: int
    scored: int
    correct: int
    grade: Grade | None
    mean_length: float  # tokens
    truncated: int  # samples cut at max_completion_length
    trouble: str = ""  # what the verifier said of the first sample it failed on

    @property
    def pass_rate(self) -> float | None:
        return self.correct / self.scored if self.scored else None

    def to_json(self) -> dict[str, Any]:
        """With unbiased pass@k for k = 1, 2, 4, ... up to the scored samples."""
        ks = [2**i for i in range(self.scored.bit_length()) if 2**i <= self.scored]
        out: dict[str, Any] = {
            "grade": self.grade,
            "pass_rate": self.pass_rate,
            **{f"pass@{k}": pass_at_k(self.scored, self.correct, k) for k in ks},
            "samples": self.samples,
            "scored": self.scored,
            "correct": self.correct,
            "mean_length": self.mean_length,
            "truncated": self.truncated,
        }
        return {**out, "trouble": self.trouble} if self.trouble else out


def grade_of(pass_rate: float, easy: float, hard: float) -> Grade:
    """easy above `easy`, hard below `hard`, else medium; the limits themselves are medium."""
    if pass_rate > easy:
        return "easy"
    return "hard" if pass_rate < hard else "medium"


def measure(group: Group, *, easy: float, hard: float) -> Measured:
    """The numbers of one group of samples."""
    scored = sum(r.scored for r in group.rollouts)
    failed = [
        r.verdict.detail for r in group.rollouts if r.verdict and r.verdict.kind is VerdictKind.infra_error
    ]  # the verifier's words, not the answer's
    return Measured(
        samples=group.size,
        scored=scored,
        correct=sum(r.correct for r in group.rollouts),
        grade=grade_of(group.pass_rate, easy, hard) if scored else None,
        mean_length=mean([float(r.length) for r in group.rollouts]),
        truncated=sum(r.stop.value == "length" for r in group.rollouts),
        trouble=failed[0] if failed else "",
    )


def grade(
    sampler: Sampler,
    prompts: Prompts,
    judges: Judges,
    *,
    sampling: Sampling,
    samples: int,
    seed: int,
    easy: float,
    hard: float,
    at_once: int,
    refused: Callable[[Prompt], str] = lambda prompt: "",
    over: Callable[[], bool] = lambda: False,
) -> Iterator[Measured]:
    """The prompts' numbers, in order, `at_once` prompts sampled together. What is drawn for a prompt depends on the
    seed, its uid and the model only, not on its neighbours. `refused` says why the model cannot be asked a prompt; that
    one has no numbers, and the others go on. Once the time is `over` no more are asked."""
    for start in range(0, len(prompts), at_once):
        chunk = [prompts[i] for i in range(start, min(start + at_once, len(prompts)))]
        reasons = [TIME_OVER] * len(chunk) if over() else [refused(prompt) for prompt in chunk]
        requests = [Request(prompt=p, count=samples) for p, why in zip(chunk, reasons, strict=True) if not why]
        rollouts = sampler.generate(requests, sampling, run_seed=seed, step=0, purpose="grade") if requests else []
        groups = iter(form_groups(requests, rollouts, judges))
        for why in reasons:
            yield unasked(why) if why else measure(next(groups), easy=easy, hard=hard)


def unasked(why: str) -> Measured:
    """What is known of a row that the model could not be asked."""
    return Measured(samples=0, scored=0, correct=0, grade=None, mean_length=0.0, truncated=0, trouble=why)
