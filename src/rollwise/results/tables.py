"""Results as terminal tables: a benchmark a line, and their unweighted mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rollwise.compare.statistics import Interval
from rollwise.report.tables import Table
from rollwise.report.wording import clean, count, decimal, share, signed
from rollwise.results.against import Against
from rollwise.results.record import Benchmark, Results, mean_accuracy, mean_result

MEAN = "mean"


def benchmark_table(results: Results, versus: Against | None = None) -> Table:
    """avg@n with its interval, greedy accuracy, pass@n, length, and what was cut or got no verdict."""
    first = results.benchmarks[0]
    n = first.passes[results.passes[0]].samples
    columns, rows = ["benchmark", "prompts"], [[b.name, count(_prompts(b))] for b in results.benchmarks]
    many = len(rows) > 1
    rows += [[MEAN, ""]] if many else []

    def column(head: str, cells: Sequence[str]) -> None:
        columns.append(head)
        for row, cell in zip(rows, cells, strict=True):
            row.append(cell)

    for how in results.passes:
        cells = [plus_minus(b.passes[how].accuracy) for b in results.benchmarks]
        cells += [plus_minus(mean_accuracy(results, how))] if many else []
        column(f"avg@{n}" if how == "sampled" else "greedy", cells)
    how = results.passes[0]
    others: list[tuple[str, str, Callable[[float], str]]] = [
        (f"pass@{n}", f"pass@{n}", decimal),
        ("length", "mean_length", lambda v: decimal(v, 1)),
        ("cut", "truncated", share),
        ("no verdict", "infra_error", share),
    ]
    for head, name, written in others:
        values = [b.passes[how].results.get(name, math.nan) for b in results.benchmarks]
        if name.startswith("pass@") and (n == 1 or not all(map(math.isfinite, values))):
            continue
        values += [mean_result(results, how, name)] if many else []
        column(head, [written(v) for v in values])
    if versus is not None:
        gaps = [*versus.gaps, versus.mean] if many else versus.gaps
        column("difference", [plus_minus(g.difference, sign=True) for g in gaps])
        column("AES", [signed(g.efficiency) for g in gaps])
    return Table(title=clean(results.model), columns=columns, rows=rows, notes=_notes(results, versus))


def reflection_table(results: Results) -> Table | None:
    """The shares of responses that hold a sign of reflection, and their mean length; None where none was found."""
    how = results.passes[0]
    names = [n.split("/")[1] for n in results.benchmarks[0].passes[how].results if _is_share(n)]
    found = [b.passes[how].results for b in results.benchmarks]
    if not any(r.get(f"reflection/{n}/share", 0) > 0 for r in found for n in names):
        return None
    rows = [
        [b.name, *(_shown(r.get(f"reflection/{n}/share"), r.get(f"reflection/{n}/mean_length")) for n in names)]
        for b, r in zip(results.benchmarks, found, strict=True)
    ]
    columns = ["benchmark", *(n.replace("_", " ") for n in names)]
    note = "Share of the responses that hold it, and the mean length of those in tokens."
    return Table(title="Signs of reflection", columns=columns, rows=rows, notes=[note])


def _is_share(name: str) -> bool:
    return name.startswith("reflection/") and name.endswith("/share")


def _shown(part: float | None, length: float | None) -> str:
    return share(part) if not length else f"{share(part)} ({decimal(length, 0)})"


def plus_minus(found: Interval, sign: bool = False) -> str:
    number = signed(found.mean) if sign else decimal(found.mean)
    return f"{number} ± {decimal(found.half)}" if math.isfinite(found.half) else number


def _prompts(benchmark: Benchmark) -> int:
    return len(next(iter(benchmark.passes.values())).each)


def _notes(results: Results, versus: Against | None) -> list[str]:
    one = results.benchmarks[0].passes[results.passes[0]]
    how = one.sampling
    notes = [
        f"Temperature {how['temperature']:g}, top-p {how['top_p']:g}, at most {how['max_completion_length']} tokens, "
        f"seed {results.seed}. ±: half a 95 % t-interval over prompts; none where all prompts came out the same."
    ]
    cut = [(b.name, how, p.ended) for b in results.benchmarks for how, p in b.passes.items() if p.ended]
    notes += [f"{clean(name, 60)}, {how}: {ended}; its numbers are of those." for name, how, ended in cut]
    if len(results.benchmarks) > 1:
        notes.append("The mean is over benchmarks, each counting the same.")
    if versus is not None:
        c = versus.constants
        notes.append(
            f"Difference to {clean(versus.model, 60)}, paired by prompt ({versus.how}). AES = {c.alpha:g} x relative "
            f"saving in length + {c.beta:g} x relative gain in accuracy, or - {c.gamma:g} x relative loss."
        )
        notes += versus.notes
    return notes


def print_table(table: Table, stream: Any) -> None:
    """With rules and colours on a terminal, as plain lines elsewhere."""
    if not stream.isatty():
        stream.write("\n".join(table.text()) + "\n")
        return
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    out = RichTable(title=Text(clean(table.title)), title_justify="left")
    for i, head in enumerate(table.columns):
        out.add_column(Text(clean(head)), justify="left" if i < table.left else "right", no_wrap=True)
    for i, row in enumerate(table.rows):
        out.add_row(*(Text(clean(cell)) for cell in row), end_section=row[0] != MEAN and i == len(table.rows) - 2)
    console = Console(file=stream, highlight=False)
    console.print(out)
    for note in table.notes:
        console.print(Text(clean(note)), style="dim")
