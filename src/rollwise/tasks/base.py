"""What a task is: prompts by index, and a verdict for a completion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rollwise.records import Prompt, Verdict
from rollwise.verify.scoring import Completion


class PromptSource(Protocol):
    """A finite list of prompts, addressed by index. Deterministic: the same index is always the same prompt."""

    generated: bool  # made from the index, so that its rows are alike; otherwise read from somewhere

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Prompt:
        """The prompt at `index`, with `occurrence` 0. Raises IndexError outside 0..len-1."""
        ...


class Task(Protocol):
    """A named source of questions with a verifier. Train and held-out prompts never share a canonical key."""

    name: str
    train: PromptSource
    heldout: PromptSource
    notes: tuple[str, ...]  # what the user should know of the data, a line each

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        """One verdict for each completion, in order. Never raises on any text; bounded in time and memory."""
        ...
