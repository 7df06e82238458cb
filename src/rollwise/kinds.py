"""What marks a rollout: the kinds of things, a verdict, how it was sampled."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import Any

from rollwise.state import check_keys, number, string, whole


class VerdictKind(enum.StrEnum):
    """What a verifier found. Only the first three enter a group's statistics."""

    correct = "correct"
    wrong = "wrong"
    invalid = "invalid"  # no answer could be read, or it breaks a limit
    infra_error = "infra_error"  # the verifier failed; says nothing about the answer


class StopReason(enum.StrEnum):
    """Why a completion ended."""

    eos = "eos"
    length = "length"  # cut at max_completion_length
    aborted = "aborted"  # given up by the server: says nothing about the answer


class Role(enum.StrEnum):
    """Where a row of a batch comes from."""

    fresh = "fresh"
    replay = "replay"


class Purpose(enum.StrEnum):
    """Why a group's members were generated together."""

    whole = "whole"  # the group at once
    pilot = "pilot"  # a first look, to decide on more
    commit = "commit"  # the rest of a group whose pilot was worth it


class Outcome(enum.StrEnum):
    """What became of a generated rollout. Each gets exactly one."""

    trained = "trained"  # entered an update, in a group that can teach
    dropped_easy = "dropped_easy"  # could not teach, every scored member correct; or a pilot above its band
    dropped_hard = "dropped_hard"  # could not teach, otherwise; or a pilot below its band
    surplus = "surplus"  # informative, but more than the step had room for
    stale = "stale"  # held by the allocation until it was too old to use
    pilot = "pilot"  # chose its prompt for more, and is not itself trained on
    truncated = "truncated"  # cut at max_completion_length, and for that left out or given advantage 0
    infra_error = "infra_error"  # the verifier failed
    lost_at_epoch_end = "lost_at_epoch_end"  # held by the allocation when its epoch ended, or it began anew
    held = "held"  # kept by the allocation for a later step


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A verifier's finding on one completion."""

    kind: VerdictKind
    score: float  # the reward before shaping; accuracy is `kind is correct`, never read from the score
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind.value, "score": self.score, "detail": self.detail}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Verdict:
        check_keys(data, {"kind", "score", "detail"}, "a verdict")
        score, detail = number(data["score"], "a verdict, score"), string(data["detail"], "a verdict, detail")
        return Verdict(kind=VerdictKind(data["kind"]), score=score, detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How completions are drawn. Stored with every rollout and every evaluation number."""

    temperature: float = 1.0  # 0 is greedy
    top_p: float = 1.0
    max_completion_length: int = 256

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Sampling:
        check_keys(data, {"temperature", "top_p", "max_completion_length"}, "a rollout's sampling")
        return Sampling(
            temperature=number(data["temperature"], "temperature of a rollout", least=0),
            top_p=number(data["top_p"], "top_p of a rollout", least=0, most=1),
            max_completion_length=whole(data["max_completion_length"], "longest length of a rollout", least=1),
        )
