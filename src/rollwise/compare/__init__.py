"""Several methods at one budget of rollouts, over seeds, with intervals.

statistics.py   intervals, paired differences, targets: pure functions
views.py        a run up to a budget, its evaluations by cadence
measure.py      runs -> `Comparison`
output.py       `Comparison` -> terminal, JSON, markdown, page
runner.py       the processes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rollwise.compare import output, runner
from rollwise.compare.measure import Comparison, table
from rollwise.console import Console
from rollwise.errors import UserError
from rollwise.report.events import Run

__all__ = ["Comparison", "compare", "table"]


def compare(
    methods: Sequence[str],
    seeds: Sequence[int],
    base_args: Sequence[str],
    out: Path,
    rollouts: int,
    more: Mapping[str, float] | None = None,
    jobs: int = 1,
    targets: Sequence[float] | None = None,
    console: Console | None = None,
    train: Sequence[str] = runner.TRAIN,
    round_size: int = 1,
) -> Comparison:
    """Run every method with every seed, measure, print the tables and write them to `out`.

    `base_args` are arguments of `rollwise train` common to all runs; `more` multiplies the budget of some methods, and
    those appear at both. Ctrl-C ends the children and exits with status 130; finished runs are used again next time.
    """
    for target in targets or ():
        if not 0 < target <= 1:
            raise UserError(f"compare: target {target:g} is not an accuracy; above 0 and at most 1")
    console = console or Console()
    todo = runner.plan(methods, seeds, base_args, out, rollouts, more, round_size)
    try:
        done, failures = runner.run(todo, jobs, console, train)
    except KeyboardInterrupt:
        console.close()
        console.say(["interrupted; the same command goes on with the runs that are not finished"])
        raise SystemExit(130) from None
    runs: dict[str, dict[int, Run]] = {}
    by_name = {job.name: job for job in todo}
    for job in sorted(by_name.values(), key=lambda job: seeds.index(job.seed)):
        if job.name in done:
            runs.setdefault(job.method, {})[job.seed] = done[job.name]
    result = table(
        runs,
        methods=methods,
        seeds=seeds,
        rollouts=rollouts,
        more=more,
        targets=targets,
        failures=failures,
        out=out,
    )
    output.write(result)
    console.close()
    console.say(output.text(result))
    return result
