"""Many stored groups as a few arrays and lists: the saved state of a large buffer.

What members of a group share (prompt, prompt tokens) is written once and shared again when read back.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from rollwise.records import IDS, LOGP, Credit, Group, Prompt, Purpose, Rollout, Sampling, StopReason, Verdict
from rollwise.state import LARGEST, array, check_keys, listed, shaped, string

State = dict[str, Any]


def pack_groups(groups: Sequence[Group]) -> State:
    """JSON values and arrays; `unpack_groups` gives the same groups, whole or in part, in the same order."""
    rollouts = [r for g in groups for r in g.rollouts]
    origin: dict[tuple[str, int], Group] = {}
    for group in groups:
        origin.setdefault(group.key, group)
    number = {key: i for i, key in enumerate(origin)}
    sampling: dict[Sampling, int] = {}
    for r in rollouts:
        sampling.setdefault(r.sampling, len(sampling))
    return {
        "origins": [{"uid": g.uid, "prompt": g.prompt.to_json(), "purpose": g.purpose.value} for g in origin.values()],
        "prompt_ids": _ragged([g.rollouts[0].prompt_ids for g in origin.values()], IDS),
        "origin": np.array([number[g.key] for g in groups], dtype=np.int64),
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
    """Raises ValueError where the columns are not those of groups."""
    check_keys(state, _GROUP_KEYS, "stored groups")
    prompts = [_origin(o) for o in listed(state["origins"], "stored groups, origins")]
    prompt_ids = _rows(state["prompt_ids"], "prompt_ids", IDS, len(prompts), none=False)
    samplings = [Sampling.from_json(s) for s in listed(state["samplings"], "stored groups, samplings")]
    count = len(listed(state["group_uid"], "stored groups, group_uid"))

    def texts(name: str) -> list[Any]:
        return listed(state[name], f"stored groups, {name}", count)

    def numbers(name: str, most: float = LARGEST) -> list[int]:
        out: list[int] = array(state[name], f"stored groups, {name}", np.int64, (count,), least=0, most=most).tolist()
        return out

    def tokens(name: str, dtype: Any = LOGP, *, none: bool = True) -> list[Any]:
        return _rows(state[name], name, dtype, count, none=none)

    origin = array(state["origin"], "stored groups, origin", np.int64, (None,), least=0, most=len(prompts) - 1)
    size = array(state["size"], "stored groups, size", np.int64, origin.shape, least=1, most=count)
    if int(size.sum()) != count:
        raise ValueError(f"state of stored groups: {count} rollouts are not what the sizes of their groups say")
    of_rollout = np.repeat(origin, size).tolist()
    rollouts = iter(
        [
            Rollout(
                group_uid=string(uid, "stored groups, group_uid"),
                member=member,
                prompt_ids=prompt_ids[of],
                completion_ids=ids,
                logprobs=logprobs,
                sampling=samplings[sampled],
                stop=StopReason(stop),
                text=string(text, "stored groups, text"),
                birth_step=born,
                verdict=None if verdict is None else Verdict.from_json(verdict),
                reward=reward,
                birth_logprobs=birth,
                reference_logprobs=reference,
                images=prompts[of][1].images,
            ).sound()
            for of, uid, member, ids, logprobs, sampled, stop, text, born, verdict, reward, birth, reference in zip(
                of_rollout,
                state["group_uid"],
                numbers("member"),
                tokens("completion_ids", IDS, none=False),
                tokens("logprobs", none=False),
                numbers("sampling", most=len(samplings) - 1),
                texts("stop"),
                texts("text"),
                numbers("birth_step"),
                texts("verdict"),
                shaped(state["reward"], "stored groups, reward", np.float64, (count,)).tolist(),
                tokens("birth_logprobs"),
                tokens("reference_logprobs"),
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
        ).sound()
        for of, size in zip(origin.tolist(), size.tolist(), strict=True)
    ]


def _origin(data: State) -> tuple[str, Prompt, Purpose]:
    check_keys(data, {"uid", "prompt", "purpose"}, "stored groups, origins")
    return string(data["uid"], "stored groups, uid"), Prompt.from_json(data["prompt"]), Purpose(data["purpose"])


def pack_credits(credits: Sequence[Credit]) -> State:
    return {
        "advantage": _ragged([np.atleast_1d(c.advantage) for c in credits], np.float64),
        "scalar": np.array([np.ndim(c.advantage) == 0 for c in credits], dtype=bool),
        "returns": _ragged([c.returns for c in credits], np.float64),
        "values": _ragged([c.values for c in credits], LOGP),
        "counts": np.array([c.counts for c in credits], dtype=bool),
    }


def unpack_credits(state: State) -> list[Credit]:
    """Raises ValueError where the columns are not those of credits."""
    check_keys(state, {"advantage", "scalar", "returns", "values", "counts"}, "stored credits")
    counts = shaped(state["counts"], "stored credits, counts", np.bool_, (None,)).tolist()
    scalars = shaped(state["scalar"], "stored credits, scalar", np.bool_, (len(counts),)).tolist()
    advantages = _rows(state["advantage"], "advantage", np.float64, len(counts), none=False)
    if any(scalar and len(advantage) != 1 for advantage, scalar in zip(advantages, scalars, strict=True)):
        raise ValueError("state of stored credits: an advantage that is one number has another length")
    return [
        Credit(advantage=float(advantage[0]) if scalar else advantage, returns=returns, values=values, counts=count)
        for advantage, scalar, returns, values, count in zip(
            advantages,
            scalars,
            _rows(state["returns"], "returns", np.float64, len(counts)),
            _rows(state["values"], "values", LOGP, len(counts)),
            counts,
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


def _rows(state: State, what: str, dtype: Any, count: int, *, none: bool = True) -> list[Any]:
    """Arrays of their own, so that one that is kept keeps no others alive; None, where `none` allows that, where there
    was none."""
    what = f"stored {what}"
    check_keys(state, {"length", "flat"}, what)
    flat = array(state["flat"], what, dtype, (None,))
    length = array(state["length"], what, np.int64, (count,), least=-1 if none else 0, most=len(flat))
    ends = np.cumsum(np.maximum(length, 0)).tolist()
    if (ends[-1] if ends else 0) != len(flat):
        raise ValueError(f"state of {what}: {len(flat)} numbers are not what their lengths say")
    return [None if n < 0 else flat[end - n : end].copy() for n, end in zip(length.tolist(), ends, strict=True)]


_GROUP_KEYS = set(pack_groups([]))
