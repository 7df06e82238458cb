"""Stored groups and credits as columns read back equal, whole groups and single rollouts alike."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rollwise.records import Credit
from rollwise.replay.columns import pack_credits, pack_groups, unpack_credits, unpack_groups
from tests.test_replay_rollouts import mixed, zeros


@given(st.lists(st.integers(1, 3), min_size=1, max_size=5), st.integers(0, 3))
def test_stored_groups_read_back_equal(rights: list[int], bare: int) -> None:
    groups = []
    for uid, right in enumerate(rights):
        g = mixed(uid, right)
        singles = [dataclasses.replace(g, rollouts=(r,)) for r in g.remembering(zeros(g.rollouts), [None] * 4).rollouts]
        groups += [g, *singles[bare:]]
    back = unpack_groups(pack_groups(groups))
    assert [g.to_json() for g in back] == [g.to_json() for g in groups]
    for a, b in zip(back, groups, strict=True):
        for r, q in zip(a.rollouts, b.rollouts, strict=True):
            assert r.completion_ids.dtype == q.completion_ids.dtype and r.logprobs.dtype == q.logprobs.dtype


def test_stored_credits_read_back_equal() -> None:
    credits = [
        Credit(advantage=-0.5),
        Credit(advantage=np.array([0.25, -1.0])),
        Credit(advantage=np.array([2.0]), returns=np.array([1.0]), values=np.ones(1, dtype=np.float32), counts=False),
    ]
    for a, b in zip(unpack_credits(pack_credits(credits)), credits, strict=True):
        assert type(a.advantage) is type(b.advantage) and np.array_equal(a.advantage, b.advantage)
        assert a.counts == b.counts and np.array_equal(a.returns or [], b.returns or [])
        assert (a.values is None) == (b.values is None)
