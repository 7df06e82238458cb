"""The ledger: every generated rollout and token counted once, by what became of it.

`generated` equals the sum of the outcomes whenever a step is complete. Replayed uses and evaluation are apart. The
totals can be recounted from the event log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rollwise.records import Batch, Group, Outcome, Purpose, Rollout, Settled
from rollwise.state import check_keys, number, whole


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

    @staticmethod
    def from_json(data: dict[str, int]) -> Count:
        check_keys(data, {"rollouts", "tokens"}, "ledger")
        return Count(**{name: whole(n, f"ledger, {name}") for name, n in data.items()})


def price_of_a_group(settled: Settled, fresh: Sequence[Group]) -> float | None:
    """Rollouts that one more group with variance would have cost by generation, judged by this step's own; None where
    it has none to judge by.

    Groups generated whole: their mean size over the share with variance. In two parts: the pilots of this step for each
    that was kept, and a commit, over the share of the groups made whole that have variance.
    """
    whole = [g for g in fresh if g.purpose is Purpose.whole]
    if whole:
        alive = sum(g.informative for g in whole)
        return sum(g.size for g in whole) / alive if alive else None
    pilots = [g for g in fresh if g.purpose is Purpose.pilot]
    commits = [g for g in fresh if g.purpose is Purpose.commit]
    dropped = {g.uid for o, g in settled.outcomes if o in (Outcome.dropped_easy, Outcome.dropped_hard)}
    kept = sum(g.uid not in dropped for g in pilots)
    alive = sum(g.informative for g in settled.groups)
    if not (kept and commits and alive):
        return None
    a_pilot = sum(g.size for g in pilots) / kept
    a_commit = sum(g.size for g in commits) / len(commits)
    return (a_pilot + a_commit) * len(settled.groups) / alive


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

    def settle(self, settled: Settled, batch: Batch, step: int, fresh: Sequence[Group]) -> None:
        """The end of a step, in which the groups `fresh` were generated: give each of its rollouts an outcome. One held
        from an earlier step leaves that account; a row of the batch that the allocation did not hand over is a replayed
        use."""
        taught = {row.unit for row in batch.rows if row.credit.teaches}
        seated = {row.rollout.key: row for row in batch.rows}
        handed = {r.key: group for group in settled.groups for r in group.rollouts}
        for group in settled.groups:
            for rollout in group.rollouts:
                row = seated.get(rollout.key)
                if row is not None and (not row.credit.counts or (row.unit in taught and row.credit.cut)):
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
        missing = settled.wanted - len({k[0] for k, row in seated.items() if k in handed and row.unit in taught})
        if missing > 0 and fresh:
            price = price_of_a_group(settled, fresh)
            if price is None:
                self.refill_unknown += missing
            else:
                self.refill_rollouts += missing * price

    def _book(self, outcome: Outcome, rollout: Rollout, step: int) -> None:
        """One of an earlier step was booked as held, and leaves that account."""
        known = rollout.scored
        if rollout.birth_step < step:
            self.outcomes[Outcome.held if known else Outcome.infra_error].add([rollout], -1)
        self.outcomes[outcome if known else Outcome.infra_error].add([rollout])

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
        check_keys(state, set(self.to_json()), "ledger")
        check_keys(state["outcomes"], {o.value for o in Outcome}, "ledger")
        check_keys(state["refill"], {"rollouts", "unknown"}, "ledger")
        self.generated = Count.from_json(state["generated"])
        self.outcomes = {o: Count.from_json(state["outcomes"][o.value]) for o in Outcome}
        self.replayed = Count.from_json(state["replayed"])
        self.evaluation = Count.from_json(state["evaluation"])
        for name in ("rounds", "updates", "skipped_updates", "idle_steps"):
            setattr(self, name, whole(state[name], f"ledger, {name}"))
        self.refill_rollouts = number(state["refill"]["rollouts"], "ledger, refill", least=0)
        self.refill_unknown = whole(state["refill"]["unknown"], "ledger, refill")
        if not self.balanced():
            raise ValueError("state of ledger: a rollout has no outcome, or two")
