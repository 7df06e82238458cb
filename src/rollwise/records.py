"""The records that pass from room to room. Read this file first.

    Prompt -> Request -> Rollout (+ Verdict) -> Group -> Row / Batch -> StepRecord

Every record can be written to JSON and read back without loss (`to_json`, `from_json`). Token ids are the only truth:
nothing is decoded and encoded again. Masks are made from lengths, never from pad ids. The size of a group is a property
of that group.

Shape suffixes used in this package: `_T` completion tokens of one rollout, `_P` prompt tokens, `_G` members of a group,
`_R` rows of a micro-batch, `_V` vocabulary.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rollwise.image import Image as Image
from rollwise.kinds import Outcome as Outcome
from rollwise.kinds import Purpose as Purpose
from rollwise.kinds import Role as Role
from rollwise.kinds import Sampling as Sampling
from rollwise.kinds import StopReason as StopReason
from rollwise.kinds import Verdict as Verdict
from rollwise.kinds import VerdictKind as VerdictKind
from rollwise.state import check_keys, listed, number, odd, series, string, whole

IDS = np.int32
LOGP = np.float32


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One question. `uid` names the data set and row; `occurrence` counts the times the row was drawn.

    The content of a message is text, or a list of {"type": "text", "text": ...} and {"type": "image"}; the image parts
    take `images` in order.
    """

    uid: str
    messages: list[dict[str, Any]] | None = None  # for a chat template
    text: str | None = None  # used as it is, for base models; exactly one of the two is set
    images: tuple[Image, ...] = ()
    answer: Any = None  # what the verifier needs; JSON
    task: str = ""
    occurrence: int = 0
    row: int = -1  # its place in the data set it is drawn from
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def group_uid(self) -> str:
        """The identity of the group this draw will form: (data set, row, occurrence)."""
        return f"{self.uid}#{self.occurrence}"

    def to_json(self) -> dict[str, Any]:
        """`images` stands in it only where there are any, as base64."""
        rest = dataclasses.asdict(dataclasses.replace(self, images=()))
        rest.pop("images")
        return {**rest, "images": [i.to_json() for i in self.images]} if self.images else rest

    @staticmethod
    def from_json(data: dict[str, Any]) -> Prompt:
        images = listed(data.get("images", []), "a prompt, images")
        check_keys({**data, "images": images}, {f.name for f in dataclasses.fields(Prompt)}, "a prompt")
        if (data["messages"] is None) == (data["text"] is None):
            raise odd("a prompt", "messages or a text", data)
        for each in (data["meta"], *listed(data["messages"] or [], "a prompt, messages")):
            if type(each) is not dict:
                raise odd("a prompt", "objects as its meta and messages", each)
        json.dumps(data, allow_nan=False)  # what it raises for a NaN would else be raised by the next checkpoint
        return Prompt(
            uid=string(data["uid"], "a prompt, uid"),
            messages=data["messages"],
            text=None if data["text"] is None else string(data["text"], "a prompt, text"),
            images=tuple(Image.from_json(string(i, "a prompt, image")) for i in images),
            answer=data["answer"],
            task=string(data["task"], "a prompt, task"),
            occurrence=whole(data["occurrence"], "a prompt, occurrence"),
            row=whole(data["row"], "a prompt, row", least=-1),
            meta=data["meta"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An order to the sampler: `count` members of one group, numbered from `first_member`."""

    prompt: Prompt
    count: int
    first_member: int = 0
    purpose: Purpose = Purpose.whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One completion with everything needed to train on it later."""

    group_uid: str
    member: int
    prompt_ids: np.ndarray  # int32 [P]; members of a group share one array
    completion_ids: np.ndarray  # int32 [T], the end token included when one was drawn
    logprobs: np.ndarray  # float32 [T]: log-prob of each token under the distribution it was drawn from
    sampling: Sampling
    stop: StopReason
    text: str  # decoded for the verifier and for people; never encoded again
    birth_step: int
    verdict: Verdict | None = None
    reward: float = float("nan")  # the score after shaping: what feeds the advantage
    birth_logprobs: np.ndarray | None = None  # float32 [T]: the trainer's own log-probs at birth, once it has met it
    reference_logprobs: np.ndarray | None = None  # float32 [T]: the frozen reference's, where a KL term is used
    images: tuple[Image, ...] = ()  # the prompt's own, which `prompt_ids` has places for; in JSON they stand there only

    @property
    def key(self) -> tuple[str, int, int]:
        """Its identity. A curriculum that begins anew draws a prompt with the same group uid again, in a later step."""
        return self.group_uid, self.member, self.birth_step

    @property
    def scored(self) -> bool:
        """Whether the verdict may enter the group's statistics."""
        return self.verdict is not None and self.verdict.kind is not VerdictKind.infra_error

    @property
    def correct(self) -> bool:
        return self.verdict is not None and self.verdict.kind is VerdictKind.correct

    @property
    def behaviour_logprobs(self) -> np.ndarray:
        """Log-probs [T] under the policy that generated the rollout: the trainer's where it has met it at birth, so
        that differences between trainer and sampler stay out of the weights, else the sampler's."""
        return self.logprobs if self.birth_logprobs is None else self.birth_logprobs

    @property
    def length(self) -> int:
        """Completion tokens T."""
        return len(self.completion_ids)

    def to_json(self) -> dict[str, Any]:
        def listed(a: np.ndarray | None) -> list[float] | None:
            return None if a is None else a.tolist()

        return {
            "group_uid": self.group_uid,
            "member": self.member,
            "prompt_ids": self.prompt_ids.tolist(),
            "completion_ids": self.completion_ids.tolist(),
            "logprobs": listed(self.logprobs),
            "sampling": self.sampling.to_json(),
            "stop": self.stop.value,
            "text": self.text,
            "birth_step": self.birth_step,
            "verdict": None if self.verdict is None else self.verdict.to_json(),
            "reward": self.reward if math.isfinite(self.reward) else None,
            "birth_logprobs": listed(self.birth_logprobs),
            "reference_logprobs": listed(self.reference_logprobs),
        }

    @staticmethod
    def from_json(data: dict[str, Any], images: tuple[Image, ...] = ()) -> Rollout:
        def logp(name: str) -> np.ndarray | None:
            return None if data[name] is None else series(data[name], f"a rollout, {name}", LOGP)

        check_keys(data, {f.name for f in dataclasses.fields(Rollout)} - {"images"}, "a rollout")
        return Rollout(
            group_uid=string(data["group_uid"], "a rollout, group_uid"),
            member=whole(data["member"], "a rollout, member"),
            prompt_ids=series(data["prompt_ids"], "a rollout, prompt_ids", IDS),
            completion_ids=series(data["completion_ids"], "a rollout, completion_ids", IDS),
            logprobs=series(data["logprobs"], "a rollout, logprobs", LOGP),
            sampling=Sampling.from_json(data["sampling"]),
            stop=StopReason(data["stop"]),
            text=string(data["text"], "a rollout, text"),
            birth_step=whole(data["birth_step"], "a rollout, birth_step"),
            verdict=None if data["verdict"] is None else Verdict.from_json(data["verdict"]),
            reward=float("nan") if data["reward"] is None else number(data["reward"], "a rollout, reward"),
            birth_logprobs=logp("birth_logprobs"),
            reference_logprobs=logp("reference_logprobs"),
            images=images,
        ).sound()

    def sound(self) -> Rollout:
        """The rollout itself. Raises ValueError where its parts, each of its type, do not fit together."""
        of_tokens = (self.logprobs, self.birth_logprobs, self.reference_logprobs)
        known = [a for a in of_tokens if a is not None]
        faults = {
            "no prompt": not len(self.prompt_ids),
            "negative token ids": min(self.prompt_ids.min(initial=0), self.completion_ids.min(initial=0)) < 0,
            "no tokens": not self.length and self.stop is not StopReason.aborted,
            "more tokens than were allowed": self.length > self.sampling.max_completion_length,
            "other log-probs than tokens": any(len(a) != self.length for a in known),
            "log-probs that are none": not all(np.isfinite(a).all() and a.max(initial=0) < 1 for a in known),
            "a verdict and no reward": self.scored and not math.isfinite(self.reward),
        }
        if found := [fault for fault, there in faults.items() if there]:
            raise ValueError(f"state of a rollout: member {self.member} of {self.group_uid!r} has {found[0]}")
        return self


INFORMATIVE_TOL = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """All completions of one draw of one prompt."""

    uid: str
    prompt: Prompt
    rollouts: tuple[Rollout, ...]
    purpose: Purpose = Purpose.whole

    @property
    def size(self) -> int:
        return len(self.rollouts)

    @property
    def key(self) -> tuple[str, int]:
        """Its identity; see `Rollout.key`."""
        return self.uid, self.birth_step

    def remembering(self, birth: Sequence[np.ndarray | None], reference: Sequence[np.ndarray | None]) -> Group:
        """The group with the trainer's log-probs written into members that have none yet; never over stored ones."""
        return dataclasses.replace(
            self,
            rollouts=tuple(
                dataclasses.replace(
                    r,
                    birth_logprobs=b if r.birth_logprobs is None else r.birth_logprobs,
                    reference_logprobs=ref if r.reference_logprobs is None else r.reference_logprobs,
                )
                for r, b, ref in zip(self.rollouts, birth, reference, strict=True)
            ),
        )

    def scored_rewards(self) -> list[float]:
        return [r.reward for r in self.rollouts if r.scored]

    @property
    def informative(self) -> bool:
        """Reward variance above zero, tested as max - min > 1e-6.

        A standard deviation is the wrong test: in floating point that of `[0.1] * 6` is not zero.
        """
        rewards = self.scored_rewards()
        return len(rewards) > 1 and max(rewards) - min(rewards) > INFORMATIVE_TOL

    @property
    def pass_rate(self) -> float:
        """Share of scored members that are correct; NaN where none was scored."""
        scored = [r for r in self.rollouts if r.scored]
        return sum(r.correct for r in scored) / len(scored) if scored else float("nan")

    @property
    def dead_outcome(self) -> Outcome:
        """How a group without reward variance is counted: easy if every scored member is correct, else hard."""
        return Outcome.dropped_easy if self.pass_rate == 1 else Outcome.dropped_hard

    @property
    def tokens(self) -> int:
        return sum(r.length for r in self.rollouts)

    @property
    def birth_step(self) -> int:
        """Step in which the oldest member was generated."""
        return min(r.birth_step for r in self.rollouts)

    def to_json(self) -> dict[str, Any]:
        return {
            "uid": self.uid,
            "prompt": self.prompt.to_json(),
            "rollouts": [r.to_json() for r in self.rollouts],
            "purpose": self.purpose.value,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Group:
        check_keys(data, {"uid", "prompt", "rollouts", "purpose"}, "a group")
        prompt = Prompt.from_json(data["prompt"])
        rollouts = [Rollout.from_json(r, prompt.images) for r in listed(data["rollouts"], "a group, rollouts")]
        if any(not np.array_equal(r.prompt_ids, rollouts[0].prompt_ids) for r in rollouts):
            raise ValueError(f"state of a group: members of {data['uid']!r} have different prompts")
        return Group(
            uid=string(data["uid"], "a group, uid"),
            prompt=prompt,
            rollouts=tuple(dataclasses.replace(r, prompt_ids=rollouts[0].prompt_ids) for r in rollouts),
            purpose=Purpose(data["purpose"]),
        ).sound()

    def sound(self) -> Group:
        """The group itself. Raises ValueError where it has no member, one twice, or one of another group."""
        members = {r.member for r in self.rollouts if r.group_uid == self.uid}
        if not members or len(members) < self.size:
            raise ValueError(f"state of a group: {self.uid!r} has other members than its own")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What the allocation hands over at the end of a step's generation."""

    groups: tuple[Group, ...]  # to compose the batch from
    slots: int  # groups the batch is to hold, replay included
    wanted: int  # groups with variance a full batch has
    # Groups that go no further, and why. One that is held for several steps may be named in each of them.
    outcomes: tuple[tuple[Outcome, Group], ...] = ()
    note: str = ""  # what was done when a limit was reached; empty otherwise
    stop: str = ""  # why the run must end after this step; empty otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """What the advantage estimator says of one rollout."""

    advantage: float | np.ndarray  # one number, or float64 [T]
    returns: np.ndarray | None = None  # float64 [T], what a critic should predict
    values: np.ndarray | None = None  # float32 [T], what it predicted
    counts: bool = True  # False: left out of the loss and of its reduction
    cut: bool = False  # given advantage 0 for having been cut at max_completion_length

    @property
    def teaches(self) -> bool:
        """Whether the policy gradient of this rollout can differ from zero."""
        return bool(np.any(self.advantage))


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A seat in a batch: a whole group, or single rollouts of one. Members of a seat stay in one mini-batch."""

    group: Group
    role: Role
    age: int = 0  # steps since birth
    uses: int = 0  # times replayed before, this step not counted
    credits: tuple[Credit, ...] | None = None  # frozen at birth; None: to be estimated with this batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One rollout with its credit: what the learner trains on."""

    rollout: Rollout
    credit: Credit
    role: Role
    unit: int  # rows of one unit (a seat) stay in one mini-batch
    age: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The rows of one step, in order of their units."""

    rows: tuple[Row, ...]
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """Everything the report needs to know of one step. Holds no clock time, so equal runs write equal records."""

    step: int  # 1-based
    updates: int  # optimizer updates so far
    ledger: dict[str, Any]  # running totals, see ledger.py
    metrics: dict[str, float]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "event": "step",
            "step": self.step,
            "updates": self.updates,
            "ledger": self.ledger,
            "metrics": self.metrics,
            "notes": list(self.notes),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> StepRecord:
        return StepRecord(
            step=data["step"],
            updates=data["updates"],
            ledger=data["ledger"],
            metrics=data["metrics"],
            notes=tuple(data["notes"]),
        )


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; 0 for an empty sequence, so that metrics of an empty part read as 0."""
    return sum(values) / len(values) if values else 0.0
