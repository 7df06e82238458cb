"""The ledger: every generated rollout and token counted once, by what became of it.

`generated` equals the sum of the outcomes whenever a step is complete. Replayed uses and evaluation are apart. The
totals can be recounted from the event log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rollwise.records import Group, Outcome, Placed, Role, Rollout, Settled


class Count:
    """Rollouts and their completion tokens."""

    __slots__ = ("rollouts", "tokens")

    def __init__(self, rollouts: int = 0, tokens: int = 0) -> None:
        self.rollouts = rollouts
        self.tokens = tokens

    def add(self, rollouts: Iterable[Rollout], sign: int = 1) -> None:
        for r in rollouts:
            self.rollouts += sign
            self.tokens += sign * r.length

    def to_json(self) -> dict[str, int]:
        return {"rollouts": self.rollouts, "tokens": self.tokens}


class Ledger:
    """Running totals of a run."""

    def __init__(self) -> None:
        self.generated = Count()
        self.outcomes = {o: Count() for o in Outcome}
        self.replayed = Count()
        self.evaluation = Count()
        self.rounds = 0
        self.updates = 0
        self.skipped_updates = 0  # loss or gradient not finite
        self.idle_steps = 0  # steps in which no group could teach
        self.refill_rollouts = 0.0
        self.refill_unknown = 0

    def generate(self, groups: Sequence[Group]) -> None:
        """A round of generation."""
        self.rounds += 1
        for group in groups:
            self.generated.add(group.rollouts)

    def settle(self, settled: Settled, placed: Sequence[Placed], step: int) -> None:
        """The end of a step: give each of its rollouts an outcome, and move those held earlier that are placed now."""
        seated = {p.group.uid for p in placed if p.role is Role.fresh}
        for group in settled.groups:
            trained = Outcome.trained if group.uid in seated else Outcome.surplus
            self._book(trained if group.informative else group.dead_outcome, group, step)
        for outcome, group in settled.outcomes:
            self._book(outcome, group, step)
        for place in placed:
            if place.role is Role.replay:
                self.replayed.add(place.group.rollouts)
        self._estimate_refill(settled, placed, step)

    def _book(self, outcome: Outcome, group: Group, step: int) -> None:
        """Book a group's rollouts; those of an earlier step were booked as held and leave that account."""
        for rollout in group.rollouts:
            known = rollout.scored
            if rollout.birth_step < step:
                self.outcomes[Outcome.held if known else Outcome.infra_error].add([rollout], -1)
            self.outcomes[outcome if known else Outcome.infra_error].add([rollout])

    def _estimate_refill(self, settled: Settled, placed: Sequence[Placed], step: int) -> None:
        """What filling the step's other slots with fresh informative groups would have cost: group size / their share
        among the step's own fresh groups, each. Where that share is 0 nothing can be said and the slots are counted."""
        fresh = [g for g in (*settled.groups, *(g for _, g in settled.outcomes)) if g.birth_step == step]
        good = sum(p.role is Role.fresh and p.group.informative for p in placed)
        missing = settled.slots - good
        if missing <= 0 or not fresh:
            return
        informative = sum(g.informative for g in fresh)
        if informative == 0:
            self.refill_unknown += missing
            return
        size = sum(g.size for g in fresh) / len(fresh)
        self.refill_rollouts += missing * size * len(fresh) / informative

    def balanced(self) -> bool:
        """Whether every generated rollout and token has exactly one outcome."""
        return self.generated.rollouts == sum(c.rollouts for c in self.outcomes.values()) and (
            self.generated.tokens == sum(c.tokens for c in self.outcomes.values())
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "generated": self.generated.to_json(),
            "outcomes": {o.value: c.to_json() for o, c in self.outcomes.items()},
            "replayed": self.replayed.to_json(),
            "evaluation": self.evaluation.to_json(),
            "rounds": self.rounds,
            "updates": self.updates,
            "skipped_updates": self.skipped_updates,
            "idle_steps": self.idle_steps,
            "refill": {"rollouts": self.refill_rollouts, "unknown": self.refill_unknown},
        }

    state_dict = to_json

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if set(state) != set(self.to_json()) or set(state["outcomes"]) != {o.value for o in Outcome}:
            raise ValueError("state of ledger: its entries are not those of this version")
        self.generated = Count(**state["generated"])
        self.outcomes = {o: Count(**state["outcomes"][o.value]) for o in Outcome}
        self.replayed = Count(**state["replayed"])
        self.evaluation = Count(**state["evaluation"])
        self.rounds = state["rounds"]
        self.updates = state["updates"]
        self.skipped_updates = state["skipped_updates"]
        self.idle_steps = state["idle_steps"]
        self.refill_rollouts = state["refill"]["rollouts"]
        self.refill_unknown = state["refill"]["unknown"]
