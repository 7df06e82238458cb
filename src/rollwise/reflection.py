"""Signs of reflection in responses: rechecking, hesitation, exploration, and program code where none was asked for.

The patterns are those reported with SRPO (arXiv 2504.14286). We know of no published words for them: these are ours,
and settings (`log.reflection`).

A word counts where it stands by itself, in any case; letters of scripts without case do not join words. Words with a
blank match that one blank only. Everything is `str.find`, so time is linear in the text whatever it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rollwise.config.schema import ReflectionConfig
from rollwise.records import Group, Rollout, mean

Patterns = Mapping[str, Sequence[str]]
CODE_TASK = "code"  # name of the task, or of the verifier in a row's meta, that asks for code
FENCE = "```"
NO_CODE = {"text", "plaintext", "txt", "latex", "tex", "math", "markdown", "md"}  # tags of blocks that hold no program


def patterns(words: ReflectionConfig) -> Patterns:
    """The words by pattern."""
    return {"recheck": words.recheck, "hesitation": words.hesitation, "exploration": words.exploration}


def hits(text: str, words: Sequence[str]) -> int:
    """How often any of the words stands in the text. Each word is counted by itself. Words must not be empty."""
    low = text if text.islower() else text.lower()
    found = 0
    for word in map(str.lower, words):
        at = low.find(word)
        while at >= 0:
            end = at + len(word)
            found += not (_joins(low[at - 1 : at], word[0]) or _joins(word[-1], low[end : end + 1]))
            at = low.find(word, end)
    return found


def _joins(left: str, right: str) -> bool:
    """Whether two neighbouring characters are of one word; the text's ends ('') join nothing."""
    return all(c.isdigit() or c.lower() != c.upper() for c in (left, right)) and bool(left and right)


def has_code_block(text: str) -> bool:
    """Whether the text holds a complete fenced block of program code, marked with a language or not at all."""
    start = text.find(FENCE)
    while start >= 0:
        end, line = text.find(FENCE, start + 3), text.find("\n", start)
        if end < 0:
            return False
        tag = text[start + 3 : line].strip().lower() if 0 <= line < end else ""
        if 0 <= line < end and tag not in NO_CODE and text[line:end].strip():
            return True
        start = text.find(FENCE, end + 3)
    return False


def reflection(groups: Sequence[Group], patterns: Patterns) -> dict[str, float]:
    """reflection/<pattern>/: `share` of the responses that hold it, their `mean_length` in tokens where there are any,
    and `per_1k_tokens`, its hits in a thousand tokens of all responses. reflection/code_block/ has the first two, over
    the responses to prompts that are no programming task. Empty without patterns."""
    members = [r for g in groups for r in g.rollouts]
    if not members or not any(patterns.values()):
        return {}
    out: dict[str, float] = {}
    tokens, low = sum(r.length for r in members), [r.text.lower() for r in members]
    for name, words in patterns.items():
        if words:
            counts = [hits(text, words) for text in low]
            out |= _holding(name, [r for r, n in zip(members, counts, strict=True) if n], len(members))
            out[f"reflection/{name}/per_1k_tokens"] = 1000 * sum(counts) / tokens if tokens else 0.0
    other = [r for g in groups if not asks_for_code(g) for r in g.rollouts]
    return {**out, **_holding("code_block", [r for r in other if has_code_block(r.text)], len(other))}


def _holding(name: str, holding: Sequence[Rollout], of: int) -> dict[str, float]:
    out = {f"reflection/{name}/share": len(holding) / of} if of else {}
    if holding:
        out[f"reflection/{name}/mean_length"] = mean([float(r.length) for r in holding])
    return out


def asks_for_code(group: Group) -> bool:
    return CODE_TASK in (group.prompt.task, group.prompt.meta.get("verifier"))
