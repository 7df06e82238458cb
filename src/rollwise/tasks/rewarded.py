"""A task whose score comes from the user's functions."""

from __future__ import annotations

from collections.abc import Sequence

from rollwise.records import Verdict
from rollwise.tasks.base import PromptSource, Task
from rollwise.verify.scoring import Completion, judged
from rollwise.verify.user import UserRewards


class Rewarded:
    """`task`, judged by its own verifier for accuracy and by `rewards` for the score. Several tasks may share them.

    Raises UserError where a function needs a column that the task's first row has not.
    """

    def __init__(self, task: Task, rewards: UserRewards) -> None:
        self.name = task.name
        self.train: PromptSource = task.train
        self.heldout: PromptSource = task.heldout
        self.notes = task.notes
        self.rewards = rewards
        self.own = task  # judged by its verifier alone
        for source in (task.train, task.heldout):
            if len(source):
                rewards.check(source[0])

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        return self.rewards.verdicts(completions, judged(self.own.judge, completions))

    def restated(self, completion: Completion) -> str | None:
        """The gold said back, where the task can."""
        say = getattr(self.own, "restated", None)
        return None if say is None else say(completion)
