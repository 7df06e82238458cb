"""Sort a string of digits: `5291=` becomes `1259`. Cannot be guessed, generalises over length, is learned in seconds.

The published effect of rollout replay is measurable on it with a model of 108 thousand parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from rollwise.config import key
from rollwise.records import Prompt, StopReason, Verdict
from rollwise.tasks.args import GeneratedArgs, wrong
from rollwise.tasks.base import PromptSource
from rollwise.tasks.sources import HeldoutSource, TrainSource
from rollwise.tasks.templates import render, resolve
from rollwise.verify.exact import digits_verdict
from rollwise.verify.scoring import Completion, one_by_one


@dataclass(frozen=True, slots=True, kw_only=True)
class SortDigitsArgs(GeneratedArgs):
    min_digits: int = key(2, "shortest string; lengths are drawn evenly", ge=1, le=200)
    max_digits: int = key(20, "longest string", ge=1, le=200)


class SortDigits:
    """n digits with repeats; the answer is the same digits in ascending order, then the end token."""

    name = "sort_digits"

    def __init__(self, args: SortDigitsArgs, *, starter: bool) -> None:
        if args.max_digits < args.min_digits:
            raise wrong("max_digits", args.max_digits, f"at least task_args.min_digits ({args.min_digits})")
        self.args = args
        self.template = resolve(args.template, starter=starter)
        self.notes: tuple[str, ...] = ()
        self.train: PromptSource = TrainSource(self, args.train_size, args.data_seed)
        self.heldout: PromptSource = HeldoutSource(self, args.heldout_size, args.data_seed)

    def stratum(self, rng: Random) -> int:
        return rng.randint(self.args.min_digits, self.args.max_digits)

    def draw(self, rng: Random, stratum: int) -> str:
        return "".join(rng.choices("0123456789", k=stratum))

    def key(self, question: str) -> str:
        """The answer itself, so no rearrangement of a held-out string is trained on."""
        return "".join(sorted(question))

    def prompt(self, question: str, uid: str) -> Prompt:
        return render(
            self.template,
            uid=uid,
            task=self.name,
            bare=f"{question}=",
            question=f"Put the digits of {question} in ascending order, keeping every repeated digit.",
            what="digit string",
            example="0012",
            answer=self.key(question),
            meta={"size": len(question)},
        )

    def verify(self, text: str, answer: object, stop: StopReason) -> Verdict:
        """Correct where the whole text is the sorted string and has ended; with the longer templates, where the last
        answer block is."""
        return digits_verdict(text, str(answer), stop, tagged=self.template != "bare")

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        return one_by_one(self.verify, completions)

    def demonstration(self, prompt: Prompt, rng: Random) -> str:
        """A right completion, for the warm-up of the starter."""
        del rng  # there is one way only
        return str(prompt.answer)
