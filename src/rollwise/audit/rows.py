"""The audit of prompts: how many, how long, how often the same, and whether any is held out and trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rollwise.audit.given import says_gold
from rollwise.audit.text import asked, fingerprint, normalised, spoken
from rollwise.records import Prompt
from rollwise.tasks.base import PromptSource

KEPT = 10  # examples of each trouble
CountTokens = Callable[[str], int]
CHARACTERS_PER_TOKEN = (
    8  # without a tokenizer: more characters than this times the limit are surely too long in English
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Of some texts, in one unit."""

    shortest: int
    median: float
    longest: int

    @staticmethod
    def of(values: Sequence[int]) -> Lengths | None:
        if not values:
            return None
        return Lengths(shortest=min(values), median=median(values), longest=max(values))

    def to_json(self) -> dict[str, float]:
        return {"shortest": self.shortest, "median": self.median, "longest": self.longest}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsAudit:
    """What was found in one side (train or held-out) of one data set. Rows are named by their prompts' uids."""

    rows: int  # of the source
    looked_at: int
    generated: bool
    characters: Lengths | None
    tokens: Lengths | None  # of the text alone, without a chat template; None where no tokenizer is at hand
    exact: int  # rows whose text, with its pictures, is that of a row before
    same: int  # rows whose normalised question is, these included
    empty: tuple[str, ...]
    oversized: tuple[str, ...]
    telling: tuple[str, ...]  # prompts that state their own gold
    repeated: tuple[tuple[str, str], ...]  # (the row, the one before that it repeats)
    questions: Mapping[bytes, str]  # uid of the first row of each question, for `overlap`

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "looked_at": self.looked_at,
            "generated": self.generated,
            "characters": self.characters and self.characters.to_json(),
            "tokens": self.tokens and self.tokens.to_json(),
            "duplicates": {"exact": self.exact, "normalised": self.same, "examples": [list(p) for p in self.repeated]},
            "empty": list(self.empty),
            "oversized": list(self.oversized),
            "telling": list(self.telling),
        }


def taken(source: PromptSource, limit: int) -> Iterator[Prompt]:
    """At most `limit` prompts: all, or evenly spread over a source read from a file, or the first that are made up."""
    n = len(source)
    if n <= limit or source.generated:
        return (source[i] for i in range(min(n, limit)))
    return (source[i * n // limit] for i in range(limit))


def question_key(prompt: Prompt) -> bytes:
    """What makes two prompts one question: the normalised words of the user, and the pictures."""
    return fingerprint("\n".join([normalised(asked(prompt)), *(i.sha256 for i in prompt.images)]))


def audit_rows(
    prompts: Iterable[Prompt],
    *,
    rows: int,
    generated: bool,
    max_prompt_length: int,
    count_tokens: CountTokens | None = None,
) -> RowsAudit:
    """Look at the prompts of one side. `max_prompt_length` is in tokens; a longer prompt would end a run."""
    texts: dict[bytes, str] = {}
    questions: dict[bytes, str] = {}
    characters: list[int] = []
    tokens: list[int] = []
    exact = same = 0
    empty: list[str] = []
    oversized: list[str] = []
    telling: list[str] = []
    repeated: list[tuple[str, str]] = []
    for prompt in prompts:
        text = spoken(prompt)
        characters.append(len(text))
        if not normalised(asked(prompt)) and not prompt.images:
            empty.append(prompt.uid)
        if count_tokens is not None:
            tokens.append(count_tokens(text))
            if tokens[-1] > max_prompt_length:
                oversized.append(prompt.uid)
        elif len(text) > CHARACTERS_PER_TOKEN * max_prompt_length:
            oversized.append(prompt.uid)
        if says_gold(prompt):
            telling.append(prompt.uid)
        exactly = fingerprint("\n".join([text, *(i.sha256 for i in prompt.images)]))
        exact += exactly in texts
        texts.setdefault(exactly, prompt.uid)
        key = question_key(prompt)
        if key in questions:
            same += 1
            if len(repeated) < KEPT:
                repeated.append((prompt.uid, questions[key]))
        questions.setdefault(key, prompt.uid)
    return RowsAudit(
        rows=rows,
        looked_at=len(characters),
        generated=generated,
        characters=Lengths.of(characters),
        tokens=Lengths.of(tokens),
        exact=exact,
        same=same,
        empty=tuple(empty),
        oversized=tuple(oversized),
        telling=tuple(telling),
        repeated=tuple(repeated),
        questions=questions,
    )


def overlap(one: RowsAudit, two: RowsAudit) -> list[tuple[str, str]]:
    """Questions that are in both: pairs of uids, in the order of `one`."""
    return [(uid, two.questions[key]) for key, uid in one.questions.items() if key in two.questions]
