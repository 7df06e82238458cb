"""From rollouts to groups: every completion gets a verdict, and a verifier that fails says nothing about an answer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

from rollwise.records import Group, Prompt, Request, Rollout, StopReason, Verdict, VerdictKind

Verify = Callable[[str, object, StopReason], Verdict]
Verifiers = Verify | Mapping[str, Verify]
"""One for all prompts, or one for each `prompt.task`."""
Shaping = Callable[[Rollout], float]
"""What is added to the score of a rollout that has a verdict."""


def form_groups(
    requests: Sequence[Request],
    rollouts: Sequence[Sequence[Rollout]],
    verify: Verifiers,
    shaping: Shaping | None = None,
) -> list[Group]:
    """One group per request, verified, in order; the reward is the score, plus `shaping` of the rollout if given."""
    return [
        Group(
            uid=request.prompt.group_uid,
            prompt=request.prompt,
            rollouts=tuple(judge(r, request.prompt.answer, _of(verify, request.prompt), shaping) for r in members),
            purpose=request.purpose,
        )
        for request, members in zip(requests, rollouts, strict=True)
    ]


def _of(verify: Verifiers, prompt: Prompt) -> Verify:
    return verify if callable(verify) else verify[prompt.task]


def judge(rollout: Rollout, answer: object, verify: Verify, shaping: Shaping | None = None) -> Rollout:
    """The rollout with its verdict and reward. An exception or a score that is not finite is an `infra_error`."""
    try:
        verdict = verify(rollout.text, answer, rollout.stop)
    except Exception as error:  # whatever a verifier raises, the run goes on and the answer is not judged
        verdict = Verdict(kind=VerdictKind.infra_error, score=0.0, detail=f"{type(error).__name__}: {error}"[:200])
    if verdict.kind is not VerdictKind.infra_error and not math.isfinite(verdict.score):
        verdict = Verdict(kind=VerdictKind.infra_error, score=0.0, detail=f"score {verdict.score}")
    reward = verdict.score if verdict.kind is not VerdictKind.infra_error else float("nan")
    judged = dataclasses.replace(rollout, verdict=verdict, reward=reward)
    return dataclasses.replace(judged, reward=reward + shaping(judged)) if shaping and judged.scored else judged
