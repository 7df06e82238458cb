"""The ledger: every generated rollout and token counted once, by what became of it.

`generated` equals the sum of the outcomes whenever a step is complete. Replayed uses and evaluation are apart. The
totals can be recounted from the event log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rollwise.records import Batch, Group, Outcome, Rollout, Settled

Key = tuple[str, int]


def key(rollout: Rollout) -> Key:
    """Identity of a rollout: (group, member)."""
    return rollout.group_uid, rollout.member


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

    def settle(self, settled: Settled, batch: Batch, step: int) -> None:
        """The end of a step: give each of its rollouts an outcome. One held from an earlier step leaves that account;
        a row of the batch that the allocation did not hand over is a replayed use."""
        taught = {row.unit for row in batch.rows if row.credit.teaches}
        seated = {key(row.rollout): row for row in batch.rows}
        handed = {key(r): group for group in settled.groups for r in group.rollouts}
        for group in settled.groups:
            for rollout in group.rollouts:
                row = seated.get(key(rollout))
                if row is not None and not row.credit.counts:
                    outcome = Outcome.truncated
                elif row is not None and row.unit in taught:
                    outcome = Outcome.trained
                else:
                    outcome = Outcome.surplus if row is None and group.informative else group.dead_outcome
                self._book(outcome, rollout, step)
        for outcome, group in settled.outcomes:
            for rollout in group.rollouts:
                self._book(outcome, rollout, step)
        self.replayed.add(row.rollout for k, row in seated.items() if k not in handed)
        fresh_groups = {k[0] for k, row in seated.items() if k in handed and row.unit in taught}
        self._estimate_refill(settled, len(fresh_groups), step)

    def _book(self, outcome: Outcome, rollout: Rollout, step: int) -> None:
        """One of an earlier step was booked as held, and leaves that account."""
        known = rollout.scored
        if rollout.birth_step < step:
            self.outcomes[Outcome.held if known else Outcome.infra_error].add([rollout], -1)
        self.outcomes[outcome if known else Outcome.infra_error].add([rollout])

    def _estimate_refill(self, settled: Settled, taught: int, step: int) -> None:
        """What filling the step's other slots with fresh informative groups would have cost: group size / their share
        among the step's own fresh groups, each. Where that share is 0 nothing can be said and the slots are counted."""
        fresh = [g for g in (*settled.groups, *(g for _, g in settled.outcomes)) if g.birth_step == step]
        missing = settled.slots - taught
        if missing <= 0 or not fresh:
            return
        informative = sum(g.informative for g in fresh)
        if informative == 0:
            self.refill_unknown += missing
            return
        size = sum(g.size for g in fresh) / len(fresh)
        self.refill_rollouts += missing * size * len(fresh) / informative

    def give_up_held(self) -> None:
        """What the allocation held for a later step will not be used."""
        held, lost = self.outcomes[Outcome.held], self.outcomes[Outcome.lost_at_epoch_end]
        lost.rollouts, lost.tokens = lost.rollouts + held.rollouts, lost.tokens + held.tokens
        held.rollouts = held.tokens = 0

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
