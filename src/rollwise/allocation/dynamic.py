"""Dynamic sampling (DAPO, arXiv 2503.14476, section 3.2), bounded.

Rounds of `prompts` prompts are generated until as many groups with reward variance are found. The paper's loop has no
bound; here a step takes at most `max_rounds` rounds and `max_rollouts` rollouts, and then does what `on_limit` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from rollwise.allocation.base import Prompts
from rollwise.allocation.bounds import NO_DATA, Bounds
from rollwise.holding import Holding
from rollwise.records import Group, Outcome, Request, Settled
from rollwise.state import check_distinct, check_keys, listed


class Dynamic:
    """Generate until the batch is full of informative groups, or a limit is reached.

    surplus: informative groups beyond the batch are dropped, or carried into the next step (and counted as held).
    """

    def __init__(self, *, prompts: int, group_size: int, bounds: Bounds, surplus: Literal["drop", "carry"]) -> None:
        self.prompts = prompts
        self.group_size = group_size
        self.bounds = bounds
        self.surplus = surplus
        self.carried: list[Group] = []
        self.held = Holding()  # of what is carried
        self._begin()

    def _begin(self) -> None:
        self.bounds.begin()
        self.kept: list[Group] = list(self.carried)
        self.dead: list[Group] = []

    @property
    def least(self) -> int:
        return self.group_size

    def plan(self, prompts: Prompts, room: int) -> list[Request]:
        if len(self.kept) >= self.prompts or not self.bounds.allow(room, self.group_size):
            return []
        drawn = prompts.draw(min(self.prompts, self.bounds.room(room) // self.group_size))
        if not drawn:
            self.bounds.limit = NO_DATA
            return []
        self.bounds.take(len(drawn) * self.group_size)
        return [Request(prompt=p, count=self.group_size) for p in drawn]

    def observe(self, groups: Sequence[Group]) -> None:
        for group in groups:
            (self.kept if group.informative else self.dead).append(group)

    def settle(self) -> Settled:
        batch, extra = self.kept[: self.prompts], self.kept[self.prompts :]
        slots, note, stop = self.bounds.close("dynamic sampling", len(batch), self.prompts)
        self._carry(extra if self.surplus == "carry" else [])
        lost = [(Outcome.surplus, g) for g in extra] if self.surplus == "drop" else [(Outcome.held, g) for g in extra]
        dead = [(g.dead_outcome, g) for g in self.dead]
        settled = Settled(
            groups=tuple(batch), slots=slots, wanted=self.prompts, outcomes=(*dead, *lost), note=note, stop=stop
        )
        self._begin()
        return settled

    def _carry(self, groups: list[Group]) -> None:
        self.carried, self.held = groups, Holding()
        for group in groups:
            self.held.add(group.rollouts)

    def stored(self) -> list[tuple[int, Group]]:
        return [(g.birth_step, g) for g in self.carried]

    def metrics(self) -> dict[str, float]:
        return {"surplus_carried": float(len(self.carried)), **self.held.metrics("allocation")}

    def state_dict(self) -> dict[str, Any]:
        return {"carried": [g.to_json() for g in self.carried]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"carried"}, "allocation")
        carried = [Group.from_json(g) for g in listed(state["carried"], "allocation, carried")]
        check_distinct([r.key for g in carried for r in g.rollouts], "allocation, carried")
        self._carry(carried)
        self._begin()
