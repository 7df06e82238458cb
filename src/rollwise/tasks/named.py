"""A task as one data set of several: its prompts carry the data set's name."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rollwise.records import Prompt, Verdict
from rollwise.tasks.base import PromptSource, Task
from rollwise.verify.scoring import Completion


class NamedSource:
    """The prompts of `source`, with `name` as their task. `prefix` keeps uids of two data sets of one task apart."""

    def __init__(self, source: PromptSource, name: str, prefix: str) -> None:
        self._source, self._name, self._prefix = source, name, prefix
        self.generated = source.generated

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Prompt:
        prompt = self._source[index]
        return dataclasses.replace(prompt, uid=self._prefix + prompt.uid, task=self._name)


class Named:
    """`task` under the name of its data set, which need not be the task's own."""

    def __init__(self, name: str, task: Task) -> None:
        prefix = "" if name == task.name else f"{name}/"
        self.name = name
        self.train: PromptSource = NamedSource(task.train, name, prefix)
        self.heldout: PromptSource = NamedSource(task.heldout, name, prefix)
        self.notes = tuple(f"{name}: {note}" for note in task.notes)
        self.verifiers: tuple[str, ...] = getattr(task, "verifiers", ())
        self._task = task

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        return self._task.judge(completions)

    def restated(self, completion: Completion) -> str | None:
        """The gold said back, where the task can."""
        say = getattr(self._task, "restated", None)
        return None if say is None else say(completion)
