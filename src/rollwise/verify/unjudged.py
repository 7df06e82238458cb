"""For rows without a gold answer, whose score comes from a function of the user."""

from __future__ import annotations

from collections.abc import Sequence

from rollwise.records import Verdict
from rollwise.verify.scoring import Completion, infra_error

REASON = "no gold"


class Unjudged:
    """Says of every completion that there is nothing to judge it by."""

    name = "none"

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        return [infra_error(REASON)] * len(completions)

    def restated(self, completion: Completion) -> str | None:
        return None
