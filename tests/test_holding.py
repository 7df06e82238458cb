"""What buffers say of their bytes is what a recount finds, after any sequence of steps, saved in between or not."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise import checkpoint
from rollwise.allocation.bounds import Bounds
from rollwise.allocation.buffer import PilotBuffer
from rollwise.allocation.dynamic import Dynamic
from rollwise.holding import Holding
from rollwise.image import Image
from rollwise.records import Credit, Group, Placed, Role, Rollout
from rollwise.replay.hybrid import Hybrid, Reservoir
from rollwise.replay.recent import RecentGroups
from rollwise.replay.rollouts import RolloutReplay
from rollwise.replay.success import SuccessReplay
from tests.samples import group

PICTURES = [Image(b"red"), Image(b"green!"), Image(b"blue")]


def recount(rollouts: Iterable[Rollout], beside: Callable[[Rollout], int] = lambda r: 0) -> tuple[int, int]:
    """Bytes of rollouts and of images, each thing once, by walking all of them."""
    every = {r.key: r for r in rollouts}
    arrays = ("completion_ids", "logprobs", "birth_logprobs", "reference_logprobs")
    total = sum(getattr(r, a).nbytes for r in every.values() for a in arrays if getattr(r, a) is not None)
    total += sum(len(r.text.encode()) + beside(r) for r in every.values())
    total += sum({r.group_uid: r.prompt_ids.nbytes for r in every.values()}.values())
    return total, sum({i.data: len(i.data) for r in every.values() for i in r.images}.values())


def made(uid: int, step: int, alive: bool) -> Group:
    """Of varying sizes; some with a picture that others share."""
    images = tuple(PICTURES[: uid % 3]) if uid % 2 else ()
    base = group(uid, alive=alive, step=step)
    return dataclasses.replace(
        base,
        prompt=dataclasses.replace(base.prompt, images=images, uid=str(uid % 5)),
        rollouts=tuple(
            dataclasses.replace(
                r,
                prompt_ids=np.arange(uid % 4 + 1, dtype=np.int32),
                completion_ids=np.arange(uid % 7 + 1, dtype=np.int32),
                logprobs=np.zeros(uid % 7 + 1, dtype=np.float32),
                text="é" * (uid % 6),
                images=images,
            )
            for r in base.rollouts
        ),
    )


STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans(), st.booleans()), max_size=12)


def replay_parts() -> dict[str, Callable[[], Any]]:
    limits: dict[str, Any] = {"max_age": 3, "max_uses": 2}
    rollouts: dict[str, Any] = {
        "seed": 1,
        "capacity": 7,
        "ratio": 1.0,
        "alpha": 0.5,
        "eps": 1e-6,
        "warmup_steps": 1,
        **limits,
    }
    return {
        "recent": lambda: RecentGroups(capacity=3, admit="any", **limits),
        "hybrid": lambda: Hybrid(
            recent=RecentGroups(capacity=2, max_uses=2),
            reservoir=Reservoir(seed=1, capacity=3, **limits),
            share=0.5,
        ),
        "rollouts": lambda: RolloutReplay(**rollouts, priority="advantage", entries="rollouts", composition="fresh"),
        "groups": lambda: RolloutReplay(**rollouts, priority="sigma", entries="groups", composition="fresh"),
        "success": lambda: SuccessReplay(seed=1, per_prompt=2, max_age=3, capacity=4),
    }


def stored(part: Any) -> list[Rollout]:
    if isinstance(part, SuccessReplay):
        return [s.rollout for kept in part.successes.values() for s in kept]
    if isinstance(part, RolloutReplay):
        return [r for seat in part.seats for r in seat.group.rollouts]
    both = isinstance(part, Hybrid)
    entries = [*part.recent.entries, *part.reservoir.entries] if both else part.entries
    return [r for e in entries for r in e.group.rollouts]


@pytest.mark.parametrize("kind", list(replay_parts()))
@settings(max_examples=60, deadline=None)
@given(steps=STEPS, frozen=st.booleans())
def test_replay_bytes_are_those_of_a_recount(kind: str, steps: list[Any], frozen: bool) -> None:
    part, uid = replay_parts()[kind](), 0

    def credit(r: Rollout) -> Credit:
        return Credit(advantage=np.full(r.length, 0.5) if frozen else 0.5)

    def beside(r: Rollout) -> int:
        return 8 * r.length if frozen and kind in ("rollouts", "groups") else 0

    for step, (alive, dead, save, remember) in enumerate(steps, 1):
        fresh = [made(uid + i, step, i < alive) for i in range(alive + dead)]
        uid += len(fresh)
        part.compose(fresh, 4, step, lambda rollouts: [r.logprobs for r in rollouts])
        known = [g.remembering([r.logprobs if remember else None for r in g.rollouts], [None] * g.size) for g in fresh]
        part.store([Placed(group=g, role=Role.fresh, credits=tuple(map(credit, g.rollouts))) for g in known], step)
        if save:
            arrays: dict[str, Any] = {}
            text = json.dumps(checkpoint._split(part.state_dict(), arrays))
            part = replay_parts()[kind]()
            part.load_state_dict(checkpoint._join(json.loads(text), arrays))
            part.load_state_dict(checkpoint._join(json.loads(text), arrays))  # over what is there
        total, images = recount(stored(part), beside)
        assert (part.metrics()["replay/bytes"], part.metrics().get("replay/image_bytes", 0)) == (total, images)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["add", "take", "expire", "clear", "save"]), max_size=30), st.sampled_from([None, 2]))
def test_the_bytes_of_waiting_pilots_are_those_of_a_recount(acts: list[str], capacity: int | None) -> None:
    def new() -> PilotBuffer:
        return PilotBuffer(capacity=capacity, max_age=3, pick="random", seed=1)

    buffer = new()
    for step, act in enumerate(acts, 1):
        if act == "add":
            buffer.add(made(step, step, True))
        elif act == "take":
            buffer.take(2, step=step, round=0)
        elif act == "expire":
            buffer.expire(step)
        elif act == "clear":
            buffer.clear()
        else:
            state = json.loads(json.dumps(buffer.state_dict()))
            buffer = new()
            buffer.load_state_dict(state)
        held = recount(r for g in buffer.entries for r in g.rollouts)
        assert (buffer.held.bytes, buffer.held.image_bytes) == held


def test_the_bytes_of_what_is_carried_over() -> None:
    bounds = Bounds(max_rounds=3, max_rollouts=None, on_limit="partial")
    allocation = Dynamic(prompts=2, group_size=2, bounds=bounds, surplus="carry")
    assert allocation.metrics()["allocation/bytes"] == 0
    allocation.observe([made(uid, 1, True) for uid in range(5)])
    allocation.settle()
    held = recount(r for g in allocation.carried for r in g.rollouts)
    assert len(allocation.carried) == 3 and allocation.metrics()["allocation/bytes"] == held[0] > 0
    again = Dynamic(prompts=2, group_size=2, bounds=bounds, surplus="carry")
    again.load_state_dict(json.loads(json.dumps(allocation.state_dict())))
    assert again.metrics() == allocation.metrics()


def test_what_two_hold_is_there_once() -> None:
    one, held = made(5, 1, True), Holding()
    held.add(one.rollouts)
    before = held.bytes, held.image_bytes
    held.add(one.rollouts)
    held.drop(one.rollouts)
    assert (held.bytes, held.image_bytes) == before and before[1] == len(b"red") + len(b"green!")
    held.drop(one.rollouts[:1])
    assert 0 < held.bytes < before[0] and held.image_bytes == before[1]
    held.drop(one.rollouts[1:])
    assert (held.bytes, held.image_bytes) == (0, 0)


def test_members_read_back_share_their_prompt() -> None:
    back = Group.from_json(json.loads(json.dumps(made(3, 1, True).to_json())))
    assert back.rollouts[0].prompt_ids is back.rollouts[1].prompt_ids
