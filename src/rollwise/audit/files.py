"""A file of rows as prompts, all of them: nothing is held out, so that every row can be audited or graded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rollwise.data import Examples, Reading, load_examples
from rollwise.errors import UserError, nearest
from rollwise.records import Prompt, Verdict
from rollwise.tasks.base import PromptSource
from rollwise.tasks.countdown import Countdown, CountdownArgs
from rollwise.tasks.phrasing import prompt_of, speaks_for_itself
from rollwise.tasks.rows import read_problems
from rollwise.tasks.sources import RowSource
from rollwise.verify.base import Verifier
from rollwise.verify.countdown import CountdownVerifier
from rollwise.verify.scoring import Completion, Judge, infra_error
from rollwise.verify.table import make_verifier, verifier_names

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
    notes: tuple[str, ...] = ()
    faults: tuple[tuple[str, str], ...] = ()  # where, and why the row cannot be used


def open_file(file: str, *, task: str = DATA, map: Mapping[str, str] | None = None, starter: bool = False) -> FileSet:
    """The rows of `file`: `task` is a verifier's name, or `data`. Rows of Countdown that are numbers and a target are
    asked as the task `countdown` asks them, a bundled model in its shorthand (`starter`). Raises UserError."""
    known = [DATA, *verifier_names()]
    if task not in known:
        raise UserError(f"--task {task}: no task for rows of a file; {nearest(task, known)}")
    if task == "countdown" and not map and Path(file).suffix in (".jsonl", ".json"):
        return _problems(file, starter)
    if starter:
        raise UserError(f"--task {task}: no bundled model is asked rows of it; countdown has one")
    verifier = None if task == DATA else task
    examples = load_examples(file, Reading(map=dict(map or {}), verifier=verifier, bad_rows="skip"))
    verifiers = {name: make_verifier(name) for name in sorted(examples.verifiers)}
    return FileSet(
        name=file,
        prompts=_Prompts(examples, task),
        numbers=examples.numbers,
        judge=lambda completions: _judge(verifiers, completions),
        restated=lambda completion: verifiers[str(completion.prompt.meta["verifier"])].restated(completion),
        notes=tuple(examples.notes),
        faults=tuple(examples.faults),
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


class _Prompts:
    """All examples of a source, in its order."""

    generated = False

    def __init__(self, examples: Examples, task: str) -> None:
        self._examples, self._task = examples, task
        self._plain = speaks_for_itself(examples)

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> Prompt:
        example = self._examples[index]
        uid = f"{self._task}/train:{example.row}"
        return prompt_of(example, uid=uid, task=self._task, template="auto", plain=self._plain, system=None)


def _judge(verifiers: Mapping[str, Verifier], completions: Sequence[Completion]) -> list[Verdict]:
    out: list[Verdict] = [infra_error("no verifier for this row")] * len(completions)
    for name, verifier in verifiers.items():
        places = [i for i, c in enumerate(completions) if c.prompt.meta.get("verifier") == name]
        if places:
            for i, verdict in zip(places, verifier.judge([completions[i] for i in places]), strict=True):
                out[i] = verdict
    return out
