"""From rollouts to groups: every completion gets a verdict, and a verifier that fails says nothing about an answer.

A judge takes many completions at once, since some verifiers work in parallel and some user functions want whole groups.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rollwise.records import Group, Prompt, Request, Rollout, StopReason, Verdict, VerdictKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a judge sees: the question with its gold answer (`prompt.answer`), and what was said to it."""

    prompt: Prompt
    text: str
    stop: StopReason = StopReason.eos
    token_ids: np.ndarray | None = None  # int32 [T]; None where only the text is known


Judge = Callable[[Sequence[Completion]], Sequence[Verdict]]
"""One verdict for each completion, in order."""
Judges = Judge | Mapping[str, Judge]
"""One for all prompts, or one for each `prompt.task`."""
Verify = Callable[[str, object, StopReason], Verdict]
"""The verdict on one text, given the gold answer and why the text ended."""
Shaping = Callable[[Rollout], float]
"""What is added to the score of a rollout that has a verdict."""


def infra_error(reason: str) -> Verdict:
    """The verifier failed: nothing is said of the answer."""
    return Verdict(kind=VerdictKind.infra_error, score=0.0, detail=reason[:200])


ABORTED = infra_error("the server gave the request up")


def one_by_one(verify: Verify, completions: Sequence[Completion]) -> list[Verdict]:
    """The verdicts of a verifier that looks at one text at a time. One that raises costs that one verdict only."""
    out: list[Verdict] = []
    for c in completions:
        try:
            out.append(verify(c.text, c.prompt.answer, c.stop))
        except Exception as error:  # whatever a verifier raises, the run goes on and the answer is not judged
            out.append(infra_error(f"{type(error).__name__}: {error}"))
    return out


def judged(judge: Judge, completions: Sequence[Completion]) -> list[Verdict]:
    """The verdicts of `judge`, made safe: an exception, a wrong count or a score that is not finite is an
    `infra_error`."""
    try:
        verdicts = list(judge(completions))
    except Exception as error:
        return [infra_error(f"{type(error).__name__}: {error}")] * len(completions)
    if len(verdicts) != len(completions):
        return [infra_error(f"{len(verdicts)} verdicts for {len(completions)} completions")] * len(completions)
    return [
        v if v.kind is VerdictKind.infra_error or math.isfinite(v.score) else infra_error(f"score {v.score}")
        for v in verdicts
    ]


def form_groups(
    requests: Sequence[Request],
    rollouts: Sequence[Sequence[Rollout]],
    judges: Judges,
    shaping: Shaping | None = None,
) -> list[Group]:
    """One group per request, verified, in order; the reward is the score, plus `shaping` of the rollout if given. A
    completion that the server gave up is not judged."""
    completions = [
        Completion(prompt=request.prompt, text=r.text, stop=r.stop, token_ids=r.completion_ids)
        for request, members in zip(requests, rollouts, strict=True)
        for r in members
        if r.stop is not StopReason.aborted
    ]
    verdicts = _verdicts(completions, judges)
    return [
        Group(
            uid=request.prompt.group_uid,
            prompt=request.prompt,
            rollouts=tuple(
                rewarded(r, ABORTED if r.stop is StopReason.aborted else next(verdicts), shaping) for r in members
            ),
            purpose=request.purpose,
        )
        for request, members in zip(requests, rollouts, strict=True)
    ]


def _verdicts(completions: list[Completion], judges: Judges) -> Iterator[Verdict]:
    """The verdict of each completion, in order, by the judge of its task."""
    if callable(judges):
        return iter(judged(judges, completions))
    out: dict[int, Verdict] = {}
    for task in dict.fromkeys(c.prompt.task for c in completions):
        places = [i for i, c in enumerate(completions) if c.prompt.task == task]
        out.update(zip(places, judged(judges[task], [completions[i] for i in places]), strict=True))
    return (out[i] for i in range(len(completions)))


def rewarded(rollout: Rollout, verdict: Verdict, shaping: Shaping | None = None) -> Rollout:
    """The rollout with its verdict and reward."""
    reward = verdict.score if verdict.kind is not VerdictKind.infra_error else float("nan")
    out = dataclasses.replace(rollout, verdict=verdict, reward=reward)
    return dataclasses.replace(out, reward=reward + shaping(out)) if shaping and out.scored else out
