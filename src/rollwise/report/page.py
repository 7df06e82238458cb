"""One self-contained HTML file about one or many runs: no script, nothing loaded from outside, same data same bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollwise.config import leaves
from rollwise.errors import UserError
from rollwise.outputs import whole
from rollwise.report import charts, parts
from rollwise.report.curves import families
from rollwise.report.events import Run, amount, read_run
from rollwise.report.samples import samples_html
from rollwise.report.style import SHEET
from rollwise.report.summary import OUTCOMES, outcome_keys, outcome_words, sentences
from rollwise.report.tables import Table, escape
from rollwise.report.wording import clean, count, decimal, share

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
NOTES_SHOWN = 40
BAND = "A line is the mean of a setting's runs, its band spans the lowest to the highest, straight between evaluations."


def write_report(folders: Sequence[Path], out: Path) -> None:
    """Read the run folders and write the page to `out`."""
    if not folders:
        raise UserError("report: no run folder given; name at least one")
    runs = [read_run(folder) for folder in folders]
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    write_text(out, page(f"Rollwise report: {title}", run_sections(runs)))


def write_text(out: Path, text: str) -> None:
    """Write `out` whole or not at all, its folder too where it is not there. Raises UserError."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{clean(out)}: cannot be written ({error.strerror})") from None
    with whole(out) as file:
        file.write(text.encode("utf-8"))


def page(title: str, sections: Sequence[tuple[str, str]], lead: str = "") -> str:
    """The file's text. Sections are (heading, HTML); a section without HTML is left out."""
    body = "\n".join(f"<section><h2>{escape(head)}</h2>\n{text}</section>" for head, text in sections if text)
    below = f'<p class="lead">{escape(lead)}</p>\n' if lead else ""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{SHEET}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{below}{body}\n</main>\n</body>\n</html>\n"
    )


def run_sections(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Everything the page says of the runs themselves."""
    groups = families(runs)
    many = any(len(family.runs) > 1 for family in groups)
    band = f'<p class="note">{BAND}</p>\n' if many else ""
    accuracy = charts.accuracy_figures(groups)
    return [
        ("Overview", _overview(runs).html() + _endings(runs)),
        ("Held-out accuracy", accuracy and band + accuracy + charts.task_figures(groups)),
        ("Stages and prompts", parts.curriculum_figures(groups)),
        ("Pilots", parts.pilot_figures(groups)),
        ("Groups without signal", charts.dead_figures(groups)),
        ("Replay", charts.replay_figures(groups)),
        ("Importance weights", parts.weight_figures(groups)),
        ("Policy", charts.policy_figures(groups)),
        ("Critic", parts.critic_figures(groups)),
        ("Signs of reflection", charts.reflection_figures(groups)),
        ("Every rollout", charts.ledger_figure(runs) + _ledger(runs).html()),
        ("Sample completions", _samples(runs)),
        ("Notes of the runs", _notes(runs)),
        ("Evaluations", _evaluations(runs)),
        ("Settings", _settings(runs)),
    ]


def _overview(runs: Sequence[Run]) -> Table:
    rows = []
    for run in runs:
        evals = [e for e in run.evals if math.isfinite(e.accuracy)]
        last = evals[-1] if evals else None
        rows.append(
            [
                run.name,
                run.method,
                run.task,
                run.model,
                str(run.seed),
                count(run.last_step),
                count(run.steps[-1].updates if run.steps else 0),
                count(run.rollouts),
                count(amount(run.ledger, "generated", "tokens")),
                decimal(evals[0].accuracy) if evals else "-",
                f"{decimal(last.accuracy)} (step {last.step})" if last else "-",
                run.version,
            ]
        )
    columns = ["run", "method", "task", "model", "seed", "steps", "updates", "rollouts", "tokens"]
    columns += ["first accuracy", "last accuracy", "version"]
    return Table(title="Runs", columns=columns, rows=rows, left=4)


def _endings(runs: Sequence[Run]) -> str:
    if len(runs) == 1:
        return "".join(f"<p>{escape(line)}</p>\n" for line in sentences(runs[0]))
    parts = []
    for run in runs:
        lines = "".join(f"<p>{escape(line)}</p>\n" for line in sentences(run))
        parts.append(f"<h4>{escape(run.name)}</h4>\n{lines}")
    return _folded("How each run ended, and what full batches would have cost", "".join(parts))


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{escape(title)}</summary>\n{text}</details>\n"


def _ledger(runs: Sequence[Run]) -> Table:
    keys = [k for k in OUTCOMES if any(amount(run.ledger, "outcomes", k, "rollouts") for run in runs)]
    keys += sorted({k for run in runs for k in outcome_keys(run.ledger)} - set(OUTCOMES))
    words = outcome_words(runs)
    rows = []
    for run in runs:
        total = amount(run.ledger, "generated", "rollouts")
        cells = [run.name, count(total)]
        for k in keys:
            value = amount(run.ledger, "outcomes", k, "rollouts")
            cells.append(f"{count(value)} ({share(value / total, 0)})" if total else count(value))
        cells += [count(amount(run.ledger, name, "rollouts")) for name in ("replayed", "evaluation", "refill")]
        rows.append(cells)
    columns = ["run", "generated", *(words.get(k, k) for k in keys), "replayed", "evaluation", "refill, estimated"]
    note = (
        "Replayed and evaluation rollouts are counted besides the generated ones. Refill, estimated: the rollouts that "
        "new generation would have cost to fill every batch with informative groups."
    )
    return Table(title="Rollouts by outcome", columns=columns, rows=rows, notes=[note])


def _evaluations(runs: Sequence[Run]) -> str:
    parts = []
    for run in runs:
        found = dict.fromkeys(name for e in run.evals for name in e.results)
        names = [name for name in found if not name.startswith("reflection/")]
        rows = []
        for e in run.evals:
            results = [decimal(e.results.get(name)) for name in names]
            rows.append([str(e.step), ", ".join(e.on), count(e.rollouts), count(e.tokens), *results])
        if not rows:
            continue
        last = run.evals[-1]
        how = ", ".join(f"{k} {v}" for k, v in last.sampling.items())
        note = f"{count(max(e.prompts for e in run.evals))} prompts, {last.samples} completions each; {how}."
        columns = ["step", "asked for by", "rollouts", "tokens", *names]
        table = Table(title=run.name, columns=columns, rows=rows, left=2, notes=[note])
        parts.append(_folded(run.name, table.html()))
    return "".join(parts)


def _settings(runs: Sequence[Run]) -> str:
    flat = [leaves(run.config) for run in runs]
    names = list(dict.fromkeys(name for config in flat for name in config))
    apart = [n for n in names if any(c.get(n) != flat[0].get(n) for c in flat)]
    same = [[n, _value(flat[0].get(n))] for n in names if n not in apart]
    parts = []
    if apart:
        rows = [[run.name, *(_value(config.get(n)) for n in apart)] for run, config in zip(runs, flat, strict=True)]
        parts.append(Table(title="What differs", columns=["run", *apart], rows=rows, left=1 + len(apart)).html())
    if same:
        title = "The same in every run" if len(runs) > 1 else "Resolved settings"
        table = Table(title=title, columns=["key", "value"], rows=same, left=2)
        parts.append(_folded(f"{title} ({len(same)} keys)", table.html()))
    derived = [[run.name, k, _value(v)] for run in runs for k, v in run.derived.items()]
    if derived:
        table = Table(title="Derived from the settings", columns=["run", "what", "value"], rows=derived, left=3)
        parts.append(_folded(table.title, table.html()))
    return "".join(parts)


def _value(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _notes(runs: Sequence[Run]) -> str:
    parts = []
    for run in runs:
        lines = [f"step {step.step}: {note}" for step in run.steps for note in step.notes]
        if lines:
            items = "".join(f"<li>{escape(line, 400)}</li>" for line in lines[:NOTES_SHOWN])
            rest = len(lines) - NOTES_SHOWN
            more = f'<p class="note">and {rest} more</p>' if rest > 0 else ""
            parts.append(_folded(f"{run.name} ({len(lines)})", f"<ul>{items}</ul>{more}"))
    return "".join(parts)


def _samples(runs: Sequence[Run]) -> str:
    parts = []
    for run in runs:
        text = samples_html(run.folder / "rollouts.jsonl")
        if text:
            parts.append(_folded(run.name, text))
    return "".join(parts)
