"""`rollwise data grade`."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollwise import parts
from rollwise.cli.curating import written
from rollwise.cli.layers import overrides, row_args, trained
from rollwise.config import RunConfig, expand_aliases
from rollwise.errors import UserError
from rollwise.report.tables import Table
from rollwise.report.wording import clean, count, duration, share

if TYPE_CHECKING:
    from rollwise.audit.files import FileSet
    from rollwise.records import Prompt, Sampling

COLUMN = "measured"
STEPS = 20  # progress lines where they do not overwrite each other
NAMED = 3  # reasons shown of rows that have no grade


def grade(args: Namespace) -> int:
    """Status 0: every row has its numbers, or the reason why it has none."""
    from rollwise.audit.files import open_file, scored
    from rollwise.data.opening import open_rows
    from rollwise.data.rows import as_json
    from rollwise.starters import bundled
    from rollwise.tasks.rewarded import rewards_of

    if args.hard > args.easy:
        raise UserError(f"--hard {args.hard:g}: above --easy ({args.easy:g}); give a pass rate not above it")
    model, folder = _model(args.model)
    task = args.task or ("countdown" if bundled(model, "countdown") else "data")
    starter = bundled(model, task)
    file = open_file(args.file, task=task, args=row_args(args), starter=starter)
    settings = _settings(args, task, model)
    file = scored(file, rewards_of(settings.reward))
    rows = open_rows(args.file)
    if any(COLUMN in rows[i] for i in file.numbers[:100]):
        raise UserError(f"{args.file}: has a column '{COLUMN}' already; grade the rows without it")
    how = {
        "model": args.model,
        "seed": args.seed,
        "sampling": _sampling(settings).to_json(),
        "easy_above": args.easy,
        "hard_below": args.hard,
    }
    grades: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    with written(args.output, args.file) as output:
        for index, numbers in _each(len(rows), file, settings, folder, args):
            grades[numbers["grade"] or ""] += 1
            if numbers["grade"] is None:
                reasons[numbers["trouble"]] += 1
            row = {**as_json(rows[index]), COLUMN: {**numbers, **how}}
            output.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    total = grades.total()
    assert total == len(rows), "every row has a grade or a reason"
    named = [("easy", "easy"), ("medium", "medium"), ("hard", "hard"), ("", "not graded")]
    table = Table(
        title=f"{clean(args.file)}: {count(total)} rows, {args.samples} samples each of {clean(args.model)}",
        columns=("", "rows", "share"),
        rows=[(word, count(grades[key]), share(grades[key] / total)) for key, word in named if grades[key] or key],
        notes=(
            *(f"not graded, {count(n)}: {clean(why, 120)}" for why, n in reasons.most_common(NAMED)),
            f"rows with their numbers: {args.output}",
        ),
    )
    print("\n".join(table.text()))
    return 0


def _model(name: str) -> tuple[str, Path | None]:
    """The setting `model`, and the folder it is loaded from where that is a run's newest checkpoint."""
    run = Path(name)
    if name != "starter" and (run / "config.yaml").is_file():
        folder = trained(run)
        return str(folder), folder
    return name, None


def _settings(args: Namespace, task: str, model: str) -> RunConfig:
    """All settings that sampling reads; those of the bundled model where it is asked."""
    from rollwise.assemble import resolve

    own = {"task": task, "model": model, "budget": {"steps": 1}}
    return resolve([("--set", expand_aliases(overrides(args.set), "--set")), ("command line", own)])


def _sampling(settings: RunConfig) -> Sampling:
    from rollwise.records import Sampling

    return Sampling(
        temperature=settings.sampling.temperature,
        top_p=settings.sampling.top_p,
        max_completion_length=settings.sampling.max_completion_length,
    )


def _each(
    total: int, file: FileSet, settings: RunConfig, folder: Path | None, args: Namespace
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every row of the file in order, with its numbers; rows that cannot be asked with the reason."""
    from rollwise.assemble import load_model
    from rollwise.curate.grade import grade as measured
    from rollwise.curate.grade import unasked

    policy = load_model(settings, folder)
    begin = time.monotonic()

    def refused(prompt: Prompt) -> str:
        try:
            policy.encode(prompt, settings.sampling.max_prompt_length)
        except UserError as error:
            return str(error)
        return ""

    sampler = parts.sampler(settings, policy)
    results = measured(
        sampler,
        file.prompts,
        file.judge,
        sampling=_sampling(settings),
        samples=args.samples,
        seed=args.seed,
        easy=args.easy,
        hard=args.hard,
        at_once=max(1, settings.sampling.max_rows // args.samples),
        refused=refused,
        over=lambda: args.seconds is not None and time.monotonic() - begin >= args.seconds,
    )
    known, faults = set(file.numbers), iter(file.faults)
    for index in range(total):
        if index in known:
            yield index, next(results).to_json()
        else:
            yield index, unasked(f"the row cannot be used: {next(faults)[1]}").to_json()
        _progress(index + 1, total, time.monotonic() - begin)


def _progress(done: int, total: int, seconds: float) -> None:
    """One line on a terminal, written over; else about twenty lines."""
    terminal = sys.stderr.isatty()
    if not terminal and done % max(1, total // STEPS) and done != total:
        return
    left = seconds / done * (total - done)
    text = f"graded {count(done)} of {count(total)} rows, {duration(seconds)}, about {duration(left)} left"
    print(f"\r{text:<78}" if terminal else text, end="" if terminal and done < total else "\n", file=sys.stderr)
