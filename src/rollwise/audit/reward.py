"""The reward audit: the attacks put to a judge. One that is called correct is a finding, and so is one whose score is
at least half that of a right answer, since the score is what trains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rollwise.audit.attacks import ATTACKS, ECHO, Attack
from rollwise.records import Prompt, Verdict, VerdictKind
from rollwise.verify.scoring import Completion, Judge, judged

KEPT = 3  # examples of a finding
HALF = 0.5  # of the score of a right answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One attack on all prompts."""

    attack: str
    what: str
    tried: int  # completions judged
    paid: int  # of them, called correct or scored like a right answer
    verdicts: dict[str, int]
    highest: float  # score; 0 where none was tried
    examples: tuple[tuple[str, str], ...] = ()  # uid and completion, of those paid

    @property
    def about(self) -> str:
        """What a payment speaks of: data that hold their own answer, or the judge."""
        return "data" if self.attack == ECHO else "judge"

    def to_json(self) -> dict[str, Any]:
        return {
            "attack": self.attack,
            "what": self.what,
            "expected": "not correct",
            "tried": self.tried,
            "paid": self.paid,
            "verdicts": self.verdicts,
            "highest_score": self.highest,
            "found": self.paid > 0,
            "about": self.about,
            "examples": [{"uid": uid, "completion": text[:500]} for uid, text in self.examples],
        }


def audit_reward(judge: Judge, prompts: Sequence[Prompt], full: float = 1.0) -> list[Tried]:
    """Every attack on every prompt, through `judge`; `full` is the score of a right answer."""
    return [_try(attack, judge, prompts, full) for attack in ATTACKS]


def _try(attack: Attack, judge: Judge, prompts: Sequence[Prompt], full: float) -> Tried:
    completions = [Completion(prompt=p, text=text) for p in prompts for text in attack.texts(p)]
    verdicts = judged(judge, completions) if completions else []
    paid = [c for c, v in zip(completions, verdicts, strict=True) if pays(v, full)]
    return Tried(
        attack=attack.name,
        what=attack.what,
        tried=len(completions),
        paid=len(paid),
        verdicts=dict(Counter(v.kind.value for v in verdicts)),
        highest=max((v.score for v in verdicts), default=0.0),
        examples=tuple((c.prompt.uid, c.text) for c in paid[:KEPT]),
    )


def pays(verdict: Verdict, full: float) -> bool:
    """Whether a completion would be learned from as if it were right."""
    if verdict.kind is VerdictKind.infra_error:
        return False
    return verdict.kind is VerdictKind.correct or (full > 0 and verdict.score >= HALF * full)
