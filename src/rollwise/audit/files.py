"""A file of rows as prompts, all of them: nothing is held out, so that every row can be audited or graded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rollwise.data import Examples, load_examples
from rollwise.data.wording import flags
from rollwise.errors import UserError, nearest
from rollwise.records import Prompt, Verdict
from rollwise.tasks.args import read_args
from rollwise.tasks.base import PromptSource
from rollwise.tasks.countdown import Countdown, CountdownArgs
from rollwise.tasks.data import DataArgs, reading_of, verifiers_of
from rollwise.tasks.phrasing import prompt_of, speaks_for_itself
from rollwise.tasks.rewarded import check_judged
from rollwise.tasks.rows import read_problems
from rollwise.tasks.sources import RowSource
from rollwise.verify.base import Verifier
from rollwise.verify.countdown import CountdownVerifier
from rollwise.verify.scoring import Completion, Judge, infra_error, judged
from rollwise.verify.table import verifier_names
from rollwise.verify.user import UserRewards

ALONE = ("data", "heldout_data", "heldout_split")  # settings of a run that say which rows, not how they are read
DATA = "data"  # each row is judged by the verifier that its data set names
Restated = Callable[[Completion], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSet:
    """The usable rows of a file."""

    name: str
    prompts: PromptSource
    numbers: Sequence[int]  # of each prompt: its row in the file, from 0
    judge: Judge
    restated: Restated | None = None
    rewards: UserRewards | None = None  # the user's functions, which give the scores
    notes: tuple[str, ...] = ()
    faults: tuple[tuple[str, str], ...] = ()  # where, and why the row cannot be used
    verifiers: tuple[str, ...] = ()  # that judge its rows
    left_out: bool = False  # such rows, because that was asked for


def open_file(file: str, *, task: str = DATA, args: Mapping[str, Any] | None = None, starter: bool = False) -> FileSet:
    """The rows of `file`: `task` is a verifier's name, or `data`; `args` are the settings of the task `data` that say
    how rows are read, judged and asked. Rows of Countdown that are numbers and a target are asked as the task
    `countdown` asks them, a bundled model in its shorthand (`starter`). Raises UserError in the words of flags."""
    with flags(verifier="--task"):
        return _opened(file, task, dict(args or {}), starter)


def _opened(file: str, task: str, given: dict[str, Any], starter: bool) -> FileSet:
    known = [DATA, *verifier_names()]
    if task not in known:
        raise UserError(f"--task {task}: no task for rows of a file; {nearest(task, known)}")
    if task == "countdown" and not given and Path(file).suffix in (".jsonl", ".json"):
        return _problems(file, starter)
    if starter:
        raise UserError(f"--task {task}: no bundled model is asked rows of it; countdown has one")
    for name in [n for n in ALONE if given.get(n) is not None]:
        raise UserError(f"task_args.{name} is for a run; here the rows are all those of {file}, so leave it out")
    args = read_args(DataArgs, {**given, "data": file})
    reading = reading_of(args, args.verifier if task == DATA else task)
    examples = load_examples(file, replace(reading, bad_rows="skip"))
    verifiers = verifiers_of(args, sorted(examples.verifiers), reading.verifier)
    return FileSet(
        name=file,
        prompts=_Prompts(examples, task, args),
        numbers=examples.numbers,
        judge=lambda completions: _judge(verifiers, completions),
        restated=lambda completion: verifiers[str(completion.prompt.meta["verifier"])].restated(completion),
        notes=tuple(examples.notes),
        faults=tuple(examples.faults),
        verifiers=tuple(verifiers),
        left_out=args.bad_rows == "skip",
    )


def _problems(file: str, starter: bool) -> FileSet:
    task = Countdown(CountdownArgs(), starter=starter)
    problems = read_problems(file)
    return FileSet(
        name=file,
        prompts=RowSource(task, problems, "train"),
        numbers=range(len(problems)),
        judge=task.judge,
        restated=None if starter else CountdownVerifier().restated,
    )


def scored(file: FileSet, rewards: UserRewards | None) -> FileSet:
    """The rows, scored by the user's functions where there are any. Raises UserError for rows that nothing judges."""
    if rewards is None:
        check_judged(file.name, file.verifiers)
        return file
    if len(file.prompts):
        rewards.check(file.prompts[0])
    return replace(file, judge=lambda given: rewards.verdicts(given, judged(file.judge, given)), rewards=rewards)


class _Prompts:
    """All examples of a source, in its order."""

    generated = False

    def __init__(self, examples: Examples, task: str, args: DataArgs) -> None:
        self._examples, self._task, self._args = examples, task, args
        self._plain = speaks_for_itself(examples)

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> Prompt:
        example = self._examples[index]
        uid = f"{self._task}/train:{example.row}"
        args = self._args
        return prompt_of(
            example, uid=uid, task=self._task, template=args.template, plain=self._plain, system=args.system
        )


def _judge(verifiers: Mapping[str, Verifier], completions: Sequence[Completion]) -> list[Verdict]:
    out: list[Verdict] = [infra_error("no verifier for this row")] * len(completions)
    for name, verifier in verifiers.items():
        places = [i for i, c in enumerate(completions) if c.prompt.meta.get("verifier") == name]
        if places:
            for i, verdict in zip(places, verifier.judge([completions[i] for i in places]), strict=True):
                out[i] = verdict
    return out
