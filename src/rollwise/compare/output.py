"""A comparison as tables, JSON, markdown and a page. Says what was measured; names no winner."""

from __future__ import annotations

import json
import math
from typing import Any

from rollwise.compare.measure import Comparison
from rollwise.compare.statistics import LAST, Difference, Interval, Reached
from rollwise.report.page import page, run_sections, write_text
from rollwise.report.tables import Table, wrapped
from rollwise.report.wording import brief, clean, count, decimal, signed

SCHEMA = 1


def tables(result: Comparison) -> list[Table]:
    """All tables that have something to say."""
    out = [_accuracy(result), _cost(result)]
    if result.targets:
        out += _targets(result)
    if result.step_rows:
        out.append(_equal_steps(result))
    return out


def text(result: Comparison) -> list[str]:
    """Lines for a terminal."""
    lines: list[str] = []
    for part in tables(result):
        lines += [*part.text(), ""]
    return [*lines, *wrapped(remarks(result))]


def remarks(result: Comparison) -> list[str]:
    """Notes, and what is missing and why."""
    missing = [f"Missing: {clean(f.name)} ({clean(f.reason)})." for f in result.failures]
    return [*result.notes, *missing]


def write(result: Comparison) -> None:
    """`comparison.json`, `comparison.md` and `comparison.html` in the comparison's folder."""
    write_text(result.out / "comparison.json", json.dumps(to_json(result), indent=1, allow_nan=False) + "\n")
    marks = "\n".join(part.markdown() for part in tables(result))
    notes = "".join(f"- {clean(line)}\n" for line in remarks(result)).replace("<", "\\<")
    write_text(result.out / "comparison.md", f"## {_title(result)}\n\n{marks}\n{notes}")
    write_text(result.out / "comparison.html", html(result))


def html(result: Comparison) -> str:
    """The tables, then everything the report shows of the runs."""
    first = "\n".join(part.html() for part in tables(result))
    notes = remarks(result)
    if notes:
        first += Table(title="To be kept in mind", columns=["note"], rows=[[note] for note in notes]).html()
    return page(_title(result), [("Comparison", first), *(run_sections(result.runs) if result.runs else [])])


def _title(result: Comparison) -> str:
    seeds = f"{len(result.seeds)} seed" + ("s" if len(result.seeds) != 1 else "")
    return f"Comparison at {count(result.rollouts)} rollouts: {', '.join(clean(m) for m in result.methods)}, {seeds}"


def with_half(value: Interval) -> str:
    """`0.524 ± 0.014`; the mean alone where there is no interval."""
    if not math.isfinite(value.mean):
        return "missing"
    return f"{decimal(value.mean)} ± {decimal(value.half)}" if math.isfinite(value.half) else decimal(value.mean)


def gap_text(gap: Difference | None) -> str:
    """The difference with its interval, which is said to include 0 where it does."""
    if gap is None:
        return "reference"
    if not math.isfinite(gap.mean):
        return "missing"
    if not math.isfinite(gap.half):
        return f"{signed(gap.mean)} (1 seed)"
    return f"{signed(gap.mean)} ± {decimal(gap.half)}" + (" (includes 0)" if gap.includes_zero else "")


def sign_text(gap: Difference | None) -> str:
    return f"{gap.agreeing} of {gap.n}" if gap is not None and gap.n > 1 else ""


def reached_text(value: Reached) -> str:
    """The median over all seeds and how many of them got there."""
    if value.n == 0:
        return "missing"
    if value.few:
        return "too few evaluations"
    got = f"{value.reached} of {value.n}"
    if value.reached == 0:
        return f"not reached ({got})"
    return f"{brief(value.median)} ({got})" if math.isfinite(value.median) else f"median not reached ({got})"


def _accuracy(result: Comparison) -> Table:
    rows = [
        [
            row.label,
            count(row.budget),
            f"{row.final.n} of {len(result.seeds)}",
            with_half(row.final),
            gap_text(row.gap),
            sign_text(row.gap),
            f"{brief(row.window[0])} to {brief(row.window[1])}",
        ]
        for row in result.rows
    ]
    several = any(row.final.n > 1 for row in result.rows)
    notes = [
        f"Final accuracy: mean of the last {LAST} evaluations at or before the budget among those made every so many "
        "rollouts; their place is in the last column.",
        f"Difference: to {clean(result.reference)}, seed by seed.",
    ]
    if several:
        notes.append(
            "±: half the 95 % t-interval of the mean over seeds, for one comparison at a time. Seeds vary the "
            "training; the held-out prompts are the same."
        )
    else:
        notes.append("One seed: no interval can be given, and a difference may be chance.")
    columns = ["method", "budget", "seeds", "final accuracy", "difference", "seeds with its sign", "evaluated at"]
    title = f"Held-out accuracy at {count(result.rollouts)} rollouts"
    if any(row.budget != result.rollouts for row in result.rows):
        title += " and at multiples of it"
    return Table(title=title, columns=columns, rows=rows, notes=notes)


def _cost(result: Comparison) -> Table:
    rows = []
    for row in result.rows:
        t = row.totals
        names = ("rollouts", "tokens", "per_step", "steps", "updates")
        rows.append([row.label, *(count(t.get(n)) for n in names), decimal(t.get("rounds_per_step"), 2)])
    columns = ["method", "rollouts", "tokens", "rollouts a step", "steps", "updates", "rounds a step"]
    return Table(title="What was spent", columns=columns, rows=rows, notes=["Means over seeds."])


def _targets(result: Comparison) -> list[Table]:
    columns = ["method", *(f"{target:g}" for target in result.targets)]
    note = (
        "First of two consecutive evaluations at or above the target, among those made every so many {0}. Median over "
        "all seeds, one that did not get there counting as later than the rest; in brackets how many did."
    )
    rollouts = [[row.label, *(reached_text(v) for v in row.rollouts_to)] for row in result.rows]
    steps = [[row.label, *(reached_text(v) for v in row.steps_to)] for row in result.rows]
    return [
        Table(title="Rollouts to a held-out accuracy", columns=columns, rows=rollouts, notes=[note.format("rollouts")]),
        Table(title="Steps to a held-out accuracy", columns=columns, rows=steps, notes=[note.format("steps")]),
    ]


def _equal_steps(result: Comparison) -> Table:
    rows = [
        [
            row.label,
            count(row.rollouts),
            with_half(row.single),
            gap_text(row.gap),
            sign_text(row.gap),
            with_half(row.last),
            gap_text(row.last_gap),
        ]
        for row in result.step_rows
    ]
    columns = ["method", "rollouts", "accuracy", "difference", "seeds with its sign", f"last {LAST}", "difference "]
    note = (
        f"The largest step at which all runs were evaluated. One evaluation is noisy; last {LAST}: mean of the last "
        f"{LAST} evaluations up to it. Methods spend different numbers of rollouts here."
    )
    return Table(title=f"Held-out accuracy at step {count(result.step)}", columns=columns, rows=rows, notes=[note])


def to_json(result: Comparison) -> dict[str, Any]:
    """Everything the tables show and the values of each seed. What is missing is null."""
    return {
        "schema": SCHEMA,
        "methods": list(result.methods),
        "reference": result.reference,
        "seeds": list(result.seeds),
        "rollouts": result.rollouts,
        "targets": list(result.targets),
        "rows": [
            {
                "label": row.label,
                "method": row.method,
                "budget": row.budget,
                "final_by_seed": {str(s): v for s, v in sorted(row.finals.items())},
                "final": _interval(row.final),
                "difference": _gap(row.gap),
                "evaluated_at": [_number(v) for v in row.window],
                "totals": {k: _number(v) for k, v in row.totals.items()},
                "rollouts_to": [_reached(v) for v in row.rollouts_to],
                "steps_to": [_reached(v) for v in row.steps_to],
            }
            for row in result.rows
        ],
        "equal_steps": {
            "step": result.step,
            "rows": [
                {
                    "label": row.label,
                    "rollouts": _number(row.rollouts),
                    "accuracy": _interval(row.single),
                    "difference": _gap(row.gap),
                    "last": _interval(row.last),
                    "last_difference": _gap(row.last_gap),
                }
                for row in result.step_rows
            ],
        },
        "missing": [{"name": f.name, "reason": f.reason} for f in result.failures],
        "notes": list(result.notes),
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _interval(value: Interval) -> dict[str, Any]:
    return {"mean": _number(value.mean), "half_width": _number(value.half), "seeds": value.n}


def _gap(gap: Difference | None) -> dict[str, Any] | None:
    if gap is None:
        return None
    zero = gap.includes_zero if math.isfinite(gap.half) else None
    return {**_interval(gap), "includes_zero": zero, "seeds_with_its_sign": gap.agreeing}


def _reached(value: Reached) -> dict[str, Any]:
    return {"median": _number(value.median), "reached": value.reached, "by_seed": list(value.places)}
