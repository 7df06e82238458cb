"""Where every rollout of a run went, as the lines printed at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rollwise.report.events import Run, amount, saved_rollouts
from rollwise.report.tables import Table, wrapped
from rollwise.report.wording import clean, count, decimal, plural, share

OUTCOMES = {  # the names of `records.Outcome`, in words; kept in step by a test
    "trained": "trained",
    "dropped_easy": "no signal: all right",
    "dropped_hard": "no signal: all wrong",
    "surplus": "surplus",
    "stale": "too old to use",
    "pilot": "pilots not trained on",
    "truncated": "truncated",
    "infra_error": "verifier failed",
    "lost_at_epoch_end": "lost at epoch end",
    "held": "held for later",
}
PILOTS = {"dropped_easy": "pilot above its band", "dropped_hard": "pilot below its band"}
ALWAYS = ("trained", "dropped_easy", "dropped_hard")


def ledger_table(run: Run) -> list[str]:
    """Lines of plain text: the table of outcomes, then cost, length and end of the run in words."""
    return [*outcome_table(run.ledger, words=outcome_words([run])).text(), *wrapped(sentences(run))]


def outcome_words(runs: Sequence[Run]) -> dict[str, str]:
    """The outcomes in words. Where pilots are generated those that are dropped have signal, and lie outside a band; so
    do they in some of the runs, or where commits alone are trained on, beside groups without any."""
    piloted = [_setting(run, "allocation", "kind") == "pilot" for run in runs]
    if not any(piloted):
        return OUTCOMES
    alone = any(_setting(run, "allocation", "pilot", "train_on") == "commit" for run in runs)
    if all(piloted) and not alone:
        return {**OUTCOMES, **PILOTS}
    return {**OUTCOMES, **{key: f"{OUTCOMES[key]}, or {words}" for key, words in PILOTS.items()}}


def _setting(run: Run, *path: str) -> Any:
    here: Any = run.config
    for part in path:
        here = here.get(part) if isinstance(here, Mapping) else None
    return here


def outcome_table(
    ledger: Mapping[str, Any],
    title: str = "Where the generated rollouts went",
    words: Mapping[str, str] = OUTCOMES,
) -> Table:
    """Outcomes that did not occur are left out, apart from the three that always matter."""
    total = amount(ledger, "generated", "rollouts")
    rows: list[list[str]] = []
    for key in outcome_keys(ledger):
        rollouts, tokens = (amount(ledger, "outcomes", key, unit) for unit in ("rollouts", "tokens"))
        if rollouts or key in ALWAYS:
            part = share(rollouts / total) if total else "-"
            rows.append([words.get(key, clean(key)), count(rollouts), part, count(tokens)])
    rows.append(["generated", count(total), share(1) if total else "-", count(amount(ledger, "generated", "tokens"))])
    for key, label in (("replayed", "replayed, besides"), ("evaluation", "evaluation, besides")):
        rollouts, tokens = (amount(ledger, key, unit) for unit in ("rollouts", "tokens"))
        rows.append([label, count(rollouts), "", count(tokens)])
    return Table(title=title, columns=["", "rollouts", "share", "tokens"], rows=rows)


def outcome_keys(ledger: Mapping[str, Any]) -> list[str]:
    """The known outcomes in their order, then any a newer version may have added."""
    found = ledger.get("outcomes")
    extra = sorted(str(key) for key in found if key not in OUTCOMES) if isinstance(found, Mapping) else []
    return [*OUTCOMES, *extra]


def sentences(run: Run) -> list[str]:
    """Cost of filling the batches by generation, length of the run, its end, and what could not be read."""
    lines = [refill_sentence(run.ledger)]
    if (spared := saved_rollouts(run)) >= 0.5:
        lines.append(f"Replay filled slots that would have cost an estimated {count(spared)} of those.")
    rounds, skipped = amount(run.ledger, "rounds"), amount(run.ledger, "skipped_updates")
    updates = amount(run.ledger, "updates") or (run.steps[-1].updates if run.steps else 0)
    text = f"{plural(run.last_step, 'step')}, {plural(updates, 'optimizer update')}"
    if skipped:
        text += f" ({count(skipped)} skipped: loss or gradient not finite)"
    if rounds:
        text += f", {plural(rounds, 'generation round')}"
    lines.append(text + ".")
    if idle := amount(run.ledger, "idle_steps"):
        lines.append(f"{plural(idle, 'step')} had no group that could teach and took no update.")
    if run.stop is None:
        lines.append("No stop event: the run is still going, or was cut off.")
    else:
        detail = f" ({clean(run.stop.detail)})" if run.stop.detail else ""
        lines.append(f"Stopped by {clean(run.stop.reason)}{detail}.")
    return [*lines, *(f"Note: {clean(note)}." for note in run.notes)]


def refill_sentence(ledger: Mapping[str, Any]) -> str:
    """What new generation would have cost where a batch lacked informative groups. An estimate, and called one."""
    more, unknown = amount(ledger, "refill", "rollouts"), amount(ledger, "refill", "unknown")
    total = amount(ledger, "generated", "rollouts")
    left_out = f"; {plural(unknown, 'slot')} of steps without any informative group left out" if unknown else ""
    if not more and unknown:
        return (
            f"What full batches would have cost cannot be estimated: no step that lacked informative groups had one "
            f"({plural(unknown, 'slot')})."
        )
    if not more:
        return f"No batch is estimated to have needed more generation to be full of informative groups{left_out}."
    ratio = f", {decimal((total + more) / total, 1)} times the total" if total else ""
    return (
        f"Filling every batch with informative groups by new generation would have cost an estimated "
        f"{count(more)} more rollouts{ratio}{left_out}."
    )
