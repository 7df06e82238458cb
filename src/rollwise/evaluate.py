"""Held-out evaluation: avg@n accuracy and unbiased pass@k, sampling parameters stored with the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rollwise.metrics import by_source
from rollwise.records import Group, Prompt, Request, Rollout, Sampling, StopReason, mean
from rollwise.reflection import Patterns, reflection
from rollwise.verify.scoring import Judges, form_groups


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
    """Numbers of one evaluation and the groups behind them."""

    results: dict[str, float]
    sampling: Sampling
    prompts: int
    samples: int
    groups: list[Group]

    def to_json(self) -> dict[str, Any]:
        return {
            "prompts": self.prompts,
            "samples": self.samples,
            "sampling": self.sampling.to_json(),
            "results": self.results,
        }


def evaluate(
    sampler: Sampler,
    prompts: Sequence[Prompt],
    judges: Judges,
    *,
    sampling: Sampling,
    samples: int,
    seed: int,
    patterns: Patterns | None = None,
) -> Evaluation:
    """Score `samples` completions of each prompt. The sample streams depend on `seed` and the prompt only, so that
    two models, or two steps of one, are compared on like draws. Members without a verdict are left out and counted.
    Where the prompts are of several tasks, or of one whose rows name several sources, the results of each follow as
    task/<name>/...; those of all are the mean over tasks where each has as many prompts. With `patterns`, signs of
    reflection in all responses are counted too.
    """
    requests = [Request(prompt=p, count=samples) for p in prompts]
    rollouts = sampler.generate(requests, sampling, run_seed=seed, step=0, purpose="eval")
    groups = form_groups(requests, rollouts, judges)
    return evaluation(groups, sampling=sampling, samples=samples, patterns=patterns)


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
    results["mean_length"] = mean([float(r.length) for r in members])
    results["truncated"] = mean([float(r.stop is StopReason.length) for r in members])
    results["infra_error"] = mean([float(not r.scored) for r in members])
    return results


def _known(values: Sequence[float]) -> float:
    return mean(values) if values else math.nan
