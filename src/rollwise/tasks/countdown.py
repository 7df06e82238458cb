"""Countdown: combine numbers with + - * / so that they make a target. `3,5,7:26=` becomes `3*7+5`.

Questions are made up (solvable by construction, whole numbers at every step) or read from a JSONL file of rows with
`nums` (or `numbers`) and `target`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from rollwise.config import key
from rollwise.data.asking import countdown_sentence
from rollwise.errors import UserError
from rollwise.records import Prompt, StopReason, Verdict
from rollwise.tasks.args import GeneratedArgs, wrong
from rollwise.tasks.base import PromptSource
from rollwise.tasks.expressions import Problem, make_problem
from rollwise.tasks.rows import read_problems, split_rows
from rollwise.tasks.sources import HeldoutSource, RowSource, TrainSource
from rollwise.tasks.templates import render, resolve
from rollwise.verify.countdown import countdown
from rollwise.verify.scoring import Completion, one_by_one

DRAWS = 20_000  # attempts at a question before the settings are called impossible; the usual need is below ten


@dataclass(frozen=True, slots=True, kw_only=True)
class CountdownArgs(GeneratedArgs):
    numbers: tuple[int, ...] = key((3, 4), "how many numbers a question has; one of these, evenly", ge=2, le=8)
    min_number: int = key(1, "smallest number", ge=1, le=10_000)
    max_number: int = key(99, "largest number", ge=1, le=10_000)
    min_target: int = key(10, "smallest target", ge=0, le=1_000_000)
    max_target: int = key(100, "largest target", ge=0, le=1_000_000)
    operators: str = key("+-*/", "operators a made-up question is built with; an answer may use all four")
    reward: Literal["binary", "shaped"] = key("binary", "binary: 1 or 0; shaped: 0.1 for an answer not right")
    data: str | None = key(None, "JSONL file of training rows; null: questions are made up")
    heldout_data: str | None = key(None, "JSONL file of held-out rows; null: an eighth of `data`")


class Countdown:
    """`answer` is `{"numbers": [...], "target": int}`."""

    name = "countdown"

    def __init__(self, args: CountdownArgs, *, starter: bool) -> None:
        if args.max_number < args.min_number:
            raise wrong("max_number", args.max_number, f"at least task_args.min_number ({args.min_number})")
        if args.max_target < args.min_target:
            raise wrong("max_target", args.max_target, f"at least task_args.min_target ({args.min_target})")
        if not args.operators or not set(args.operators) <= set("+-*/"):
            raise wrong("operators", args.operators, "some of the characters + - * /")
        if args.heldout_data is not None and args.data is None:
            raise wrong("heldout_data", args.heldout_data, "null, or come with task_args.data")
        self.args = args
        self.template = resolve(args.template, starter=starter)
        self.train: PromptSource
        self.heldout: PromptSource
        self.notes: tuple[str, ...] = ()
        if args.data is None:
            self.train = TrainSource(self, args.train_size, args.data_seed)
            self.heldout = HeldoutSource(self, args.heldout_size, args.data_seed)
        else:
            rows = read_problems(args.data)
            train, heldout, left_out = split_rows(rows, args.data, args.heldout_data)
            if left_out:
                self.notes = (f"{left_out} training rows are also held out and were left out of training",)
            self.train = RowSource(self, train[: args.train_size], "train")
            self.heldout = RowSource(self, heldout[: args.heldout_size], "heldout")

    def stratum(self, rng: Random) -> int:
        return rng.choice(self.args.numbers)

    def draw(self, rng: Random, stratum: int) -> Problem:
        """Random numbers joined in random order; drawn again until the target is in range."""
        args = self.args
        for _ in range(DRAWS):
            problem = make_problem(rng, stratum, args.min_number, args.max_number, args.operators)
            if problem is not None and args.min_target <= problem.target <= args.max_target:
                return problem
        raise UserError(
            f"task_args of countdown: found no {stratum} numbers from {args.min_number} to {args.max_number} that make "
            f"{args.min_target} to {args.max_target} with {args.operators}; widen min_target and max_target"
        )

    def key(self, question: Problem) -> str:
        """The numbers in order of size, and the target."""
        return question.key

    def prompt(self, question: Problem, uid: str) -> Prompt:
        numbers = ",".join(map(str, question.numbers))
        meta: dict[str, Any] = {"size": len(question.numbers)}
        if question.solution:
            meta["solution"] = question.solution
        return render(
            self.template,
            uid=uid,
            task=self.name,
            bare=f"{numbers}:{question.target}=",
            question=countdown_sentence(question.numbers, question.target),
            what="expression",
            example="(1+2)*3",
            answer={"numbers": list(question.numbers), "target": question.target},
            meta=meta,
        )

    def verify(self, text: str, answer: object, stop: StopReason) -> Verdict:
        """See `verify.countdown`; the bare template takes the bare form, the others an answer block."""
        form: Literal["bare", "answer_tag"] = "bare" if self.template == "bare" else "answer_tag"
        return countdown(text, answer, stop, form=form, reward=self.args.reward)

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        return one_by_one(self.verify, completions)

    def demonstration(self, prompt: Prompt, rng: Random) -> str:
        """A right completion, for the warm-up of the starter: the expression the question was made from."""
        del rng
        return str(prompt.meta["solution"])
