"""Many stored groups as a few arrays and lists: the saved state of a large buffer.

What members of a group share (prompt, prompt tokens) is written once and shared again when read back.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from rollwise.records import IDS, LOGP, Credit, Group, Prompt, Purpose, Rollout, Sampling, StopReason, Verdict
from rollwise.state import check_keys

State = dict[str, Any]


def pack_groups(groups: Sequence[Group]) -> State:
    """JSON values and arrays; `unpack_groups` gives the same groups, whole or in part, in the same order."""
    rollouts = [r for g in groups for r in g.rollouts]
    origin: dict[str, Group] = {}
    for group in groups:
        origin.setdefault(group.uid, group)
    number = {uid: i for i, uid in enumerate(origin)}
    sampling: dict[Sampling, int] = {}
    for r in rollouts:
        sampling.setdefault(r.sampling, len(sampling))
    return {
        "origins": [{"uid": g.uid, "prompt": g.prompt.to_json(), "purpose": g.purpose.value} for g in origin.values()],
        "prompt_ids": _ragged([g.rollouts[0].prompt_ids for g in origin.values()], IDS),
        "origin": np.array([number[g.uid] for g in groups], dtype=np.int64),
        "size": np.array([g.size for g in groups], dtype=np.int64),
        "group_uid": [r.group_uid for r in rollouts],
        "member": np.array([r.member for r in rollouts], dtype=np.int64),
        "birth_step": np.array([r.birth_step for r in rollouts], dtype=np.int64),
        "reward": np.array([r.reward for r in rollouts], dtype=np.float64),
        "stop": [r.stop.value for r in rollouts],
        "text": [r.text for r in rollouts],
        "verdict": [None if r.verdict is None else r.verdict.to_json() for r in rollouts],
        "samplings": [s.to_json() for s in sampling],
        "sampling": np.array([sampling[r.sampling] for r in rollouts], dtype=np.int64),
        "completion_ids": _ragged([r.completion_ids for r in rollouts], IDS),
        "logprobs": _ragged([r.logprobs for r in rollouts], LOGP),
        "birth_logprobs": _ragged([r.birth_logprobs for r in rollouts], LOGP),
        "reference_logprobs": _ragged([r.reference_logprobs for r in rollouts], LOGP),
    }


def unpack_groups(state: State) -> list[Group]:
    check_keys(state, _GROUP_KEYS, "stored groups")
    prompts = [(o["uid"], Prompt.from_json(o["prompt"]), Purpose(o["purpose"])) for o in state["origins"]]
    prompt_ids = _rows(state["prompt_ids"])
    samplings = [Sampling(**s) for s in state["samplings"]]
    origin = state["origin"].tolist()
    of_rollout = np.repeat(state["origin"], state["size"]).tolist()
    rollouts = iter(
        [
            Rollout(
                group_uid=uid,
                member=member,
                prompt_ids=prompt_ids[of],
                completion_ids=ids,
                logprobs=logprobs,
                sampling=samplings[sampled],
                stop=StopReason(stop),
                text=text,
                birth_step=born,
                verdict=None if verdict is None else Verdict.from_json(verdict),
                reward=reward,
                birth_logprobs=birth,
                reference_logprobs=reference,
                images=prompts[of][1].images,
            )
            for of, uid, member, ids, logprobs, sampled, stop, text, born, verdict, reward, birth, reference in zip(
                of_rollout,
                state["group_uid"],
                state["member"].tolist(),
                _rows(state["completion_ids"]),
                _rows(state["logprobs"]),
                state["sampling"].tolist(),
                state["stop"],
                state["text"],
                state["birth_step"].tolist(),
                state["verdict"],
                state["reward"].tolist(),
                _rows(state["birth_logprobs"]),
                _rows(state["reference_logprobs"]),
                strict=True,
            )
        ]
    )
    return [
        Group(
            uid=prompts[of][0],
            prompt=prompts[of][1],
            purpose=prompts[of][2],
            rollouts=tuple(itertools.islice(rollouts, size)),
        )
        for of, size in zip(origin, state["size"].tolist(), strict=True)
    ]


def pack_credits(credits: Sequence[Credit]) -> State:
    return {
        "advantage": _ragged([np.atleast_1d(c.advantage) for c in credits], np.float64),
        "scalar": np.array([np.ndim(c.advantage) == 0 for c in credits], dtype=bool),
        "returns": _ragged([c.returns for c in credits], np.float64),
        "values": _ragged([c.values for c in credits], LOGP),
        "counts": np.array([c.counts for c in credits], dtype=bool),
    }


def unpack_credits(state: State) -> list[Credit]:
    check_keys(state, {"advantage", "scalar", "returns", "values", "counts"}, "stored credits")
    return [
        Credit(advantage=float(advantage[0]) if scalar else advantage, returns=returns, values=values, counts=counts)
        for advantage, scalar, returns, values, counts in zip(
            _rows(state["advantage"]),
            state["scalar"].tolist(),
            _rows(state["returns"]),
            _rows(state["values"]),
            state["counts"].tolist(),
            strict=True,
        )
    ]


def _ragged(values: Sequence[np.ndarray | None], dtype: Any) -> State:
    """Arrays end to end, with the length of each; -1 where there is none."""
    present = [v for v in values if v is not None]
    return {
        "length": np.array([-1 if v is None else len(v) for v in values], dtype=np.int64),
        "flat": np.concatenate(present).astype(dtype, copy=False) if present else np.zeros(0, dtype=dtype),
    }


def _rows(state: State) -> list[Any]:
    """Arrays of their own, so that one that is kept keeps no others alive; None where there was none."""
    length, flat = state["length"], state["flat"]
    ends = np.cumsum(np.maximum(length, 0)).tolist()
    return [None if n < 0 else flat[end - n : end].copy() for n, end in zip(length.tolist(), ends, strict=True)]


_GROUP_KEYS = set(pack_groups([]))
