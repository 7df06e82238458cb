"""What a verifier is: a name, a judge, and the gold answer said back in the form the judge reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rollwise.records import Verdict
from rollwise.verify.scoring import Completion


class Verifier(Protocol):
    """Judges completions of one kind. Never raises on any text; bounded in time and memory."""

    name: str

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        """One verdict for each completion, in order; `prompt.answer` is its gold, `prompt.meta` may hold more."""
        ...

    def restated(self, completion: Completion) -> str | None:
        """The text that a model which knows the gold would write, for the audit: `judge` of it must be correct. None
        where the row holds no such thing (code without a reference solution). The completion's own text is not read.
        """
        ...
