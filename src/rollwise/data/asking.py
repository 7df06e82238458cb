"""The question of a row: text, or messages for a chat template, with its pictures. A fault is a ValueError.

In text, `<image>` and `<image1>` stand for pictures of the row; in messages, parts of the usual kinds do too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rollwise.data.columns import COUNTDOWN, Columns, cell
from rollwise.data.pictures import MAX_PICTURES, picture
from rollwise.data.rows import Row, is_empty

MARK = re.compile(r"<image(\d{0,2})>")
ROLES = {"system", "user", "assistant", "tool", "developer"}
SPEAKERS = {"human": "user", "gpt": "assistant", "bot": "assistant", "developer": "system"}  # ShareGPT's words for them
SOURCES = ("image_url", "image", "url", "path", "base64", "bytes")  # members of an image part that hold the picture
MAX_MESSAGES = 64

Message = dict[str, Any]
Picture = bytes | Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Exactly one of `text` and `messages` is set, until text with pictures has become messages."""

    text: str | None = None
    messages: list[Message] | None = None
    pictures: tuple[Picture, ...] = ()
    answered: bool = False  # an assistant's turn stood at the end, and was taken off
    parts: list[Message] = field(default_factory=list)  # of a text with pictures: its content

    def shown(self) -> str:
        """All text of the user's side, for the key that tells questions apart."""
        if self.messages is None:
            return self.text or ""
        out = []
        for message in self.messages:
            content = message["content"]
            if message["role"] != "system":
                out.append(content if isinstance(content, str) else " ".join(p.get("text", "") for p in content))
        return "\n".join(out)


def question_of(row: Row, columns: Columns, folder: Path | None) -> Question:
    """Raises ValueError where the row asks nothing, or a picture is missing."""
    given = _given(row, columns)
    if is_empty(given):
        raise ValueError(f"no prompt ({columns.prompt} is {'null' if given is None else 'empty'})")
    own = _own_pictures(row, columns, folder)
    if isinstance(given, str):
        question = _from_text(utf8(given), own)
    else:
        question = _from_messages(given, columns.prompt, own, folder)
    if columns.images and not question.pictures and MARK.search(question.shown()):
        raise ValueError(f"a mark for a picture in the text, and no picture in {columns.images}")
    return question


def _given(row: Row, columns: Columns) -> Any:
    """The prompt's cell; messages may stand in it as JSON text. Numbers and a target ask for themselves."""
    if columns.prompt.endswith(COUNTDOWN):
        numbers, target = row.get(columns.prompt.removesuffix(COUNTDOWN)), row.get("target")
        return None if is_empty(numbers) or is_empty(target) else countdown_sentence(numbers, target)
    if columns.prompt == "instruction+input":
        parts = [row.get("instruction"), row.get("input")]
        return "\n\n".join(p for p in parts if isinstance(p, str) and p.strip()) or None
    value = cell(row, columns.prompt)
    if isinstance(value, str) and value.lstrip().startswith('[{"'):
        value = _spoken(value)
    return value


def _spoken(text: str) -> Any:
    """The messages that stand in a text as JSON; the text where it holds none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if all(isinstance(m, dict) and ("role" in m or "from" in m) for m in value) else text


def countdown_sentence(numbers: Any, target: Any) -> str:
    """The question of a Countdown row."""
    listed = ", ".join(map(str, numbers)) if isinstance(numbers, list | tuple) else str(numbers).strip("[] ")
    return (
        f"Make {target} out of the numbers {listed}. Use every number exactly once; you may add, subtract, multiply "
        "and divide, and set parentheses."
    )


def _own_pictures(row: Row, columns: Columns, folder: Path | None) -> tuple[Picture, ...]:
    value = cell(row, columns.images) if columns.images else None
    if is_empty(value) and not isinstance(value, bytes):
        return ()
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError(f"{columns.images} is text and no JSON list") from None
    several = value if isinstance(value, list) else [value]
    if len(several) > MAX_PICTURES:
        raise ValueError(f"{len(several)} pictures; a row has at most {MAX_PICTURES}")
    return tuple(picture(one, folder) for one in several)


def _from_text(text: str, pictures: tuple[Picture, ...]) -> Question:
    if not pictures:
        return Question(text=text)
    parts, used = _placed(text, len(pictures))
    missing = len(pictures) - used
    return Question(text=text, pictures=pictures, parts=[{"type": "image"}] * missing + parts)


def _placed(text: str, count: int) -> tuple[list[Message], int]:
    """Text with its marks made into image parts, and how many were. A single picture that holds what several numbered
    marks speak of stands at the first of them; the others stay as words. Raises ValueError for other counts."""
    marks = list(MARK.finditer(text))
    if not marks:
        return [{"type": "text", "text": text}], 0
    numbered = all(m[1] for m in marks)
    if count == 1 and numbered:
        marks = marks[:1]
    elif len(marks) != count or (numbered and [int(m[1]) for m in marks] != list(range(1, count + 1))):
        raise ValueError(f"{len(marks)} marks for pictures in the text, and {count} pictures")
    parts: list[Message] = []
    at = 0
    for mark in marks:
        if text[at : mark.start()].strip():
            parts.append({"type": "text", "text": text[at : mark.start()]})
        parts.append({"type": "image"})
        at = mark.end()
    if text[at:].strip():
        parts.append({"type": "text", "text": text[at:]})
    return parts, len(marks)


def _from_messages(given: Any, column: str, own: tuple[Picture, ...], folder: Path | None) -> Question:
    if not isinstance(given, list) or not given or len(given) > MAX_MESSAGES:
        raise ValueError(f"{column} is neither text nor a list of 1 to {MAX_MESSAGES} messages")
    messages = [_message(m, column) for m in given]
    kept = list(messages)
    while kept and kept[-1]["role"] == "assistant":
        kept.pop()
    if not kept or all(m["role"] == "system" for m in kept):
        raise ValueError(f"{column} holds no message of a user")
    inline: list[Picture] = []
    waiting = list(own)
    for message in kept:
        message["content"] = _content(message["content"], inline, waiting, folder)
    if waiting:
        _spread(kept, inline, waiting)
    return Question(messages=kept, pictures=tuple(inline), answered=len(kept) < len(messages))


def _message(value: Any, column: str) -> Message:
    if not isinstance(value, Mapping):
        raise ValueError(f"{column} holds a message that is no object")
    role = value.get("role", value.get("from"))
    content = value.get("content", value.get("value"))
    role = SPEAKERS.get(str(role), str(role))
    if role not in ROLES or not isinstance(content, str | list) or not content:
        raise ValueError(f"{column} holds a message without a known role or without content")
    return {"role": role, "content": utf8(content) if isinstance(content, str) else content}


def _content(content: Any, inline: list[Picture], waiting: list[Picture], folder: Path | None) -> Any:
    """The content with every part as text or a plain image part; pictures go to `inline` in their order."""
    if isinstance(content, str):
        return content
    parts: list[Message] = []
    for part in content:
        if isinstance(part, str):
            part = {"type": "text", "text": part}
        if not isinstance(part, Mapping):
            raise ValueError("a message holds a part that is no object")
        kind = str(part.get("type", "text"))
        if kind in ("text", "input_text"):
            parts.append({"type": "text", "text": utf8(str(part.get("text") or ""))})
        elif kind in ("image", "image_url", "input_image"):
            source = next((part[k] for k in SOURCES if part.get(k)), None)
            if source is not None:
                inline.append(picture({"base64": source} if part.get("base64") == source else source, folder))
            elif waiting:
                inline.append(waiting.pop(0))
            else:
                raise ValueError("an image part, and no picture for it")
            parts.append({"type": "image"})
        else:
            raise ValueError(f"a message holds a part of type {kind[:30]}; text and images are read")
    if len(inline) > MAX_PICTURES:
        raise ValueError(f"over {MAX_PICTURES} pictures in one row")
    return parts if any(p["type"] == "image" for p in parts) else "".join(p["text"] for p in parts)


def _spread(messages: list[Message], inline: list[Picture], waiting: list[Picture]) -> None:
    """The row's own pictures at the marks in its messages; where there are none, before the last user's words."""
    marked = [m for m in messages if isinstance(m["content"], str) and MARK.search(m["content"])]
    if inline:
        raise ValueError("pictures in the messages and more of them beside")
    if len(marked) > 1:
        counts = [len(MARK.findall(m["content"])) for m in marked]
        if sum(counts) != len(waiting):
            raise ValueError(f"{sum(counts)} marks for pictures in the messages, and {len(waiting)} pictures")
        for message, count in zip(marked, counts, strict=True):
            message["content"] = _placed(MARK.sub("<image>", message["content"]), count)[0]
    else:
        target = marked[0] if marked else [m for m in messages if m["role"] == "user"][-1]
        text = target["content"]
        if isinstance(text, str):
            parts, used = _placed(text, len(waiting))
            target["content"] = [{"type": "image"}] * (len(waiting) - used) + parts
        else:
            target["content"] = [{"type": "image"}] * len(waiting) + text
    inline.extend(waiting)
    waiting.clear()


def utf8(text: str) -> str:
    """The text, unless no file could hold it. Raises ValueError."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("text with half a surrogate pair") from None
    return text
