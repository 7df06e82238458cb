"""Dynamic sampling (DAPO, arXiv 2503.14476, section 3.2), bounded.

Rounds of `prompts` prompts are generated until as many groups with reward variance are found. The paper's loop has no
bound; here a step takes at most `max_rounds` rounds and `max_rollouts` rollouts, and then does what `on_limit` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from rollwise.allocation.base import Prompts
from rollwise.records import Group, Outcome, Request, Settled
from rollwise.state import check_keys

OnLimit = Literal["partial", "replay", "stop"]

_BUDGET = "the run's budget"
_DONE = {
    "partial": "trained on those",
    "replay": "left the rest to replay",
    "stop": "trained on those and ended the run",
}


class Dynamic:
    """Generate until the batch is full of informative groups, or a limit is reached.

    on_limit: `partial` trains on the groups found; `replay` also leaves the empty slots to replay; `stop` trains on the
    groups found, which are paid for, and then ends the run.
    surplus: informative groups beyond the batch are dropped, or carried into the next step (and counted as held).
    """

    def __init__(
        self,
        *,
        prompts: int,
        group_size: int,
        max_rounds: int,
        max_rollouts: int | None,
        on_limit: OnLimit,
        surplus: Literal["drop", "carry"],
    ) -> None:
        self.prompts = prompts
        self.group_size = group_size
        self.max_rounds = max_rounds
        self.max_rollouts = max_rollouts
        self.on_limit = on_limit
        self.surplus = surplus
        self.carried: list[Group] = []
        self._begin()

    def _begin(self) -> None:
        self.rounds = 0
        self.rollouts = 0
        self.kept: list[Group] = list(self.carried)
        self.dead: list[Group] = []
        self.limit = ""

    @property
    def least(self) -> int:
        return self.group_size

    def plan(self, prompts: Prompts, room: int) -> list[Request]:
        if len(self.kept) >= self.prompts:
            return []
        own_room = room if self.max_rollouts is None else min(room, self.max_rollouts - self.rollouts)
        count = min(self.prompts, own_room // self.group_size)
        if self.rounds >= self.max_rounds:
            self.limit = f"max_rounds ({self.max_rounds})"
            return []
        if count == 0:
            self.limit = _BUDGET if room < self.group_size else f"max_rollouts ({self.max_rollouts})"
            return []
        drawn = prompts.draw(count)
        if not drawn:
            self.limit = "the end of the data"
            return []
        self.rounds += 1
        self.rollouts += len(drawn) * self.group_size
        return [Request(prompt=p, count=self.group_size) for p in drawn]

    def observe(self, groups: Sequence[Group]) -> None:
        for group in groups:
            (self.kept if group.informative else self.dead).append(group)

    def settle(self) -> Settled:
        batch, extra = self.kept[: self.prompts], self.kept[self.prompts :]
        full = len(batch) == self.prompts
        note, stop = "", ""
        if not full:
            note = (
                f"dynamic sampling reached {self.limit} with {len(batch)} of {self.prompts} informative groups "
                f"after {self.rounds} rounds, {self.rollouts} rollouts: {_DONE[self.on_limit]}"
            )
            if self.on_limit == "stop" and self.limit != _BUDGET:
                stop = note
        self.carried = extra if self.surplus == "carry" else []
        lost = [(Outcome.surplus, g) for g in extra] if self.surplus == "drop" else [(Outcome.held, g) for g in extra]
        dead = [(g.dead_outcome, g) for g in self.dead]
        slots = self.prompts if self.on_limit == "replay" else len(batch)
        settled = Settled(groups=tuple(batch), slots=slots, outcomes=(*dead, *lost), note=note, stop=stop)
        self._begin()
        return settled

    def metrics(self) -> dict[str, float]:
        return {"surplus_carried": float(len(self.carried))}

    def state_dict(self) -> dict[str, Any]:
        return {"carried": [g.to_json() for g in self.carried]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"carried"}, "allocation")
        self.carried = [Group.from_json(g) for g in state["carried"]]
        self._begin()
