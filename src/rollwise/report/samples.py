"""The first and the last groups of `rollouts.jsonl`, as HTML. Their text came from a model: all of it is escaped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rollwise.report.tables import escape
from rollwise.report.wording import decimal, whole

GROUPS = 3  # from each end
MEMBERS = 4
CHARS = 700
LINE = 2**22  # bytes of one line that are read at most; a longer one is passed over
TAIL = 2**23  # bytes of the end of the file that are read at most


def sample_groups(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The first and the last groups, never one twice. Lines that cannot be read are passed over."""
    first: list[dict[str, Any]] = []
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        while len(first) < GROUPS:
            line = file.readline(LINE)
            if not line:
                break
            first += _group(line)
        start = max(file.tell(), size - TAIL)
        file.seek(start)
        lines = file.read(TAIL).splitlines()
    last: list[dict[str, Any]] = []
    for line in reversed(lines):
        last = _group(line) + last
        if len(last) == GROUPS:
            break
    return first, last


def samples_html(path: Path) -> str:
    """Both ends of the file, or empty text where it holds nothing readable."""
    if not path.is_file():
        return ""
    first, last = sample_groups(path)
    parts = []
    for title, groups in (("First groups", first), ("Last groups", last)):
        if groups:
            parts.append(f"<h4>{title}</h4>\n" + "\n".join(_show(group) for group in groups))
    return "\n".join(parts)


def _group(line: bytes) -> list[dict[str, Any]]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return []
    good = isinstance(data, dict) and isinstance(data.get("rollouts"), list) and isinstance(data.get("prompt"), dict)
    return [data] if good else []


def _show(group: dict[str, Any]) -> str:
    members = [m for m in group["rollouts"] if isinstance(m, dict)]
    kinds = [_kind(m) for m in members]
    scored = [k for k in kinds if k not in ("infra_error", "-")]
    rate = f"{scored.count('correct')} of {len(scored)} correct" if scored else "none scored"
    head = f"Step {whole(group.get('step'))}, {escape(group.get('uid'), 80)}: {rate}"
    asked = escape(_prompt(group["prompt"]), CHARS, lines=True)
    parts = [f'<div class="group"><p><b>{head}</b></p>', f"<pre>{asked}</pre>"]
    for member, kind in list(zip(members, kinds, strict=True))[:MEMBERS]:
        tokens = member.get("completion_ids")
        length = len(tokens) if isinstance(tokens, list) else 0
        detail = (member.get("verdict") or {}).get("detail") if isinstance(member.get("verdict"), dict) else ""
        line = f"{escape(kind, 40)}, reward {decimal(member.get('reward'), 2)}, {length} tokens"
        line += ", cut at the limit" if member.get("stop") == "length" else ""
        line += f": {escape(detail, 160)}" if detail else ""
        parts.append(f'<p class="note">{line}</p><pre>{escape(member.get("text", ""), CHARS, lines=True)}</pre>')
    if len(members) > MEMBERS:
        parts.append(f'<p class="note">and {len(members) - MEMBERS} more</p>')
    return "\n".join([*parts, "</div>"])


def _kind(member: dict[str, Any]) -> str:
    verdict = member.get("verdict")
    return str(verdict.get("kind", "-")) if isinstance(verdict, dict) else "-"


def _prompt(prompt: dict[str, Any]) -> str:
    messages = prompt.get("messages")
    if isinstance(messages, list):
        return "\n".join(f"{m.get('role')}: {_content(m.get('content'))}" for m in messages if isinstance(m, dict))
    return str(prompt.get("text", ""))


def _content(content: Any) -> str:
    """Of a message, with a word in the place of each image."""
    if not isinstance(content, list):
        return str(content)
    parts = [p for p in content if isinstance(p, dict)]
    return " ".join("[image]" if p.get("type") == "image" else str(p.get("text", "")) for p in parts)
