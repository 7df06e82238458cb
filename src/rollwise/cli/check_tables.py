"""What `rollwise check` prints for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rollwise.config import RunConfig, title
from rollwise.report.wording import clean, count

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from rollwise.audit.reward import Tried
    from rollwise.audit.rows import Lengths
    from rollwise.audit.sets import SetAudit

GOLDS_SHOWN = 10
WIDTH = 110  # columns that the tables need; a narrower terminal wraps them itself


def show(
    settings: RunConfig | None, audits: Sequence[SetAudit], sandbox: Mapping[str, Any] | None, findings: Sequence[str]
) -> None:
    """Standard output: of each data set its notes, prompts, golds and attacks; then the findings, a line each."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    console.width = max(console.width, WIDTH)
    if settings is not None:
        _line(console, f"settings: {settings.method} on {title(settings)}, model {settings.model}: no fault")
    for audit in audits:
        _line(console, "")
        _line(console, audit.name)
        for note in audit.notes:
            _line(console, f"  {note}")
        console.print(_rows(audit))
        _line(console, "  characters and tokens: shortest / median / longest of a prompt's text")
        _golds(console, audit)
        console.print(_attacks(audit))
    for line in sandbox["lines"] if sandbox is not None else ():
        _line(console, line)
    _line(console, "1 finding" if len(findings) == 1 else f"{count(len(findings))} findings")
    for finding in findings:
        _line(console, f"  - {finding}")


def _line(console: Console, text: str) -> None:
    console.print(clean(text))


def _table(word: str, numbers: Sequence[str]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column(word, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _rows(audit: SetAudit) -> Table:
    table = _table("prompts", ("rows", "looked at", "characters", "tokens", "repeated", "empty", "too long"))
    for side, rows in audit.sides.items():
        table.add_row(
            side,
            count(rows.rows),
            count(rows.looked_at),
            _lengths(rows.characters),
            _lengths(rows.tokens),
            count(rows.same),
            count(len(rows.empty)),
            count(len(rows.oversized)),
        )
    return table


def _lengths(lengths: Lengths | None) -> str:
    """Shortest, median and longest."""
    if lengths is None:
        return "-"
    return f"{count(lengths.shortest)} / {count(lengths.median)} / {count(lengths.longest)}"


def _golds(console: Console, audit: SetAudit) -> None:
    golds = audit.golds
    if golds is None or not golds.checked:
        _line(console, "  golds: nothing to say back")
        return
    right = golds.checked - len(golds.failed)
    beside = f"; {count(golds.silent)} rows hold nothing to say back" if golds.silent else ""
    _line(
        console, f"  golds: {count(right)} of {count(golds.checked)} are right by {clean(audit.judged_by, 200)}{beside}"
    )
    for failed in golds.failed[:GOLDS_SHOWN]:
        _line(console, f"    {failed.uid}: {clean(failed.reason, 200)}")
    if len(golds.failed) > GOLDS_SHOWN:
        _line(console, f"    and {count(len(golds.failed) - GOLDS_SHOWN)} more; --json lists them all")


def _unpaid(tried: Tried) -> str:
    """A verdict that failed says nothing of an attack."""
    failed = tried.verdicts.get("infra_error", 0)
    if not tried.tried:
        return "-"
    return "ok" if not failed else "not judged" if failed == tried.tried else f"ok, {count(failed)} not judged"


def _attacks(audit: SetAudit) -> Table:
    table = _table("attack", ("tried", "correct", "wrong", "invalid", "failed", "highest score", ""))
    for tried in audit.attacks:
        table.add_row(
            tried.attack,
            count(tried.tried),
            *(count(tried.verdicts.get(k, 0)) for k in ("correct", "wrong", "invalid", "infra_error")),
            f"{tried.highest:g}",
            "PAID" if tried.paid else _unpaid(tried),
        )
    return table
