"""Held-out evaluation: avg@n accuracy and unbiased pass@k, sampling parameters stored with the numbers."""

from __future__ import annotations

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rollwise.metrics import by_source
from rollwise.records import Group, Prompt, Request, Rollout, Sampling, StopReason, mean
from rollwise.reflection import Patterns, reflection
from rollwise.verify.scoring import Judges, form_groups

LIMIT = "eval.seconds"


class Sampler(Protocol):
    def generate(
        self, requests: Sequence[Request], sampling: Sampling, *, run_seed: int, step: int, purpose: str = "sample"
    ) -> list[list[Rollout]]: ...


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Unbiased estimate of pass@k from `correct` of `n` samples (arXiv 2107.03374, eq. 1): 1 - C(n-c, k) / C(n, k).

    Raises ValueError unless 1 <= k <= n and 0 <= correct <= n.
    """
    if not (1 <= k <= n and 0 <= correct <= n):
        raise ValueError(f"pass@k needs 1 <= k <= n and 0 <= correct <= n; got n={n}, correct={correct}, k={k}")
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Numbers of one evaluation and the groups behind them. `prompts` are those that were asked; where time ended it
    before all that it was to ask, `ended` is the limit's name and `missing` their number."""

    results: dict[str, float]
    sampling: Sampling
    prompts: int
    samples: int
    groups: list[Group]
    ended: str = ""
    missing: int = 0

    @property
    def note(self) -> str:
        """What is to be said where it was ended; empty otherwise."""
        if not self.ended:
            return ""
        found = self.results["accuracy"]
        accuracy = f", accuracy of those {found:.3f}" if math.isfinite(found) else ""
        return f"ended by {self.ended}: {self.prompts:,} of {self.prompts + self.missing:,} prompts done{accuracy}"

    def to_json(self) -> dict[str, Any]:
        """Of an evaluation that was ended `results` are NaN, so that its numbers stand in no curve and no comparison as
        if they were of the same prompts as the others'; what was found for the prompts it has is `partial`."""
        out = {
            "prompts": self.prompts,
            "samples": self.samples,
            "sampling": self.sampling.to_json(),
            "results": self.results,
        }
        if not self.ended:
            return out
        unknown = dict.fromkeys(self.results, math.nan)
        return out | {"results": unknown, "partial": self.results, "ended": self.ended, "missing": self.missing}


def evaluate(
    sampler: Sampler,
    prompts: Sequence[Prompt],
    judges: Judges,
    *,
    sampling: Sampling,
    samples: int,
    seed: int,
    patterns: Patterns | None = None,
    seconds: float | None = None,
    at_once: int = 1,
) -> Evaluation:
    """Score `samples` completions of each prompt. The sample streams depend on `seed` and the prompt only, so that
    two models, or two steps of one, are compared on like draws. Members without a verdict are left out and counted.
    Where the prompts are of several tasks, or of one whose rows name several sources, the results of each follow as
    task/<name>/...; those of all are the mean over tasks where each has as many prompts. With `patterns`, signs of
    reflection in all responses are counted too.

    Without `seconds` all prompts are asked together. With it, rounds of prompts with `at_once` completions in all are,
    the tasks taking turns, and none begins once the time is over. Which prompts are left out then depends on their
    order only, never on their answers.
    """
    rounds = [list(range(len(prompts)))] if seconds is None else _rounds(prompts, max(1, at_once // samples))
    end = math.inf if seconds is None else time.monotonic() + seconds
    done: dict[int, Group] = {}
    for places in rounds:
        if time.monotonic() >= end:
            break
        requests = [Request(prompt=prompts[i], count=samples) for i in places]
        rollouts = sampler.generate(requests, sampling, run_seed=seed, step=0, purpose="eval")
        done.update(zip(places, form_groups(requests, rollouts, judges), strict=True))
    found = evaluation([done[i] for i in sorted(done)], sampling=sampling, samples=samples, patterns=patterns)
    missing = len(prompts) - len(done)
    return dataclasses.replace(found, ended=LIMIT, missing=missing) if missing else found


def _rounds(prompts: Sequence[Prompt], size: int) -> list[list[int]]:
    """Places of the prompts, `size` a round: the first of each task, the second of each, and so on."""
    seen: Counter[str] = Counter()
    turns = []
    for i, prompt in enumerate(prompts):
        turns.append((seen[prompt.task], i))
        seen[prompt.task] += 1
    order = [i for _, i in sorted(turns)]
    return [order[at : at + size] for at in range(0, len(order), size)]


def evaluation(
    groups: list[Group], *, sampling: Sampling, samples: int, patterns: Patterns | None = None
) -> Evaluation:
    """The numbers of groups that have been judged."""
    results = summarise(groups, samples)
    tasks = dict.fromkeys(g.prompt.task for g in groups)
    several = {task: [g for g in groups if g.prompt.task == task] for task in tasks}
    for task, own in (several if len(tasks) > 1 else by_source(groups)).items():
        results |= {f"task/{task}/{name}": value for name, value in summarise(own, samples).items()}
    results |= reflection(groups, patterns or {})
    return Evaluation(results=results, sampling=sampling, prompts=len(groups), samples=samples, groups=groups)


def summarise(groups: Sequence[Group], samples: int) -> dict[str, float]:
    """accuracy (avg@n), reward, pass@k for k = 1, 2, 4, ... up to n, lengths in tokens, truncated share.

    Accuracy, reward and pass@k are of what has a verdict, and NaN where nothing has: that no answer was judged does not
    make them wrong.
    """
    members = [r for g in groups for r in g.rollouts]
    scored = [[r for r in g.rollouts if r.scored] for g in groups]
    results = {
        "accuracy": _known([mean([float(r.correct) for r in s]) for s in scored if s]),
        "reward": _known([r.reward for s in scored for r in s]),
    }
    k = 1
    while k <= samples:
        results[f"pass@{k}"] = _known([pass_at_k(len(s), sum(r.correct for r in s), k) for s in scored if len(s) >= k])
        k *= 2
    results["mean_length"] = _known([float(r.length) for r in members])
    results["truncated"] = _known([float(r.stop is StopReason.length) for r in members])
    results["infra_error"] = _known([float(not r.scored) for r in members])
    return results


def _known(values: Sequence[float]) -> float:
    return mean(values) if values else math.nan
