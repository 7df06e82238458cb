"""Success injection (ARPO, arXiv 2505.16282), for answers of one turn.

For each prompt the latest `per_prompt` correct rollouts are kept. A fresh group of a prompt with stored successes, none
of whose own members is correct, gets its first member replaced by one of them, drawn evenly; its advantages are those
of the mixed group, and the old rollout is treated as on-policy by the method's objective. The step's own successes are
stored after that. A prompt never solved before, and a group that is all right, is left as it is.

Differs: the paper works on GUI trajectories of many turns with a continuous result (stored above 0.1; failed where the
mean is below 0.2 and the spread below 0.05). Here a success is a correct answer, and a group has failed where no scored
member is correct. Where one prompt comes twice in a step no stored rollout serves twice, which the released code does
not rule out. `max_age` is ours and off by default. `capacity` is ours too, for data sets of any size: beyond it the
prompts solved longest ago give up their oldest successes.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from rollwise import seeds
from rollwise.holding import Holding
from rollwise.records import Group, Placed, Prompt, Role, Rollout, mean
from rollwise.replay.base import PolicyLogprobs
from rollwise.replay.columns import pack_groups, unpack_groups
from rollwise.state import array, check_distinct, check_keys


@dataclasses.dataclass(slots=True, eq=False)
class Success:
    """A correct rollout, the prompt it answers, and the number of times it was injected."""

    prompt: Prompt
    rollout: Rollout
    uses: int = 0

    @property
    def group(self) -> Group:
        """The rollout alone, as part of its group."""
        return Group(uid=self.rollout.group_uid, prompt=self.prompt, rollouts=(self.rollout,))

    def answers(self, group: Group) -> bool:
        """Whether it was asked what the group was: a run that goes on with other rows may give them the same uids."""
        asked = group.rollouts[0]
        return np.array_equal(self.rollout.prompt_ids, asked.prompt_ids) and self.rollout.images == asked.images


class SuccessReplay:
    """Holds at most `per_prompt` rollouts for each prompt of the data set, keyed by the prompt's uid, and at most
    `capacity` in all."""

    def __init__(self, *, seed: int, per_prompt: int, max_age: int | None, capacity: int) -> None:
        self.seed = seed
        self.per_prompt = per_prompt
        self.max_age = max_age
        self.capacity = capacity
        self.successes: dict[str, list[Success]] = {}  # oldest first; prompts in the order last solved
        self.size = 0  # rollouts in it
        self.held = Holding()
        self._last: list[Success] = []
        self._step = 0

    def compose(self, fresh: Sequence[Group], slots: int, step: int, policy: PolicyLogprobs) -> list[Placed]:
        self._last, self._step = [], step
        return [Placed(group=self._mixed(g, step), role=Role.fresh, age=step - g.birth_step) for g in fresh]

    def _mixed(self, group: Group, step: int) -> Group:
        failed = any(r.scored for r in group.rollouts) and not any(r.correct for r in group.rollouts)
        known = self._of(group.prompt.uid, step) if failed else []
        stored = [s for s in known if s not in self._last and s.answers(group)]
        if not stored:
            return group
        chosen = stored[int(seeds.generator(self.seed, "success injection", step, group.uid).integers(len(stored)))]
        chosen.uses += 1
        self._last.append(chosen)
        return dataclasses.replace(group, rollouts=(chosen.rollout, *group.rollouts[1:]))

    def _of(self, uid: str, step: int) -> list[Success]:
        """What may still be injected for a prompt."""
        limit = self.max_age
        return [s for s in self.successes.get(uid, []) if limit is None or step - s.rollout.birth_step <= limit]

    def store(self, fresh: Sequence[Placed], step: int) -> None:
        for seat in fresh:
            right = [Success(prompt=seat.group.prompt, rollout=r) for r in seat.group.rollouts if r.correct]
            if right:
                uid = seat.group.prompt.uid
                self._put(uid, [*self._of(uid, step), *right][-self.per_prompt :])

    def _put(self, uid: str, successes: list[Success]) -> None:
        """What is stored for a prompt from now on."""
        before = self.successes.pop(uid, [])
        self.held.add(s.rollout for s in successes)
        self.held.drop(s.rollout for s in before)
        self.successes[uid] = successes
        self.size += len(successes) - len(before)
        while self.size > self.capacity:
            first = next(iter(self.successes))
            oldest = self.successes[first]
            self.held.drop([oldest.pop(0).rollout])
            self.size -= 1
            if not oldest:
                del self.successes[first]

    def stored(self) -> list[tuple[int, Group]]:
        return [(s.rollout.birth_step, s.group) for stored in self.successes.values() for s in stored]

    def metrics(self) -> dict[str, float]:
        """share and ages are of the injected rollouts; each sits in a group counted as fresh."""
        ages = [float(self._step - s.rollout.birth_step) for s in self._last]
        return {
            "replay/size": float(self.size),
            "replay/prompts": float(len(self.successes)),
            "replay/age_mean": mean(ages),
            "replay/age_max": max(ages, default=0.0),
            "replay/uses_mean": mean([s.uses for s in self._last]),
            "replay/uses_max": float(max((s.uses for s in self._last), default=0)),
            **self.held.metrics("replay"),
        }

    def state_dict(self) -> dict[str, Any]:
        every = [s for stored in self.successes.values() for s in stored]
        uses = np.array([s.uses for s in every], dtype=np.int64)
        return {"groups": pack_groups([s.group for s in every]), "uses": uses}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_keys(state, {"groups", "uses"}, "replay")
        groups = unpack_groups(state["groups"])
        every_uses = array(state["uses"], "replay, uses", np.int64, (len(groups),), least=0)
        check_distinct([r.key for g in groups for r in g.rollouts], "replay")
        of_prompt = Counter(g.prompt.uid for g in groups)
        if len(groups) > self.capacity or any(n > self.per_prompt for n in of_prompt.values()):
            raise ValueError(f"state of replay: more than {self.per_prompt} a prompt, or {self.capacity} in all")
        if not all(g.size == 1 and g.rollouts[0].correct for g in groups):
            raise ValueError("state of replay: it holds what is not a correct rollout by itself")
        self.successes, self.held, self.size = {}, Holding(), 0
        for group, uses in zip(groups, every_uses.tolist(), strict=True):
            success = Success(prompt=group.prompt, rollout=group.rollouts[0], uses=uses)
            self.successes.setdefault(group.prompt.uid, []).append(success)
            self.held.add(group.rollouts)
            self.size += 1
