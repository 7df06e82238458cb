"""Completions of rollout servers as rollouts: why they ended, and what a request is that a server gave up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rollwise.policy import load_reader
from rollwise.records import Request, Sampling, StopReason, VerdictKind
from rollwise.starters import starter_path
from rollwise.tasks import make_task
from rollwise.verify.scoring import form_groups

READER = load_reader(str(starter_path("sort_digits")))
TASK = make_task("sort_digits", {}, starter=True)
EOS = min(READER.eos_ids)
LIMIT = 6
FEW, ALL = [5, 6, 7], [5, 6, 7, 5, 6, 7]


def drawn(ids: list[int], said: str | None) -> Any:
    """The rollouts of a server that answers so."""
    from rollwise.backends.verl.rollouts import Drawn, VerlSampler

    class Manager:
        config = SimpleNamespace(name="vllm")

        def complete(self, orders: Any, sampling: Sampling) -> Any:
            return [Drawn(ids, [-0.5] * len(ids), said) for _ in orders]

    manager: Any = Manager()
    sampler = VerlSampler(READER, manager, max_prompt_length=64)
    request = Request(prompt=TASK.train[0], count=2)
    sampling = Sampling(temperature=1.0, max_completion_length=LIMIT)
    return request, sampler.generate([request], sampling, run_seed=0, step=1)


@pytest.mark.parametrize(
    "ids,said,stop",
    [
        ([*FEW, EOS], "completed", StopReason.eos),  # vLLM
        (ALL, "completed", StopReason.length),
        (FEW, "completed", StopReason.length),  # cut at the length of the model
        (FEW, "aborted", StopReason.aborted),
        ([], "aborted", StopReason.aborted),
        (ALL, "aborted", StopReason.length),  # nothing is missing
        ([*FEW, EOS], "stop", StopReason.eos),  # SGLang
        (FEW, "stop", StopReason.eos),  # at an end token that the model's folder does not name
        (FEW, "length", StopReason.length),
        (FEW, "abort", StopReason.aborted),
        ([EOS], "stop", StopReason.eos),
        ([], None, StopReason.length),
    ],
)
def test_why_a_completion_ended(ids: list[int], said: str | None, stop: StopReason) -> None:
    request, rollouts = drawn(ids, said)
    assert [r.stop for r in rollouts[0]] == [stop, stop] and rollouts[0][0].length == len(ids)
    (group,) = form_groups([request], rollouts, TASK.judge)
    kinds = {r.verdict.kind for r in group.rollouts if r.verdict}
    assert (kinds == {VerdictKind.infra_error}) == (stop is StopReason.aborted)


def test_a_request_that_was_given_up_takes_no_verdict_of_another() -> None:
    request, (members,) = drawn([*FEW, EOS], "stop")
    _, (given_up,) = drawn(FEW, "abort")
    mixed = [given_up[0], members[1]]
    asked: list[int] = []

    def judge(completions: Any) -> Any:
        asked.append(len(completions))
        return TASK.judge(completions)

    (group,) = form_groups([request], [mixed], judge)
    assert asked == [1] and [r.scored for r in group.rollouts] == [False, True]
    assert "gave the request up" in (group.rollouts[0].verdict.detail if group.rollouts[0].verdict else "")
