"""Prompts with pictures on a verl worker: the same log-probs and the same update as on the local engine."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from rollwise.config import LearnerConfig, ObjectiveConfig
from rollwise.learner.base import Learned
from rollwise.learner.learner import Learner
from rollwise.policy import Policy, load_policy, load_reader
from rollwise.records import Batch, Credit, Request, Role, Row, Sampling, Verdict, VerdictKind
from rollwise.sampling.torch_sampler import TorchSampler
from tests.models import tiny_vision_model
from tests.verl.workers import Group, alone, worker
from tests.vision import mixed, picture

if TYPE_CHECKING:
    from rollwise.backends.verl.cpu.rollout import CpuServer

LEARNER = LearnerConfig(lr=1e-3)
WRONG = Verdict(kind=VerdictKind.wrong, score=0.0)
PICTURED = [p for p in mixed() if p.images]


@dataclass(frozen=True)
class Here:
    """What the local engine says, found before verl changes the model's class for its own workers."""

    path: str
    reader: Policy
    rows: tuple[Row, ...]
    learned: Learned
    ids: list[np.ndarray]
    drawn: list[Any]
    server: CpuServer


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    alone()
    from rollwise.backends.verl.cpu.rollout import CpuServer

    path = str(tiny_vision_model(tmp_path_factory.mktemp("vision") / "model"))
    policy, rows = load_policy(path), _rows(path)
    ids = [policy.encode(p, 4096) for p in PICTURED]
    sampler = TorchSampler(policy, max_prompt_length=4096, max_rows=64)
    sampling, images = Sampling(max_completion_length=8), [p.images for p in PICTURED]
    drawn = sampler.draw(ids, list(range(len(ids))), sampling, images)
    server = CpuServer(SimpleNamespace(response_length=8, prompt_length=4096), path)
    policy.closed = None  # verl's workers do not take the tokens that stand for pictures out of the distribution
    learner = Learner(policy, LEARNER, ObjectiveConfig(), seed=0, max_completion_length=8)
    learned = learner.update(Batch(rows=rows, step=1))
    yield Here(path, load_reader(path), rows, learned, ids, drawn, server)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _rows(path: str) -> tuple[Row, ...]:
    """Groups of two, with no, one and several pictures."""
    sampler = TorchSampler(load_policy(path), max_prompt_length=4096, max_rows=64)
    requests = [Request(prompt=p, count=2) for p in mixed()]
    drawn = sampler.generate(requests, Sampling(max_completion_length=8), run_seed=0, step=1)
    return tuple(
        Row(
            rollout=dataclasses.replace(r, verdict=WRONG, reward=0.0),
            credit=Credit(advantage=1.0 if m else -1.0),
            role=Role.fresh,
            unit=unit,
        )
        for unit, members in enumerate(drawn)
        for m, r in enumerate(members)
    )


def test_a_reader_encodes_as_the_model_does(here: Here) -> None:
    assert next(here.reader.model.parameters()).device.type == "meta"
    for prompt, ids in zip(PICTURED, here.ids, strict=True):
        np.testing.assert_array_equal(here.reader.encode(prompt, 4096), ids)


def test_the_servers_are_shown_the_pictures(here: Here) -> None:
    """An order carries the pictures' bytes, and the server on the CPU draws what the embedded sampler does."""
    from rollwise.backends.verl.rollouts import Order, Orders

    class Client:
        async def generate(self, request_id: str, **order: Any) -> Any:
            return await here.server.generate(request_id, **order)

    orders = [
        Order(prompt_ids=i.tolist(), seed=n, images=tuple(x.data for x in p.images))
        for n, (i, p) in enumerate(zip(here.ids, PICTURED, strict=True))
    ]
    params = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 8, "logprobs": True}
    drawn = asyncio.run(Orders(Client()).complete(orders, params, True))
    for d, (tokens, logprobs, _) in zip(drawn, here.drawn, strict=True):
        assert d.ids == tokens.tolist()
        np.testing.assert_allclose(d.logprobs, logprobs, atol=1e-4)


def test_pictures_reach_the_worker(here: Here) -> None:
    from rollwise.backends.verl.learner import VerlLearner, Workers
    from rollwise.backends.verl.trainer import extra_inputs

    group = Group(worker(here.path, lr=1e-3, tokens=8192))
    workers = Workers(group, "actor", 1.0, partial(extra_inputs, here.reader))
    there = VerlLearner(workers, LEARNER, ObjectiveConfig(), seed=0, max_completion_length=8)
    learned = there.update(Batch(rows=here.rows, step=1))
    for x, y in zip(here.learned.prox, learned.prox, strict=True):
        assert x is not None and y is not None
        np.testing.assert_allclose(x, y, atol=1e-4)
    for key in ("loss", "grad_norm"):
        assert learned.metrics[key] == pytest.approx(here.learned.metrics[key], abs=1e-4, rel=1e-4)


def test_with_other_pictures_a_row_says_something_else(here: Here) -> None:
    from rollwise.backends.verl.learner import Workers
    from rollwise.backends.verl.trainer import extra_inputs

    rows = [r.rollout for r in here.rows if len(set(r.rollout.images)) == 1]
    group = Group(worker(here.path, lr=1e-3, tokens=8192))
    seen = Workers(group, "actor", 1.0, partial(extra_inputs, here.reader))
    right = seen.infer(group.compute_log_prob, rows, "log_probs")
    other = [dataclasses.replace(r, images=(picture(99, 60, 90),)) for r in rows]
    wrong = seen.infer(group.compute_log_prob, other, "log_probs")
    assert rows and all(np.abs(x - y).max() > 1e-6 for x, y in zip(right, wrong, strict=True))
