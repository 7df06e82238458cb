"""How far the generation of one step may go, and what is done when it ends short of a full batch."""

from __future__ import annotations

from typing import Literal

OnLimit = Literal["partial", "replay", "stop"]

BUDGET = "the run's budget"
NO_DATA = "the end of the data"
_DONE = {
    "partial": "trained on those",
    "replay": "left the rest to replay",
    "stop": "trained on those and ended the run",
}


class Bounds:
    """Counts the rounds and rollouts of a step against `max_rounds` and `max_rollouts`.

    on_limit: `partial` trains on the groups found; `replay` also leaves the empty slots to replay; `stop` trains on the
    groups found, which are paid for, and then ends the run.
    """

    def __init__(self, *, max_rounds: int, max_rollouts: int | None, on_limit: OnLimit) -> None:
        self.max_rounds = max_rounds
        self.max_rollouts = max_rollouts
        self.on_limit = on_limit
        self.begin()

    def begin(self) -> None:
        """A new step."""
        self.rounds = 0
        self.rollouts = 0
        self.largest = 0  # rollouts of the largest round
        self.limit = ""  # the limit that ended the generation; empty while none did

    def room(self, room: int) -> int:
        """Rollouts the next round may take, where the run's budget allows `room`."""
        return room if self.max_rollouts is None else min(room, self.max_rollouts - self.rollouts)

    def allow(self, room: int, least: int) -> bool:
        """Whether there may be another round of at least `least` rollouts. If not, `limit` says why: where rounds ran
        out on a budget that does not pay for one more like the largest of them, the budget had made them small."""
        if self.rounds >= self.max_rounds:
            self.limit = BUDGET if room < self.largest else f"max_rounds ({self.max_rounds})"
        elif self.room(room) < least:
            self.limit = BUDGET if room < least else f"max_rollouts ({self.max_rollouts})"
        return not self.limit

    def take(self, rollouts: int) -> None:
        """A round of that many rollouts."""
        self.rounds += 1
        self.rollouts += rollouts
        self.largest = max(self.largest, rollouts)

    def close(self, what: str, found: int, wanted: int) -> tuple[int, str, str]:
        """Slots of the batch, note and stop reason of a step that found so many of the groups it wanted."""
        slots = wanted if self.on_limit == "replay" else found
        if found == wanted:
            return slots, "", ""
        note = (
            f"{what} reached {self.limit} with {found} of {wanted} informative groups "
            f"after {self.rounds} rounds, {self.rollouts} rollouts: {_DONE[self.on_limit]}"
        )
        return slots, note, note if self.on_limit == "stop" and self.limit != BUDGET else ""
