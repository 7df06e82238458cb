"""Results beside those of another model on the same prompts: paired differences, and AES."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from rollwise.compare.statistics import Interval
from rollwise.errors import UserError
from rollwise.results.record import Benchmark, Pass, Results, mean_accuracy, mean_result, over_benchmarks, over_prompts
from rollwise.scores import Efficiency, accuracy_efficiency


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One benchmark, or the mean of all, against the baseline."""

    name: str
    difference: Interval  # of accuracies, paired by prompt
    efficiency: float  # AES; NaN where the baseline has no accuracy

    def to_json(self) -> dict[str, Any]:
        return {k: v if math.isfinite(v) else None for k, v in self._numbers().items()}

    def _numbers(self) -> dict[str, float]:
        return {"difference": self.difference.mean, "half_width": self.difference.half, "aes": self.efficiency}


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """A comparison; `mean` takes accuracy and length as unweighted means over benchmarks."""

    model: str  # of the baseline
    how: str
    constants: Efficiency
    gaps: tuple[Gap, ...]
    mean: Gap
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "pass": self.how,
            "aes_constants": asdict(self.constants),
            "benchmarks": {g.name: g.to_json() for g in self.gaps},
            "mean": self.mean.to_json(),
        }


def check_same(mine: dict[str, str], baseline: Results, file: str) -> None:
    """Raises UserError unless the baseline answered the very prompts that `mine` names: benchmark to fingerprint."""
    theirs = {b.name: b.data for b in baseline.benchmarks}
    for name, data in mine.items():
        if name not in theirs:
            raise UserError(f"--baseline {file}: it has no benchmark '{name}' (it has {', '.join(theirs) or 'none'})")
        if theirs[name] != data:
            raise UserError(
                f"--baseline {file}: its '{name}' asked other prompts; evaluate both models on the same rows, "
                "as many, in the same words"
            )


def against(results: Results, baseline: Results, constants: Efficiency) -> Against:
    """The sampled passes where both have them, else the greedy ones. `check_same` must have passed."""
    both = [how for how in results.passes if how in baseline.passes]
    if not both:
        raise UserError("--baseline: one has only a greedy pass and the other none; evaluate both alike")
    how = both[0]
    theirs = {b.name: b for b in baseline.benchmarks}
    pairs = [(b, theirs[b.name]) for b in results.benchmarks]
    gaps = tuple(_gap(mine, other, how, constants) for mine, other in pairs)
    shared = Results(model="", seed=0, benchmarks=tuple(other for _, other in pairs))
    whole = Gap(
        name="mean",
        difference=over_benchmarks([g.difference for g in gaps]),
        efficiency=accuracy_efficiency(
            mean_accuracy(results, how).mean,
            mean_result(results, how, "mean_length"),
            mean_accuracy(shared, how).mean,
            mean_result(shared, how, "mean_length"),
            constants,
        ),
    )
    notes = tuple(
        f"{mine.name}: {key} is {mine.passes[how].sampling.get(key)} here and "
        f"{other.passes[how].sampling.get(key)} in the baseline"
        for mine, other in pairs
        for key in mine.passes[how].sampling
        if mine.passes[how].sampling.get(key) != other.passes[how].sampling.get(key)
    )
    return Against(model=baseline.model, how=how, constants=constants, gaps=gaps, mean=whole, notes=notes)


def _gap(mine: Benchmark, other: Benchmark, how: str, constants: Efficiency) -> Gap:
    one, two = mine.passes[how], other.passes[how]
    return Gap(
        name=mine.name,
        difference=paired_by_prompt(one, two),
        efficiency=accuracy_efficiency(
            one.accuracy.mean, one.results["mean_length"], two.accuracy.mean, two.results["mean_length"], constants
        ),
    )


def paired_by_prompt(one: Pass, two: Pass) -> Interval:
    """`one` minus `two`, over the prompts that both have scored."""
    theirs = {e.uid: e.accuracy for e in two.each}
    return over_prompts([e.accuracy - theirs[e.uid] for e in one.each if e.uid in theirs])
