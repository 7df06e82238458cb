"""When two questions are the same, and what a prompt says in words."""

from __future__ import annotations

import hashlib
import unicodedata

from rollwise.records import Prompt

MARKS = ".,;:?\"'`。，；：？“”‘’"  # no exclamation mark: 5! is another number than 5


def normalised(text: str) -> str:
    """The text without what does not make it another question: Unicode forms (NFKC), case, the amount of blank space,
    punctuation and quotes at the ends of words."""
    words = (word.strip(MARKS) for word in unicodedata.normalize("NFKC", text).casefold().split())
    return " ".join(word for word in words if word)


def fingerprint(text: str) -> bytes:
    """16 bytes that stand for a text in memory; two texts share them by a chance of about 1 in 10^38."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def spoken(prompt: Prompt) -> str:
    """All text of a prompt, message after message; pictures leave nothing."""
    if prompt.text is not None:
        return prompt.text
    return "\n".join(part for m in prompt.messages or [] for part in _parts(m.get("content")))


def asked(prompt: Prompt) -> str:
    """The text of the last user message: the question without a system prompt. The whole text of a plain prompt."""
    users = [m for m in prompt.messages or [] if m.get("role") == "user"]
    return "\n".join(_parts(users[-1].get("content"))) if users else spoken(prompt)


def _parts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [str(p["text"]) for p in parts if isinstance(p, dict) and p.get("type") == "text"]
