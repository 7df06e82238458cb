"""The results of one model on several benchmarks, with all that intervals and comparisons need.

An accuracy is the mean over prompts of the share of correct answers (avg@n). Its interval is the 95 % t-interval over
prompts, which says how the number would vary with other prompts of the kind, not with other training runs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rollwise import __version__
from rollwise.compare.statistics import Interval, interval
from rollwise.errors import UserError
from rollwise.records import Group, Prompt, Sampling

SCHEMA = 1
HOW = ("sampled", "greedy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Each:
    """One prompt's completions."""

    uid: str
    correct: int
    scored: int  # those with a verdict
    lengths: tuple[int, ...]  # tokens of each completion, all of them

    @property
    def accuracy(self) -> float:
        return self.correct / self.scored if self.scored else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One benchmark, sampled in one way."""

    samples: int
    sampling: dict[str, Any]
    results: dict[str, float]
    each: tuple[Each, ...]
    ended: str = ""  # what ended it before all prompts were asked

    @property
    def accuracy(self) -> Interval:
        return over_prompts([e.accuracy for e in self.each])


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    name: str
    data: str  # sha256 of the prompts and golds, as they were asked
    passes: dict[str, Pass]  # by HOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    model: str
    seed: int
    benchmarks: tuple[Benchmark, ...]
    version: str = __version__

    def to_json(self) -> dict[str, Any]:
        """As it is written: numbers that do not exist are null."""
        listed: dict[str, Any] = {}
        for b in self.benchmarks:
            passes = {
                how: {
                    **_accuracy(p.accuracy),
                    **{k: v for k, v in dataclasses.asdict(p).items() if v or k != "ended"},
                    "results": {k: _number(v) for k, v in p.results.items()},
                }
                for how, p in b.passes.items()
            }
            listed[b.name] = {"data": b.data, **passes}
        return {
            "schema": SCHEMA,
            "version": self.version,
            "model": self.model,
            "seed": self.seed,
            "benchmarks": listed,
            "mean": {how: _accuracy(mean_accuracy(self, how)) | _means(self, how) for how in self.passes},
        }

    @property
    def passes(self) -> list[str]:
        """The ways of sampling that every benchmark has."""
        return [how for how in HOW if all(how in b.passes for b in self.benchmarks)]


def passed(
    groups: Sequence[Group], sampling: Sampling, samples: int, results: Mapping[str, float], ended: str = ""
) -> Pass:
    """A pass from its groups."""
    each = tuple(
        Each(
            uid=g.prompt.uid,
            correct=sum(r.scored and r.correct for r in g.rollouts),
            scored=sum(r.scored for r in g.rollouts),
            lengths=tuple(r.length for r in g.rollouts),
        )
        for g in groups
    )
    return Pass(samples=samples, sampling=sampling.to_json(), results=dict(results), each=each, ended=ended)


def fingerprint(prompts: Sequence[Prompt]) -> str:
    """Equal for equal questions and golds, asked in the same words."""
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(json.dumps(prompt.to_json(), sort_keys=True).encode())
    return digest.hexdigest()


def over_prompts(values: Sequence[float]) -> Interval:
    """Mean and 95 % t-interval of the finite values; none where all are equal, which is no sign of certainty."""
    good = [v for v in values if math.isfinite(v)]
    found = interval(good)
    return dataclasses.replace(found, half=math.nan) if good and min(good) == max(good) else found


def over_benchmarks(parts: Sequence[Interval]) -> Interval:
    """The unweighted mean of independent means; its half width is sqrt(sum of squares) / count."""
    if len(parts) == 1:
        return parts[0]
    half = math.sqrt(sum(p.half**2 for p in parts)) / len(parts) if parts else math.nan
    return Interval(mean=fmean(p.mean for p in parts) if parts else math.nan, half=half, n=len(parts))


def mean_accuracy(results: Results, how: str) -> Interval:
    return over_benchmarks([b.passes[how].accuracy for b in results.benchmarks])


def mean_result(results: Results, how: str, name: str) -> float:
    """The unweighted mean over benchmarks; NaN where one has no such result."""
    return fmean(b.passes[how].results.get(name, math.nan) for b in results.benchmarks)


def _means(results: Results, how: str) -> dict[str, float | None]:
    names = [n for n in results.benchmarks[0].passes[how].results if n.startswith("pass@") or n == "mean_length"]
    return {n: _number(mean_result(results, how, n)) for n in names}


def _accuracy(found: Interval) -> dict[str, float | None]:
    return {"accuracy": _number(found.mean), "half_width": _number(found.half)}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def read_results(path: Path) -> Results:
    """Results written before. Raises UserError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path}: not JSON; give a file that `rollwise eval --output` wrote") from None
    try:
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']}")
        benchmarks = tuple(_benchmark(name, entry) for name, entry in data["benchmarks"].items())
        return Results(model=data["model"], seed=data["seed"], version=data["version"], benchmarks=benchmarks)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path}: not results of this version of `rollwise eval --output` ({error})") from None


def _benchmark(name: str, entry: dict[str, Any]) -> Benchmark:
    passes = {
        how: Pass(
            samples=int(entry[how]["samples"]),
            sampling=dict(entry[how]["sampling"]),
            results={str(k): math.nan if v is None else float(v) for k, v in entry[how]["results"].items()},
            each=tuple(
                Each(uid=e["uid"], correct=int(e["correct"]), scored=int(e["scored"]), lengths=tuple(e["lengths"]))
                for e in entry[how]["each"]
            ),
            ended=str(entry[how].get("ended", "")),
        )
        for how in HOW
        if how in entry
    }
    return Benchmark(name=name, data=str(entry["data"]), passes=passes)
