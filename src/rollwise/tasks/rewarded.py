"""A task whose score comes from the user's functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rollwise.config.schema import RewardConfig
from rollwise.errors import UserError
from rollwise.records import Verdict
from rollwise.tasks.base import PromptSource, Task
from rollwise.verify.scoring import Completion, judged
from rollwise.verify.user import UserRewards

UNJUDGED = "none"  # the verifier of rows without gold
NOTHING_JUDGES = "nothing judges these rows (verifier none); give reward=file.py:function, or a verifier"


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


def with_rewards(
    tasks: Mapping[str, Task], config: RewardConfig, note: Callable[[str], None] | None = None
) -> dict[str, Task]:
    """The tasks, scored by the functions that the config names, if it names any. `note` is told what the user should
    know of those. Raises UserError for rows that nothing would judge."""
    rewards = rewards_of(config, note)
    if rewards is None:
        for name, task in tasks.items():
            check_judged(name, getattr(task, "verifiers", ()))
        return dict(tasks)
    return {name: Rewarded(task, rewards) for name, task in tasks.items()}


def rewards_of(config: RewardConfig, note: Callable[[str], None] | None = None) -> UserRewards | None:
    """The functions that the config names, if it names any."""
    functions = {config.function: 1.0} if config.function else config.functions
    return UserRewards(functions, config.correct_at, note, seconds=config.seconds) if functions else None


def check_judged(name: str, verifiers: Iterable[str]) -> None:
    """Raises UserError for rows without gold, where no function of the user is there to score them."""
    if UNJUDGED in verifiers:
        raise UserError(f"{name}: {NOTHING_JUDGES}")


def user_rewards(tasks: Mapping[str, Task]) -> UserRewards | None:
    """The user's functions, which all tasks of a run share."""
    return next((task.rewards for task in tasks.values() if isinstance(task, Rewarded)), None)
