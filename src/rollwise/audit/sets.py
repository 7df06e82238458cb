"""Everything the audit knows of one data set, and what of it a user should mend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from random import Random
from typing import Any, Literal

from rollwise.audit.files import FileSet, Restated
from rollwise.audit.golds import GoldAudit, audit_golds
from rollwise.audit.reward import Tried, audit_reward
from rollwise.audit.rows import CountTokens, RowsAudit, audit_rows, overlap, taken
from rollwise.records import Prompt, VerdictKind
from rollwise.tasks.base import PromptSource, Task
from rollwise.verify.answers import answer_block
from rollwise.verify.scoring import Completion, Judge, judged
from rollwise.verify.user import UserRewards

MADE_UP = 1000  # prompts of a generated side that are looked at
SHOWN = 10  # examples in the JSON
NAMED = 3  # rows named in a line


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is audited: prompts by side, their judge, and how golds are said back."""

    name: str
    sides: Mapping[str, PromptSource]
    judge: Judge
    rewards: tuple[str, ...] = ()  # the user's functions, file:name, that give the scores
    restated: Restated | None = None  # None where the task cannot say its golds back
    notes: tuple[str, ...] = ()
    faults: tuple[tuple[str, str], ...] = ()  # where, and why the row cannot be used

    @staticmethod
    def of_task(name: str, task: Task) -> Subject:
        sides = {"train": task.train, "held-out": task.heldout}
        restated = getattr(task, "restated", None) or _demonstrated(task)
        return Subject(
            name=name,
            sides=sides,
            judge=task.judge,
            restated=restated,
            notes=task.notes,
            rewards=_names(getattr(task, "rewards", None)),
        )

    @staticmethod
    def of_file(file: FileSet) -> Subject:
        return Subject(
            name=file.name,
            sides={"rows": file.prompts},
            judge=file.judge,
            rewards=_names(file.rewards),
            restated=file.restated,
            notes=file.notes,
            faults=() if file.left_out else file.faults,
        )


def _names(rewards: UserRewards | None) -> tuple[str, ...]:
    return () if rewards is None else tuple(scorer.function.where for scorer, _ in rewards.scorers)


def _demonstrated(task: Task) -> Restated | None:
    """The right completion that a task which makes up its questions can show, in the form its prompts ask for."""
    show, template = getattr(task, "demonstration", None), getattr(task, "template", "")
    if show is None or not task.train.generated:
        return None

    def restated(completion: Completion) -> str:
        text = str(show(completion.prompt, Random(0)))
        return text if template == "bare" else f"<answer>{text}</answer>"

    return restated


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAudit:
    """One data set."""

    name: str
    notes: tuple[str, ...]
    faults: tuple[tuple[str, str], ...]
    sides: Mapping[str, RowsAudit]
    overlong: Literal["error", "skip"]  # what a run does with prompts that are too long
    golds: GoldAudit | None
    rewards: tuple[str, ...]  # the user's functions that give the scores
    attacks: tuple[Tried, ...]
    runs_code: bool

    @property
    def judged_by(self) -> str:
        """In words, what says whether a gold is right."""
        if not self.rewards:
            return "their own verifier"
        return f"the reward function{'s' * (len(self.rewards) > 1)} {', '.join(self.rewards)}"

    def findings(self) -> list[str]:
        """Lines: what was found, in how many rows, and the first of them."""
        out: list[str] = []
        if self.faults:
            where, why = self.faults[0]
            out.append(f"{len(self.faults)} rows cannot be used; the first is {where}: {why}")
        for side, rows in self.sides.items():
            out += _about_rows(side, rows, self.overlong)
        if self.golds is not None and self.golds.failed:
            first, some = self.golds.failed[0], f"{len(self.golds.failed)} of {self.golds.checked} golds"
            out.append(f"{some} are not right by {self.judged_by}; the first is {first.uid}: {first.reason}")
        for tried in self.attacks:
            if tried.paid:
                whose = "the data hold their own answer" if tried.about == "data" else "the judge pays for it"
                where = _first(dict.fromkeys(uid for uid, _ in tried.examples))
                paid = f"{tried.paid} of {tried.tried} completions"
                out.append(f"attack '{tried.attack}' ({tried.what}) paid in {paid}: {whose} ({where})")
        return [f"{self.name}: {line}" for line in out]

    def to_json(self) -> dict[str, Any]:
        return {
            "notes": list(self.notes),
            "faults": [{"where": where, "reason": why} for where, why in self.faults],
            "rows": {side: rows.to_json() for side, rows in self.sides.items()},
            "golds": self.golds and self.golds.to_json(),
            "attacks": [t.to_json() for t in self.attacks],
        }


def audit_set(
    subject: Subject,
    *,
    rows: int | None,
    attacked: int,
    max_prompt_length: int,
    overlong: Literal["error", "skip"] = "error",
    count_tokens: CountTokens | None = None,
) -> SetAudit:
    """Look at a data set: `rows` of each side (None: all that are read, the first 1,000 that are made up), and the
    attacks on `attacked` prompts of its first side. Reads no model and spends nothing."""
    limits = {side: rows or (MADE_UP if s.generated else max(1, len(s))) for side, s in subject.sides.items()}
    sides = {
        side: audit_rows(
            taken(source, limits[side]),
            rows=len(source),
            generated=source.generated,
            max_prompt_length=max_prompt_length,
            count_tokens=count_tokens,
        )
        for side, source in subject.sides.items()
    }
    golds = None
    if subject.restated is not None:
        prompts = chain.from_iterable(taken(source, limits[side]) for side, source in subject.sides.items())
        golds = audit_golds(prompts, subject.judge, subject.restated)
    few = [_solved(subject, p) for source in islice(subject.sides.values(), 1) for p in taken(source, attacked)]
    return SetAudit(
        name=subject.name,
        notes=subject.notes,
        faults=subject.faults,
        sides=sides,
        overlong=overlong,
        golds=golds,
        rewards=subject.rewards,
        attacks=tuple(audit_reward(subject.judge, few, full=_full(subject, few))),
        runs_code=any(p.meta.get("verifier") == "code" for p in few),
    )


def _solved(subject: Subject, prompt: Prompt) -> Prompt:
    """With the solution that the verifier found, where the gold is none in words, for attacks to use."""
    if not isinstance(prompt.answer, dict) or "solution" in prompt.meta or subject.restated is None:
        return prompt
    block, _ = answer_block(subject.restated(Completion(prompt=prompt, text="")) or "")
    return prompt if block is None else replace(prompt, meta={**prompt.meta, "solution": block})


def _full(subject: Subject, prompts: Sequence[Prompt]) -> float:
    """The score of a right answer: the highest of the golds said back, 1 where none is."""
    said = [(p, subject.restated(Completion(prompt=p, text=""))) for p in prompts] if subject.restated else []
    completions = [Completion(prompt=p, text=text) for p, text in said if text is not None]
    verdicts = judged(subject.judge, completions) if completions else []
    return max((v.score for v in verdicts if v.kind is VerdictKind.correct), default=1.0)


def shared(audits: Sequence[SetAudit]) -> list[dict[str, Any]]:
    """Questions that stand in more than one side or set: one entry for each pair of sides that share any."""
    sides = [(f"{a.name} ({side})", rows) for a in audits for side, rows in a.sides.items()]
    out = []
    for i, (one, first) in enumerate(sides):
        for two, second in sides[i + 1 :]:
            both = overlap(first, second)
            if both:
                out.append({"between": [one, two], "count": len(both), "examples": [list(p) for p in both[:SHOWN]]})
    return out


def _about_rows(side: str, rows: RowsAudit, overlong: Literal["error", "skip"]) -> list[str]:
    out = []
    what = "rows" if side == "rows" else f"{side} rows"
    if rows.empty:
        out.append(f"{len(rows.empty)} {what} ask nothing ({_first(rows.empty)})")
    if rows.oversized and (overlong == "error" or rows.generated):
        out.append(f"{len(rows.oversized)} {what} are over sampling.max_prompt_length ({_first(rows.oversized)})")
    if rows.telling:
        out.append(f"{len(rows.telling)} {what} state their own answer ({_first(rows.telling)})")
    if rows.same and not rows.generated:
        again = _first(a for a, _ in rows.repeated)
        out.append(f"{rows.same} {what} ask what a row before asks, {rows.exact} of them word by word ({again})")
    return out


def _first(uids: Iterable[str]) -> str:
    few = list(islice(uids, NAMED + 1))
    return ", ".join(few[:NAMED]) + (", ..." if len(few) > NAMED else "")
