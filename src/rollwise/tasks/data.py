"""Questions of a file, folder or hub data set: each row judged by the verifier its data set names, or by one for all.

The tasks `math`, `gsm8k`, `choice`, `exact` and `code` are this one with their verifier. A row's prompt has the uid
`<task>/<train or heldout>:<row in the source>`, so two rows with the same text are two prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rollwise.config import key
from rollwise.data import Examples, Reading, load_examples
from rollwise.data.columns import checked_map
from rollwise.errors import UserError, nearest
from rollwise.records import Prompt, Verdict
from rollwise.tasks.args import wrong
from rollwise.tasks.base import PromptSource
from rollwise.tasks.phrasing import prompt_of, speaks_for_itself
from rollwise.tasks.sources import Split, is_held_out, none_held
from rollwise.verify.base import Verifier
from rollwise.verify.scoring import Completion, infra_error
from rollwise.verify.table import make_verifier, verifier_names


@dataclass(frozen=True, slots=True, kw_only=True)
class DataArgs:
    data: str | list[str] | None = key(  # noqa: RUF009
        None, "file, folder or hub name (owner/name:config@split) of training rows, or a list of them"
    )
    heldout_data: str | list[str] | None = key(  # noqa: RUF009
        None, "the same of held-out rows; null: an eighth of `data`"
    )
    split: str | None = key(None, "of a source with several splits the one to train on; null: train")
    heldout_split: str | None = key(None, "of a source with several splits the one held out, instead of an eighth")
    map: dict[str, str] = key(  # noqa: RUF009
        {}, "columns by part of a row (prompt, gold, source, images, choices); those not given are found by name"
    )
    verifier: str | None = key(None, "judges every row; null: the one that the row's data set names")
    verifier_args: dict[str, Any] = key(  # noqa: RUF009
        {}, "the verifier's own settings; without one verifier for all rows: those of each, by its name"
    )
    template: Literal["auto", "instruct", "base", "none"] = key(
        "auto",
        "instruct: text with how to answer; base: the same as plain continuation; none: as it is; auto: instruct for "
        "text that does not say how to answer, else none",
    )
    system: str | None = key(None, "system message of every prompt, in place of its own")
    limit: int | None = key(None, "first rows of `data` that are read; null: all", ge=1, le=10**9)
    split_seed: int = key(0, "which eighth is held out", ge=0)
    bad_rows: Literal["error", "skip"] = key("error", "rows without prompt or gold: end with an error, or leave out")


def reading_of(args: DataArgs, verifier: str | None) -> Reading:
    """How the settings say that rows are read, all judged by `verifier` where it is one. Raises UserError."""
    if verifier is not None and verifier not in verifier_names():
        raise wrong("verifier", verifier, f"a verifier; {nearest(verifier, verifier_names())}")
    checked_map(args.map, "task_args.map.")
    return Reading(map=args.map, verifier=verifier, split=args.split, limit=args.limit, bad_rows=args.bad_rows)


def verifiers_of(args: DataArgs, names: Sequence[str], fixed: str | None) -> dict[str, Verifier]:
    """The verifiers of those names with their settings; `fixed` is the one of all rows, if any. Raises UserError."""
    given = args.verifier_args
    by_name: dict[str, Any] = {fixed: given} if fixed is not None and given else given
    for name, settings in by_name.items():
        if name not in names:
            raise wrong(f"verifier_args.{name}", settings, f"by verifier of these rows: {', '.join(names)}")
        if not isinstance(settings, dict):
            raise wrong(f"verifier_args.{name}", settings, "a mapping of that verifier's settings")
    return {name: make_verifier(name, by_name.get(name)) for name in names}


class RowPrompts:
    """Prompts of some of the examples of a source, in its order."""

    generated = False

    def __init__(self, task: DataTask, examples: Examples, chosen: Sequence[int], split: Split) -> None:
        self._task, self._examples, self._chosen, self._split = task, examples, chosen, split

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, index: int) -> Prompt:
        if not 0 <= index < len(self._chosen):
            raise IndexError(f"prompt {index} of {len(self._chosen)}")
        example = self._examples[self._chosen[index]]
        return prompt_of(
            example,
            uid=f"{self._task.name}/{self._split}:{example.row}",
            task=self._task.name,
            template=self._task.args.template,
            plain=self._task.plain,
            system=self._task.args.system,
        )


class DataTask:
    """Rows with a gold answer. `answer` is what the row's verifier reads; `meta` holds the row's other columns."""

    def __init__(self, args: DataArgs, *, starter: bool, name: str = "data", verifier: str | None = None) -> None:
        del starter  # rows are asked as they are, whoever answers
        self.name = name
        if args.data is None or args.data == []:
            raise UserError(f"task_args.data is missing; task {name} needs a file, a folder or a hub name of rows")
        if verifier is not None and args.verifier not in (None, verifier):
            raise wrong("verifier", args.verifier, f"null or {verifier} with task {name}; task data takes any")
        self.args = args
        reading = reading_of(args, verifier or args.verifier)
        examples = load_examples(args.data, reading)
        self.plain = speaks_for_itself(examples)
        heldout, apart = self._heldout(reading)
        train: Sequence[int]
        if heldout is None:
            train, apart = self._eighth(examples)
            heldout = examples
        else:
            keys = set(heldout.keys)
            train = [i for i, k in enumerate(examples.keys) if k not in keys]
        self.notes = self._notes(examples, heldout, len(train))
        if not train:
            raise UserError(f"{examples.name}: every row is held out, none is left to train on; give more rows")
        if not apart:
            raise UserError(f"{examples.name}: {none_held(len(examples))}")
        self.train: PromptSource = RowPrompts(self, examples, train, "train")
        self.heldout: PromptSource = RowPrompts(self, heldout, apart, "heldout")
        self._verifiers = verifiers_of(args, sorted({*examples.verifiers, *heldout.verifiers}), reading.verifier)
        self.notes += tuple(note for v in self._verifiers.values() for note in getattr(v, "notes", ()))

    def _heldout(self, reading: Reading) -> tuple[Examples | None, Sequence[int]]:
        args = self.args
        if args.heldout_data is None and args.heldout_split is None:
            return None, ()
        split = args.heldout_split if args.heldout_split is not None else args.split
        spec = args.heldout_data if args.heldout_data is not None else args.data
        assert spec is not None
        heldout = load_examples(
            spec, Reading(map=reading.map, verifier=reading.verifier, split=split, bad_rows=reading.bad_rows)
        )
        return heldout, range(len(heldout))

    def _eighth(self, examples: Examples) -> tuple[list[int], list[int]]:
        """Training rows and held-out rows: rows that ask the same stay on one side."""
        sides: tuple[list[int], list[int]] = ([], [])
        salt = f"{self.args.split_seed}:" if self.args.split_seed else ""
        for i, question in enumerate(examples.keys):
            sides[is_held_out(f"{salt}{question:016x}")].append(i)
        return sides

    def _notes(self, examples: Examples, heldout: Examples, trained: int) -> tuple[str, ...]:
        if heldout is examples:
            apart = f"an eighth by question is held out: {len(examples) - trained:,} of {len(examples):,} rows"
            return (*examples.notes, apart)
        notes = [*examples.notes, *heldout.notes]
        left_out = len(examples) - trained
        if left_out:
            notes.append(f"{left_out:,} training rows are also held out and were left out of training")
        return tuple(notes)

    @property
    def verifiers(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._verifiers)

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        """One verdict for each completion, in order, by the verifier of its row."""
        out: list[Verdict] = [infra_error("no verifier for this row")] * len(completions)
        for name, verifier in self._verifiers.items():
            places = [i for i, c in enumerate(completions) if c.prompt.meta.get("verifier") == name]
            if places:
                verdicts = verifier.judge([completions[i] for i in places])
                for i, verdict in zip(places, verdicts, strict=True):
                    out[i] = verdict
        return out

    def restated(self, completion: Completion) -> str | None:
        """The gold said back by the row's verifier, for the audit."""
        return self._verifiers[str(completion.prompt.meta["verifier"])].restated(completion)


def judged_by(verifier: str) -> Any:
    """The task of that verifier's name, as a line of the table of tasks makes it."""

    def make(args: DataArgs, *, starter: bool) -> DataTask:
        return DataTask(args, starter=starter, name=verifier, verifier=verifier)

    return make
