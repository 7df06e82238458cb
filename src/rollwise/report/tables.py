"""One table, three renderings: terminal, markdown, HTML. Cells are text; each rendering escapes it for itself."""

from __future__ import annotations

import html
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rollwise.report.wording import clean


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1  # so many columns hold words and are set flush left; the rest hold numbers
    notes: Sequence[str] = ()

    def text(self) -> list[str]:
        """Lines for a terminal or a log file."""
        cells = [[clean(cell) for cell in row] for row in (self.columns, *self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]

        def line(row: Sequence[str]) -> str:
            parts = [
                cell.ljust(width) if i < self.left else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            return "  " + "  ".join(parts).rstrip()

        rule = "  " + "-" * (sum(widths) + 2 * (len(widths) - 1))
        body = [line(cells[0]), rule, *(line(row) for row in cells[1:])]
        return [clean(self.title), *body, *wrapped(self.notes)]

    def markdown(self) -> str:
        def line(row: Sequence[str]) -> str:
            return "| " + " | ".join(_markdown(cell) for cell in row) + " |"

        rule = "|" + "|".join(" :--- " if i < self.left else " ---: " for i in range(len(self.columns))) + "|"
        parts = [f"### {_markdown(self.title)}", ""]
        parts += [line(self.columns), rule, *(line(row) for row in self.rows)]
        for note in self.notes:
            parts += ["", _markdown(note)]
        return "\n".join(parts) + "\n"

    def html(self) -> str:
        def cell(tag: str, i: int, text: str, scope: str = "") -> str:
            kind = "" if i < self.left else ' class="n"'
            return f"<{tag}{kind}{scope}>{escape(text)}</{tag}>"

        head = "".join(cell("th", i, text, ' scope="col"') for i, text in enumerate(self.columns))
        body = "\n".join(
            "<tr>" + "".join(cell("td", i, text) for i, text in enumerate(row)) + "</tr>" for row in self.rows
        )
        notes = "".join(f'<p class="note">{escape(note)}</p>\n' for note in self.notes)
        return (
            f'<div class="table"><table>\n<caption>{escape(self.title)}</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n{notes}"
        )


def wrapped(sentences: Sequence[str], width: int | None = None) -> list[str]:
    """Sentences as indented lines that fit the terminal, at most 110 wide; each begins a line."""
    width = width or max(40, min(110, shutil.get_terminal_size((110, 24)).columns - 2))
    lines: list[str] = []
    for sentence in sentences:
        lines += textwrap.wrap(clean(sentence), width, initial_indent="  ", subsequent_indent="    ")
    return lines


def escape(value: object, limit: int | None = None, *, lines: bool = False) -> str:
    """Foreign text for HTML, in an element or an attribute."""
    return html.escape(clean(value, limit, lines=lines), quote=True)


def _markdown(text: str) -> str:
    out = clean(text)
    for char in "\\`*_[]<>|":
        out = out.replace(char, "\\" + char)
    return out
