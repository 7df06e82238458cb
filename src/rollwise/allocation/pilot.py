"""Pilot-Commit (arXiv 2605.26606): a few rollouts for many prompts, many more for those that turn out mixed.

A round generates, in one call of the sampler, the pilots of new prompts and the commits of prompts piloted before. A
prompt's pilot and commit rollouts are one group, trained on together. When the batch is full the step ends, and the
next one begins with what still waits: its pilots are then at least one step old.

Where this differs from, or fills in, the paper and its released code:

* Age is checked when a pilot is used, `age <= max_age`. The released code evicts before the step is counted, so that
  there a pilot can be used at age d + 1.
* As released, pilots that wait when a new epoch begins are dropped, and so are the prompts at an epoch's end that are
  fewer than a round; the first round of every epoch is pilots only. Ours: a step in which an epoch ends commits what
  waits before it goes on, in a round without pilots, and keeps the groups it has, which the released code drops. So
  data of fewer prompts than a round works too: its epochs are a round of pilots and one of commits.
* Rounds, and rollouts if wished, are bounded, after which the step trains on what it has; the released code raises.
* Near the end of a budget pilots are drawn only as far as their commits can be paid.
* The pass rate is that of the pilot's scored members by their verdict; advantages use the reward. The pilots that
  chose a prompt also count in its group's mean, which draws that towards the band; the paper does not discuss it. The
  metrics show both pass rates, and `train_on: commit` (ours) leaves the pilots out of the group; what is left can be
  without variance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from rollwise.allocation.base import Prompts
from rollwise.allocation.bounds import NO_DATA, Bounds
from rollwise.allocation.buffer import PilotBuffer
from rollwise.records import Group, Outcome, Prompt, Purpose, Request, Settled, mean
from rollwise.state import check_keys, listed, whole


class Pilot:
    """Pilots `pilot_prompts` prompts a round with `pilot_rollouts` each; commits the rest of `group_size` to those
    whose pass rate is in `p_lower..p_upper`, until `prompts` groups are whole."""

    def __init__(
        self,
        *,
        prompts: int,
        group_size: int,
        pilot_prompts: int,
        pilot_rollouts: int,
        p_lower: float,
        p_upper: float,
        train_on: Literal["group", "commit"],
        buffer: PilotBuffer,
        bounds: Bounds,
    ) -> None:
        self.prompts = prompts
        self.pilot_prompts = pilot_prompts
        self.pilot_rollouts = pilot_rollouts
        self.commit_rollouts = group_size - pilot_rollouts
        self.p_lower, self.p_upper = p_lower, p_upper
        self.train_on = train_on
        self.buffer = buffer
        self.bounds = bounds
        self.step = 1
        self.era = (0, 0)  # of the prompts drawn last, as the curriculum calls it
        self.left = 0  # prompts left in it
        self._metrics: dict[str, float] = {}
        self._begin()

    def _begin(self) -> None:
        self.bounds.begin()
        self.whole: list[Group] = []
        self.outcomes: list[tuple[Outcome, Group]] = []
        self.seen: list[Group] = []  # pilots of this step
        self.committing: dict[str, Group] = {}  # pilots whose commits are being generated
        self.used: list[tuple[Group, Group]] = []  # pilots and their commits

    @property
    def group_size(self) -> int:
        return self.pilot_rollouts + self.commit_rollouts

    @property
    def epoch_over(self) -> bool:
        """Whether the rest of the epoch is less than a round of pilots."""
        return self.left < self.pilot_prompts

    @property
    def least(self) -> int:
        waiting = not self.epoch_over and self.buffer.young(self.step)
        return self.commit_rollouts if waiting else self.group_size

    def plan(self, prompts: Prompts, room: int) -> list[Request]:
        if self.bounds.rounds == 0:
            self._leave(Outcome.stale, self.buffer.expire(self.step))
            # Filters may have left prompts out since, and a new stage all of them.
            self.left = min(self.left, prompts.remaining) if prompts.era == self.era else 0
            if self.epoch_over:
                self._leave(Outcome.lost_at_epoch_end, self.buffer.clear())
        wanted = self.prompts - len(self.whole)
        if not wanted or not self.bounds.allow(room, self.commit_rollouts if self.buffer else self.group_size):
            return []
        own = self.bounds.room(room)
        popped = self.buffer.take(min(wanted, own // self.commit_rollouts), step=self.step, round=self.bounds.rounds)
        self.committing = {g.uid: g for g in popped}
        commits = [
            Request(
                prompt=g.prompt, count=self.commit_rollouts, first_member=self.pilot_rollouts, purpose=Purpose.commit
            )
            for g in popped
        ]
        spent, wanted = len(popped) * self.commit_rollouts, wanted - len(popped)
        count = min(
            self.pilot_prompts,
            self._payable(own - spent, wanted),
            self._payable(room - spent, wanted or self.prompts),
        )
        pilots = [] if popped and self.epoch_over else self._draw(prompts, count)
        if not popped and not pilots:
            self.bounds.limit = NO_DATA
            return []
        self.bounds.take(spent + len(pilots) * self.pilot_rollouts)
        return [
            *(Request(prompt=p, count=self.pilot_rollouts, purpose=Purpose.pilot) for p in pilots),
            *commits,
        ]

    def _payable(self, room: int, commits: int) -> int:
        """Prompts that can be piloted from `room` rollouts if the commits of as many as `commits` are to follow."""
        if room < commits * self.group_size:
            return room // self.group_size
        return (room - commits * self.commit_rollouts) // self.pilot_rollouts

    def _draw(self, prompts: Prompts, count: int) -> list[Prompt]:
        """The next prompts of an epoch, and never of two."""
        if 0 < self.left < self.pilot_prompts and prompts.remaining < self.pilot_prompts:
            prompts.next_epoch()
        left = prompts.remaining
        self.era = prompts.era
        drawn = prompts.draw(min(count, left))
        ended, self.era = prompts.era != self.era, prompts.era
        self.left = 0 if ended else prompts.remaining
        return drawn

    def _leave(self, outcome: Outcome, groups: Sequence[Group]) -> None:
        self.outcomes += [(outcome, g) for g in groups]

    def observe(self, groups: Sequence[Group]) -> None:
        # An allocation may begin in the middle of a run: the step is that of what was born in it.
        self.step = max((r.birth_step for g in groups for r in g.rollouts), default=self.step)
        for group in groups:
            if group.purpose is Purpose.pilot:
                self._judge(group)
                continue
            pilot = self.committing.pop(group.uid)
            self.used.append((pilot, group))
            before = pilot.rollouts if self.train_on == "group" else ()
            self.whole.append(dataclasses.replace(group, rollouts=(*before, *group.rollouts), purpose=Purpose.whole))
            if not before:
                self._leave(Outcome.pilot, [pilot])

    def _judge(self, pilot: Group) -> None:
        self.seen.append(pilot)
        if self.p_lower <= pilot.pass_rate <= self.p_upper:
            self._leave(Outcome.surplus, self.buffer.add(pilot))
        else:  # NaN too, where no member was scored
            easy = pilot.pass_rate > self.p_upper
            self._leave(Outcome.dropped_easy if easy else Outcome.dropped_hard, [pilot])

    def settle(self) -> Settled:
        self._metrics = self._measure()
        slots, note, stop = self.bounds.close("pilot and commit", len(self.whole), self.prompts)
        held = [(Outcome.held, g) for g in self.buffer.entries]
        settled = Settled(
            groups=tuple(self.whole),
            slots=slots,
            wanted=self.prompts,
            outcomes=(*self.outcomes, *held),
            note=note,
            stop=stop,
        )
        self.step += 1
        self._begin()
        return settled

    def _measure(self) -> dict[str, float]:
        """Of the step: pilot/kept is the share of its pilots in the band. The two pass rates are of the groups made
        whole: where that of the commits is nearer to 0 or 1, the pilots were lucky."""
        kept = sum(self.p_lower <= g.pass_rate <= self.p_upper for g in self.seen)
        ages = [float(self.step - pilot.birth_step) for pilot, _ in self.used]
        return {
            "pilot/prompts": float(len(self.seen)),
            "pilot/kept": kept / len(self.seen) if self.seen else 0.0,
            "pilot/waiting": float(len(self.buffer)),
            **self.buffer.held.metrics("allocation"),
            "pilot/age_mean": mean(ages),
            "pilot/age_max": max(ages, default=0.0),
            "pilot/pass_rate": mean([p.pass_rate for p, _ in self.used]),
            "commit/pass_rate": mean([c.pass_rate for _, c in self.used if c.scored_rewards()]),
        }

    def stored(self) -> list[tuple[int, Group]]:
        return [(g.birth_step, g) for g in self.buffer.entries]

    def metrics(self) -> dict[str, float]:
        return self._metrics

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step, "era": list(self.era), "left": self.left, "buffer": self.buffer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"step", "era", "left", "buffer"}, "allocation")
        step, left = whole(state["step"], "allocation, step", least=1), whole(state["left"], "allocation, left")
        stage, epoch = (whole(n, "allocation, era") for n in listed(state["era"], "allocation, era", 2))
        self.buffer.load_state_dict(state["buffer"])
        for group in self.buffer.entries:
            members = range(self.pilot_rollouts)
            if [r.member for r in group.rollouts] != list(members) or group.purpose is not Purpose.pilot:
                raise ValueError(f"state of pilot buffer: {group.uid!r} is no pilot of {self.pilot_rollouts}")
            if (
                not self.p_lower <= group.pass_rate <= self.p_upper
                or not 1 <= step - group.birth_step <= 1 + self.buffer.max_age
            ):
                raise ValueError(f"state of pilot buffer: {group.uid!r} would not wait for a commit at step {step}")
        self.step, self.left, self.era = step, left, (stage, epoch)
        self._begin()
