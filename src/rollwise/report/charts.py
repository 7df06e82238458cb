"""Runs turned into the page's figures. A figure without data is left out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rollwise.report.curves import Family, accuracy_line, metric_line
from rollwise.report.events import Run, amount
from rollwise.report.summary import OUTCOMES, outcome_keys, outcome_words
from rollwise.report.svg import Axis, Line, area_chart, bar_chart, line_chart, swatch
from rollwise.report.tables import escape

STEP = Axis(label="step")
SHARE = Axis(label="share", low=0.0, high=1.0)
BYTES = Axis(label="bytes", low=0.0)
LEDGER_STYLES = {"trained": 0, "dropped_easy": 2, "dropped_hard": 1}  # as in the charts of groups without signal


def row(figures: Sequence[str]) -> str:
    found = [figure for figure in figures if figure]
    return '<div class="row">\n' + "\n".join(found) + "\n</div>\n" if found else ""


def figure(title: str, chart: str, legend: Sequence[tuple[str, int]], filled: bool = False, caption: str = "") -> str:
    """Title, legend and chart; empty where the chart is."""
    if not chart:
        return ""
    items = "".join(f"<li>{swatch(style, filled)}{escape(label)}</li>" for label, style in legend)
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure><h3>{escape(title)}</h3><ul class="legend">{items}</ul>{chart}{below}</figure>'


def accuracy_figures(groups: Sequence[Family]) -> str:
    out = []
    for ident, rollouts, label in (("acc-r", True, "generated rollouts"), ("acc-s", False, "step")):
        lines = [accuracy_line(family, rollouts) for family in groups]
        title = f"Held-out accuracy by {label}"
        chart = line_chart(ident, title, lines, Axis(label=label, low=0.0), Axis(label="held-out accuracy"))
        out.append(lines_figure(title, chart, lines))
    return row(out)


def task_figures(groups: Sequence[Family]) -> str:
    """Held-out accuracy of each data set, where there are several."""
    found = (name for family in groups for run in family.runs for e in run.evals for name in e.results)
    names = [n for n in dict.fromkeys(found) if n.startswith("task/") and n.endswith("/accuracy")]
    out = []
    for i, name in enumerate(names):
        lines = [accuracy_line(family, False, name) for family in groups]
        title = f"{name.split('/')[1]}: held-out accuracy by step"
        out.append(
            lines_figure(title, line_chart(f"task-{i}", title, lines, STEP, Axis(label="held-out accuracy")), lines)
        )
    return row(out)


def reflection_figures(groups: Sequence[Family]) -> str:
    """The share of training responses that hold a sign of reflection, a chart for each that ever occurred."""
    found = (name for family in groups for run in family.runs for step in run.steps for name in step.metrics)
    names = [n for n in dict.fromkeys(found) if n.startswith("reflection/") and n.endswith("/share")]
    out = []
    for i, name in enumerate(n for n in names if any(ever(family, n) for family in groups)):
        title = f"Responses with {name.split('/')[1].replace('_', ' ')}"
        out.append(metric_figure(f"reflection-{i}", title, name, groups, SHARE))
    return row(out)


def dead_figures(groups: Sequence[Family]) -> str:
    """All-right, all-wrong and unjudged groups stacked, one chart for each setting."""
    out = []
    for i, family in enumerate(groups):
        layers = [
            metric_line(family, "dead/all_right", "all right", 2),
            metric_line(family, "dead/all_wrong", "all wrong", 1),
        ]
        if ever(family, "dead/unjudged"):
            layers.append(metric_line(family, "dead/unjudged", "none judged", 3))
        title = f"{family.label}: groups without signal"
        chart = area_chart(f"dead-{i}", title, layers, STEP, Axis(label="share of fresh groups", low=0.0, high=1.0))
        out.append(figure(title, chart, [(layer.label, layer.style) for layer in layers], filled=True))
    return row(out)


def replay_figures(groups: Sequence[Family]) -> str:
    used = [family for family in groups if ever(family, "replay/share")]
    return row(
        [
            metric_figure("replay-share", "Replayed share of the batch", "replay/share", used, SHARE),
            metric_figure(
                "replay-age", "Mean age of replayed groups", "replay/age_mean", used, Axis(label="steps", low=0.0)
            ),
            metric_figure(
                "replay-reservoir", "Share of them from the reservoir", "replay/reservoir_share", used, SHARE
            ),
            metric_figure("replay-bytes", "Stored rollouts: ids, log-probs, texts", "replay/bytes", used, BYTES),
        ]
    )


def policy_figures(groups: Sequence[Family]) -> str:
    return row(
        [
            metric_figure("reward", "Training reward", "reward", groups, Axis(label="reward")),
            metric_figure("informative", "Informative groups generated", "informative", groups, SHARE),
            metric_figure("entropy", "Policy entropy", "entropy", groups, Axis(label="nats a token", low=0.0)),
            metric_figure("length", "Completion length", "completions/mean_length", groups, Axis(label="tokens")),
        ]
    )


def ledger_figure(runs: Sequence[Run]) -> str:
    keys = [k for k in OUTCOMES if any(amount(run.ledger, "outcomes", k, "rollouts") for run in runs)]
    extra = {k for run in runs for k in outcome_keys(run.ledger)} - set(OUTCOMES)
    spare = iter(i for i in range(3, 3 + len(OUTCOMES)))
    words = outcome_words(runs)
    names = [(words[k], LEDGER_STYLES[k] if k in LEDGER_STYLES else next(spare)) for k in keys]
    names += [("other", next(spare))] if extra else []
    bars = []
    for run in runs:
        values = [float(amount(run.ledger, "outcomes", k, "rollouts")) for k in keys]
        rest = float(sum(amount(run.ledger, "outcomes", k, "rollouts") for k in extra))
        bars.append((run.name, [*values, rest] if extra else values))
    title = "Where the generated rollouts went"
    chart = bar_chart("ledger", title, bars, names)
    return row([figure(title, chart, names, filled=True)])


def metric_figure(ident: str, title: str, name: str, groups: Sequence[Family], y: Axis) -> str:
    lines = [line for line in (metric_line(family, name) for family in groups) if line.points]
    return lines_figure(title, line_chart(ident, title, lines, STEP, y), lines)


def lines_figure(title: str, chart: str, lines: Sequence[Line]) -> str:
    return figure(title, chart, [(line.label, line.style) for line in lines if line.points])


def ever(family: Family, name: str, unlike: float = 0.0) -> bool:
    values = (step.metrics.get(name, math.nan) for run in family.runs for step in run.steps)
    return any(math.isfinite(v) and v != unlike for v in values)
