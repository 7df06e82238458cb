"""Figures of what single parts do: stages and prompts, pilots, importance weights, the critic. A figure without data is
left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from rollwise.report.charts import BYTES, SHARE, STEP, ever, lines_figure, metric_figure, row
from rollwise.report.curves import Family, metric_line
from rollwise.report.svg import Axis, line_chart
from rollwise.report.tables import escape

COUNT = Axis(label="prompts", low=0.0)
AGE = Axis(label="steps", low=0.0)


def curriculum_figures(groups: Sequence[Family]) -> str:
    """Which prompts are drawn: what filters left, what MoPPS predicts, how each data set goes, where stages end."""
    filtered = [family for family in groups if ever(family, "curriculum/dropped")]
    figures = [
        metric_figure("pool", "Prompts of the running epoch", "curriculum/pool", filtered, COUNT),
        metric_figure("dropped", "Prompts left out of it", "curriculum/dropped", filtered, COUNT),
    ]
    for number, (name, of) in enumerate(_named(groups, "mopps/predicted").items()):
        figures.append(
            metric_figure(f"predicted-{number}", f"Success rate predicted for the drawn{of}", name, groups, SHARE)
        )
    for number, (name, of) in enumerate(_named(groups, "mopps/seen").items()):
        figures.append(metric_figure(f"seen-{number}", f"Prompts with evidence{of}", name, groups, COUNT))
    for number, (name, of) in enumerate(_named(groups, "accuracy", alone=False).items()):
        figures.append(metric_figure(f"asked-{number}", f"Accuracy of training rollouts{of}", name, groups, SHARE))
    figures.append(metric_figure("stage", "Stage", "curriculum/stage", _staged(groups), Axis(label="stage", low=0.0)))
    return row(figures) + _turns(groups)


def _named(groups: Sequence[Family], name: str, alone: bool = True) -> dict[str, str]:
    """Metrics of that name, of the whole run or of a data set, with what stands behind the title for each."""
    found = (key for family in groups for run in family.runs for step in run.steps for key in step.metrics)
    out: dict[str, str] = {}
    for key in dict.fromkeys(found):
        start, _, rest = key.partition("/")
        task, _, last = rest.partition("/")
        if (alone and key == name) or (start == "task" and last == name):
            out[key] = f", {task}" if start == "task" else ""
    return out


def _staged(groups: Sequence[Family]) -> list[Family]:
    return [family for family in groups if ever(family, "curriculum/stage", 1.0)]


def _turns(groups: Sequence[Family]) -> str:
    """The steps at which stages began, in words."""
    lines = []
    for run in (run for family in _staged(groups) for run in family.runs):
        stages = [
            (step.step, step.metrics["curriculum/stage"]) for step in run.steps if "curriculum/stage" in step.metrics
        ]
        begun = [f"stage {now:.0f} at step {step}" for (_, was), (step, now) in pairwise(stages) if now != was]
        lines += [f"{run.name}: {', '.join(begun)}"] if begun else []
    return "".join(f'<p class="note">{escape(line)}</p>\n' for line in lines)


def pilot_figures(groups: Sequence[Family]) -> str:
    piloted = [family for family in groups if ever(family, "pilot/prompts")]
    return row(
        [
            metric_figure("pilot-kept", "Pilots within their band", "pilot/kept", piloted, SHARE),
            metric_figure("pilot-waiting", "Pilots that wait for their commit", "pilot/waiting", piloted, COUNT),
            metric_figure("pilot-bytes", "Bytes of what waits", "allocation/bytes", piloted, BYTES),
            metric_figure("pilot-age", "Mean age of pilots when committed", "pilot/age_mean", piloted, AGE),
            metric_figure("pilot-rate", "Pass rate of the pilots committed", "pilot/pass_rate", piloted, SHARE),
            metric_figure("commit-rate", "Pass rate of their commits", "commit/pass_rate", piloted, SHARE),
        ]
    )


def critic_figures(groups: Sequence[Family]) -> str:
    return row(
        [
            metric_figure("value-loss", "Value loss", "value/loss", groups, Axis(label="loss", low=0.0)),
            metric_figure(
                "value-explained",
                "Explained variance of the returns",
                "value/explained_variance",
                groups,
                Axis(label="share", high=1.0),
            ),
        ]
    )


def weight_figures(groups: Sequence[Family]) -> str:
    """The importance weight of tokens of earlier steps where the objective applies one: mean, 99th percentile, maximum
    and, under a cap, the mean of what is applied. One chart for each setting."""
    out = []
    for i, family in enumerate(family for family in groups if _applied(family) and ever(family, "weight/max", 1.0)):
        shown = [("mean", "mean", 0), ("p99", "99th percentile", 4), ("max", "maximum", 1)]
        objective = _section(family, "objective")
        if objective.get("weight_cap") is not None and objective.get("kind") != "behaviour":
            shown.append(("applied_mean", f"mean, capped at {objective['weight_cap']}", 2))
        lines = [metric_line(family, f"weight/{name}", label, style) for name, label, style in shown]
        old = "older" if _section(family, "allocation").get("kind") == "pilot" else "replayed"
        what = "ratio of" if objective.get("kind") == "behaviour" else "weight of"
        since = " before the update" if objective.get("kind") == "behaviour" else ""
        title = f"{family.label}: {what} {old} tokens{since}"
        out.append(
            lines_figure(title, line_chart(f"weight-{i}", title, lines, STEP, Axis(label="weight", log=True)), lines)
        )
    return row(out)


def _applied(family: Family) -> bool:
    """Whether the loss reads the behaviour policy; a run that does not tell counts as one that does."""
    objective = _section(family, "objective")
    return objective.get("kind", "decoupled") in ("decoupled", "behaviour") or bool(objective.get("behaviour_weight"))


def _section(family: Family, name: str) -> Mapping[str, Any]:
    section = family.runs[0].config.get(name)
    return section if isinstance(section, Mapping) else {}
