"""Chains of small additions and subtractions: `5+6-1=` becomes `10`, or `11,10` worked out step by step.

Both ways are right, and the worked one is right more often: reinforcement learning can find that out. Only the last
number is scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import cast

from rollwise.config import key
from rollwise.records import Prompt, StopReason, Verdict
from rollwise.tasks.args import GeneratedArgs, wrong
from rollwise.tasks.base import PromptSource
from rollwise.tasks.sources import HeldoutSource, TrainSource
from rollwise.tasks.templates import render, resolve
from rollwise.verify.exact import last_number_verdict
from rollwise.verify.scoring import Completion, one_by_one

Terms = tuple[int, ...]  # signed; the first is positive

WORKED_SHARE = 0.3  # of the demonstrations


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSumArgs(GeneratedArgs):
    min_terms: int = key(2, "fewest terms; their count is drawn evenly", ge=2, le=50)
    max_terms: int = key(7, "most terms", ge=2, le=50)
    max_operand: int = key(9, "operands are 1 to this", ge=1, le=1_000_000)
    max_total: int = key(20, "no running total exceeds this or falls below 0", ge=1, le=1_000_000)


class ChainSum:
    """Sums and differences whose running total stays between 0 and `max_total`."""

    name = "chain_sum"

    def __init__(self, args: ChainSumArgs, *, starter: bool) -> None:
        if args.max_terms < args.min_terms:
            raise wrong("max_terms", args.max_terms, f"at least task_args.min_terms ({args.min_terms})")
        if args.max_total < args.max_operand:
            raise wrong("max_total", args.max_total, f"at least task_args.max_operand ({args.max_operand})")
        self.args = args
        self.template = resolve(args.template, starter=starter)
        self.notes: tuple[str, ...] = ()
        self.train: PromptSource = TrainSource(self, args.train_size, args.data_seed)
        self.heldout: PromptSource = HeldoutSource(self, args.heldout_size, args.data_seed)

    def stratum(self, rng: Random) -> int:
        return rng.randint(self.args.min_terms, self.args.max_terms)

    def draw(self, rng: Random, stratum: int) -> Terms:
        """Each further term is drawn evenly from the signed operands that keep the total in range."""
        top, cap = self.args.max_operand, self.args.max_total
        total = rng.randint(1, top)
        terms = [total]
        for _ in range(stratum - 1):
            down, up = min(top, total), min(top, cap - total)
            step = rng.randrange(down + up) - down  # -down..-1 and 0..up-1
            terms.append(step + (step >= 0))
            total += terms[-1]
        return tuple(terms)

    def key(self, question: Terms) -> str:
        """The signed terms in order of size: rearranging a sum does not make it a new one."""
        return ",".join(map(str, sorted(question)))

    def prompt(self, question: Terms, uid: str) -> Prompt:
        chain = "".join(f"{t:+d}" for t in question)[1:]
        return render(
            self.template,
            uid=uid,
            task=self.name,
            bare=f"{chain}=",
            question=f"Calculate {chain} from left to right.",
            what="number",
            example=str(self.args.max_total + 1),  # never an answer, so that the prompt said back is never right
            answer=sum(question),
            meta={"size": len(question), "totals": list(accumulate(question))[1:]},
        )

    def verify(self, text: str, answer: object, stop: StopReason) -> Verdict:
        """Correct where the completion is whole numbers with commas between them, has ended, and the last is the sum;
        with the longer templates, where this holds of the last answer block."""
        return last_number_verdict(text, cast(int, answer), stop, tagged=self.template != "bare")

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        return one_by_one(self.verify, completions)

    def demonstration(self, prompt: Prompt, rng: Random) -> str:
        """A right completion for the warm-up of the starter: mostly direct, sometimes worked."""
        totals = prompt.meta["totals"]
        return ",".join(map(str, totals if rng.random() < WORKED_SHARE else totals[-1:]))
