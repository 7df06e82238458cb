"""The one training loop. It knows parts by their contracts and no method by name.

A step: draw prompts, generate and verify in bounded rounds, compose the batch with replay, make advantages, update the
policy, record, observe. Everything it hands over is a record.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rollwise.advantage import Estimator, Signals
from rollwise.allocation.base import Allocation
from rollwise.budget import room, spent
from rollwise.config import BudgetConfig, EvalConfig
from rollwise.curriculum.base import Curriculum
from rollwise.evaluate import Evaluation
from rollwise.guard import Alarm, Guard
from rollwise.learner.base import Learned, StepLearner
from rollwise.ledger import Count, Ledger
from rollwise.metrics import of_batch, of_groups, of_tasks, unjudged
from rollwise.records import Batch, Credit, Group, Outcome, Placed, Request, Role, Row, StepRecord
from rollwise.reflection import Patterns, reflection
from rollwise.replay.base import Replay
from rollwise.state import Saved, check_keys, number, whole

NOT_FINITE = "the model's own log-probs are not finite: its weights are spoilt, resume from an earlier checkpoint"
NO_PROMPT = "the curriculum has no prompt left to draw"


class Watcher(Protocol):
    """Who is told what happens: the run folder, the console."""

    def step(self, record: StepRecord, groups: Sequence[Group], seconds: dict[str, float]) -> None: ...

    def evaluated(self, event: dict[str, Any]) -> None: ...

    def checkpoint(self, step: int) -> None: ...


@dataclass(slots=True, kw_only=True)
class Loop:
    """The parts of a run and its position."""

    curriculum: Curriculum
    allocation: Allocation
    generate: Callable[[list[Request], int], list[Group]]  # (requests, step): sampled and verified
    replay: Replay
    estimator: Estimator
    learner: StepLearner
    ledger: Ledger
    guard: Guard
    evaluate: Callable[[], Evaluation]
    budget: BudgetConfig
    eval: EvalConfig
    checkpoint_every: int | None
    watcher: Watcher
    vocab_size: int
    tasks: Sequence[str] = ()  # names of the data sets, where there is more than one
    patterns: Patterns = field(default_factory=dict)  # signs of reflection to count
    measured: Callable[[], dict[str, float]] = dict  # what was measured since the last call, beside the records
    reset: Mapping[str, Callable[[], None]] = field(default_factory=dict)  # what a new stage may begin anew
    step: int = 0
    seconds: float = 0.0
    interrupted: Callable[[], bool] = field(default=lambda: False)
    _evaluated_at: int = -1
    _began: float | None = None  # since when it has been running, by a clock that never jumps
    _crossed: int = 0  # rollouts generated before the current step

    def run(self) -> tuple[str, str]:
        """Train until the budget is spent, a part asks to stop, or an interrupt; returns the reason and a sentence."""
        self._began = time.monotonic()
        if self.step == 0:
            self._evaluate(["start"])
        while True:
            reason = self._spent()
            if not reason and not self.curriculum.remaining and not self.ledger.outcomes[Outcome.held].rollouts:
                reason = ("curriculum.empty", NO_PROMPT)
            if reason:
                break
            asked = self._step()
            if asked and asked[1] == NOT_FINITE:
                reason = asked
                break
            if on := self._due():
                self._evaluate(on)
            if asked:
                reason = asked
                break
            if self.checkpoint_every and self.step % self.checkpoint_every == 0:
                self.watcher.checkpoint(self.step)
            if self.interrupted():
                reason = ("interrupt", f"stopped by the user after step {self.step}")
                break
        self.seconds, self._began = self._elapsed(), None
        if reason[1] == NOT_FINITE:  # nothing to keep, nor to measure; the checkpoints of before are not touched
            return reason
        self.watcher.checkpoint(self.step)
        if reason[0] != "interrupt" and self._evaluated_at != self.step:
            self._evaluate(["end"])
        return reason

    def _elapsed(self) -> float:
        """Seconds the run has taken, those before a resume included."""
        return self.seconds + (0.0 if self._began is None else time.monotonic() - self._began)

    def _room(self) -> int:
        return room(self.budget, self.ledger.generated, self._elapsed())

    def _spent(self) -> tuple[str, str] | None:
        return spent(self.budget, self.ledger.generated, self.step, self._elapsed(), self.allocation.least)

    def _step(self) -> tuple[str, str] | None:
        """One step. Returns a reason if the run must end after it."""
        self.step += 1
        seconds: dict[str, float] = {}
        rounds_before = self.ledger.rounds
        self._crossed = self.ledger.generated.rollouts
        fresh: list[Group] = []
        with _timed(seconds, "generate"):
            while requests := self.allocation.plan(self.curriculum, self._room()):
                groups = self.generate(requests, self.step)
                self.ledger.generate(groups)
                self.allocation.observe(groups)
                fresh += groups
        measured = self.measured()
        settled = self.allocation.settle()
        with _timed(seconds, "compose"):
            placed = self.replay.compose(settled.groups, settled.slots, self.step, self.learner.logprobs)
        with _timed(seconds, "learn"):
            signals = self.learner.signals([r for seat in placed for r in seat.group.rollouts])
            batch = self._batch(placed, self._credits(placed, signals), settled.groups)
            self.ledger.settle(settled, batch, self.step, fresh)
            assert self.ledger.balanced(), f"step {self.step}: a rollout has no outcome, or two"
            learned = self.learner.update(batch, signals)
        self.replay.store(self._remembered(settled.groups, batch, learned), self.step)
        self.curriculum.observe(fresh)
        turn = self.curriculum.turn
        for name in turn.reset if turn else ():
            self.reset[name]()
        self.ledger.updates, self.ledger.skipped_updates = self.learner.updates, self.learner.skipped
        self.ledger.idle_steps += learned.idle
        metrics = {
            **of_groups(fresh),
            **of_tasks(fresh, self.tasks),
            **measured,
            **reflection(fresh, self.patterns),
            "rounds": float(self.ledger.rounds - rounds_before),
            **of_batch(placed, batch, settled.wanted),
            **learned.metrics,
            **self.curriculum.metrics(),
            **self.allocation.metrics(),
            **self.replay.metrics(),
        }
        broken = learned.stop or ("" if math.isfinite(metrics["entropy"]) else NOT_FINITE)
        alarm = self.guard.observe(metrics, idle=learned.idle) if fresh else Alarm()
        notes = tuple(n for n in (settled.note, broken, unjudged(fresh), turn.note if turn else "", *alarm.notes) if n)
        record = StepRecord(
            step=self.step, updates=self.learner.updates, ledger=self.ledger.to_json(), metrics=metrics, notes=notes
        )
        self.watcher.step(record, fresh, seconds)
        if broken:
            return "non_finite", broken
        if settled.stop:
            return "allocation.limit", settled.stop
        if not fresh and not settled.groups and turn is None:
            return self._spent() or ("curriculum.empty", NO_PROMPT)
        return alarm.stop

    def _credits(self, placed: Sequence[Placed], signals: Signals) -> list[tuple[Credit, ...]]:
        """The estimator's, where they were not frozen at birth."""
        estimated = self.estimator(placed, signals)
        return [e if seat.credits is None else seat.credits for seat, e in zip(placed, estimated, strict=True)]

    def _batch(self, placed: Sequence[Placed], credits: Sequence[tuple[Credit, ...]], handed: Sequence[Group]) -> Batch:
        fresh = {r.key for g in handed for r in g.rollouts}
        rows = [
            Row(
                rollout=rollout,
                credit=credit,
                role=Role.fresh if rollout.key in fresh else Role.replay,
                unit=unit,
                age=self.step - rollout.birth_step,
            )
            for unit, seat in enumerate(placed)
            for rollout, credit in zip(seat.group.rollouts, credits[unit], strict=True)
        ]
        return Batch(rows=tuple(rows), step=self.step)

    def _remembered(self, groups: Sequence[Group], batch: Batch, learned: Learned) -> list[Placed]:
        """The step's fresh groups with the trainer's log-probs of this step and their credits, for replay to store.
        A group that is not in the batch could not teach: its credits are zero. Members that the allocation held from an
        earlier step were not born under this step's policy: they keep the sampler's log-probs."""
        at = {row.rollout.key: i for i, row in enumerate(batch.rows)}

        def found(values: Sequence[Any], group: Group) -> list[Any]:
            return [values[at[r.key]] if r.key in at else None for r in group.rollouts]

        def birth(group: Group) -> list[Any]:
            prox = found(learned.prox, group)
            return [lp if r.birth_step == self.step else None for r, lp in zip(group.rollouts, prox, strict=True)]

        credits = [row.credit for row in batch.rows]
        none = Credit(advantage=0.0)
        return [
            Placed(
                group=g.remembering(birth(g), found(learned.reference, g)),
                role=Role.fresh,
                age=self.step - g.birth_step,
                credits=tuple(c or none for c in found(credits, g)),
            )
            for g in groups
        ]

    def _due(self) -> list[str]:
        """The cadences that ask for an evaluation after this step."""
        on = []
        if self.eval.every and self.step % self.eval.every == 0:
            on.append("steps")
        every = self.eval.every_rollouts
        if every and self.ledger.generated.rollouts // every > self._crossed // every:
            on.append("rollouts")
        return on

    def _evaluate(self, on: list[str]) -> None:
        self._evaluated_at = self.step
        result = self.evaluate()
        self.measured()  # what the evaluation left belongs to no step
        for group in result.groups:
            self.ledger.evaluation.add(group.rollouts)
        note = "; ".join(filter(None, (result.note, unjudged(result.groups))))
        self.watcher.evaluated(
            {
                "event": "eval",
                "step": self.step,
                "updates": self.learner.updates,
                "rollouts": self.ledger.generated.rollouts,
                "tokens": self.ledger.generated.tokens,
                "on": on,
                **({"note": note} if note else {}),
                **result.to_json(),
            }
        )

    def parts(self) -> dict[str, Saved]:
        """The parts with memory, by name: what a checkpoint holds."""
        return {
            "curriculum": self.curriculum,
            "allocation": self.allocation,
            "replay": self.replay,
            "learner": self.learner,
            "ledger": self.ledger,
            "guard": self.guard,
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "seconds": self._elapsed(),
            "evaluated_at": self._evaluated_at,
            **{name: part.state_dict() for name, part in self.parts().items()},
        }

    def load_state_dict(self, state: dict[str, Any], *, anew: Collection[str] = ()) -> None:
        """`anew` names parts that begin anew instead: their saved state is not looked at. What an allocation that
        begins anew had held for a later step is booked as lost; it does so with the curriculum, which drew that."""
        check_keys(state, {"step", "seconds", "evaluated_at", *self.parts()}, "the loop")
        step = whole(state["step"], "the loop, step")
        seconds = number(state["seconds"], "the loop, seconds", least=0)
        evaluated_at = whole(state["evaluated_at"], "the loop, evaluated_at", least=-1, most=step)
        forgotten = {*anew, "allocation"} if "curriculum" in anew else set(anew)
        for name, part in self.parts().items():
            if name not in forgotten:
                part.load_state_dict(state[name])
        if "allocation" in forgotten:
            self.ledger.give_up_held()
        self._check_agreement(step)
        self.step, self.seconds, self._evaluated_at = step, seconds, evaluated_at

    def _check_agreement(self, step: int) -> None:
        """That the parts tell of one run at that step. Raises ValueError."""
        waiting, held = self.allocation.stored(), self.ledger.outcomes[Outcome.held]
        scored = Count()
        scored.add(r for _, group in waiting for r in group.rollouts if r.scored)
        if (scored.rollouts, scored.tokens) != (held.rollouts, held.tokens):
            raise ValueError("state of ledger: what it books as held is not what the allocation holds")
        if (self.ledger.updates, self.ledger.skipped_updates) != (self.learner.updates, self.learner.skipped):
            raise ValueError("state of ledger: its updates are not those of the learner")
        if max(self.ledger.idle_steps, self.guard.idle) > step:
            raise ValueError(f"state of the loop: step {step} has more idle steps before it")
        for since, group in (*waiting, *self.replay.stored()):
            if max(since, *(r.birth_step for r in group.rollouts)) > step:
                raise ValueError(f"state of the loop: step {step} holds a group that is newer, {group.uid!r}")
            if any(
                ids.max(initial=0) >= self.vocab_size
                for r in group.rollouts
                for ids in (r.prompt_ids, r.completion_ids)
            ):
                raise ValueError(f"state of the loop: group {group.uid!r} has token ids that this model has not")
        for _, group in waiting:
            if not self.curriculum.has(group.prompt):
                raise ValueError(f"state of allocation: prompt {group.prompt.uid!r} is not one of this run's")


class _timed:
    """Adds the time of a block to `seconds[name]`."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self.seconds, self.name = seconds, name

    def __enter__(self) -> None:
        self.start = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.seconds[self.name] = self.seconds.get(self.name, 0.0) + time.monotonic() - self.start
