"""The embedded sampler: one forward pass per token over all unfinished rollouts.

* Each prompt is read once and its cache row repeated for the members of its group.
* Prompts of different length are padded on the left; positions count from each prompt's first token, or are what an
  image-text model says they are.
* Tokens that stand for pictures are no text and are left out of the distribution (`Policy.open`).
* The stored log-prob of a token is its log-prob under the very distribution it was drawn from: after temperature and
  nucleus cut, renormalised. At temperature 0 that distribution is a point, so the log-prob is 0.
* Each rollout draws from its own seeded stream, so what else is in the batch does not choose its tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from rollwise import seeds
from rollwise.errors import UserError
from rollwise.memory import let_go, out_of_memory
from rollwise.policy import Policy
from rollwise.records import IDS, LOGP, Image, Request, Rollout, Sampling, StopReason
from rollwise.sampling.cache import new_cache, reserve, select_rows
from rollwise.vision.reader import Inputs

COMPACT_AT = 0.75  # drop finished rows from the cache once this share or less is still running
STREAM_BLOCK = 64  # uniform numbers drawn ahead per rollout


@dataclass(slots=True, kw_only=True)
class _Row:
    """One rollout to be drawn."""

    request: int
    member: int
    seed: int


class TorchSampler:
    """Draws completions from a `Policy` on its own device. See the module's docstring for what is guaranteed."""

    def __init__(self, policy: Policy, *, max_prompt_length: int, max_rows: int) -> None:
        self.policy = policy
        self.max_prompt_length = max_prompt_length
        self.max_rows = max_rows

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, *, run_seed: int, step: int, purpose: str = "sample"
    ) -> list[list[Rollout]]:
        """The rollouts of each request, in order. Raises UserError for a prompt longer than the limit, before any
        token is drawn. The result depends on (run_seed, purpose, step, group uid, member) and the weights only.
        """
        prompts = [self.policy.encode(r.prompt, self.max_prompt_length) for r in requests]
        drawn: list[list[tuple[np.ndarray, np.ndarray, StopReason]]] = [[] for _ in requests]
        for chunk in _chunks(requests, prompts, self.max_rows):
            rows = [
                _Row(
                    request=i,
                    member=m,
                    seed=seeds.derive(run_seed, purpose, step, requests[i].prompt.group_uid, m),
                )
                for i, first, count in chunk
                for m in range(first, first + count)
            ]
            images = [r.prompt.images for r in requests]
            for row, result in zip(rows, self._fitting(prompts, images, rows, sampling), strict=True):
                drawn[row.request].append(result)
        texts = iter(self.policy.decode(ids for group in drawn for ids, _, _ in group))
        return [
            [
                Rollout(
                    group_uid=request.prompt.group_uid,
                    member=request.first_member + i,
                    prompt_ids=ids,
                    completion_ids=completion,
                    logprobs=logprobs,
                    sampling=sampling,
                    stop=stop,
                    text=next(texts),
                    birth_step=step,
                    images=request.prompt.images,
                )
                for i, (completion, logprobs, stop) in enumerate(group)
            ]
            for request, ids, group in zip(requests, prompts, drawn, strict=True)
        ]

    def draw(
        self,
        prompts: Sequence[np.ndarray],
        row_seeds: Sequence[int],
        sampling: Sampling,
        images: Sequence[tuple[Image, ...]] | None = None,
    ) -> list[tuple[np.ndarray, np.ndarray, StopReason]]:
        """Completion ids, log-probs and stop reason for each of `prompts` (token ids, with their `images`), each from
        its own seed. Equal prompts are read once."""
        shown: list[tuple[Image, ...]] = list(images) if images is not None else [()] * len(prompts)
        known: dict[tuple[bytes, tuple[str, ...]], int] = {}
        place = [
            known.setdefault((p.tobytes(), tuple(i.sha256 for i in s)), at)
            for at, (p, s) in enumerate(zip(prompts, shown, strict=True))
        ]
        order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), place[i], i))
        out: dict[int, tuple[np.ndarray, np.ndarray, StopReason]] = {}
        for start in range(0, len(order), self.max_rows):
            part = order[start : start + self.max_rows]
            rows = [_Row(request=place[i], member=0, seed=row_seeds[i]) for i in part]
            out.update(zip(part, self._fitting(list(prompts), shown, rows, sampling), strict=True))
        return [out[i] for i in range(len(prompts))]

    def _fitting(
        self, prompts: list[np.ndarray], images: list[tuple[Image, ...]], rows: list[_Row], sampling: Sampling
    ) -> list[tuple[np.ndarray, np.ndarray, StopReason]]:
        """As `_draw`; rows that do not fit in memory at once are drawn in two parts: they never meet."""
        try:
            return self._draw(prompts, images, rows, sampling)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
        if len(rows) == 1:
            raise UserError(
                "sampler: out of memory with a single rollout; set sampling.max_completion_length lower, or take a "
                "smaller model"
            )
        let_go()  # the error, and with it the tensors of the attempt, is gone by now
        half = len(rows) // 2
        return [
            *self._fitting(prompts, images, rows[:half], sampling),
            *self._fitting(prompts, images, rows[half:], sampling),
        ]

    @torch.no_grad()
    def _draw(
        self, prompts: list[np.ndarray], images: list[tuple[Image, ...]], rows: list[_Row], sampling: Sampling
    ) -> list[tuple[np.ndarray, np.ndarray, StopReason]]:
        """Completion ids, log-probs and stop reason of each row."""
        device, eos = self.policy.device, torch.tensor(self.policy.eos_ids, device=self.policy.device)
        limit = sampling.max_completion_length
        state = _Decoder(self.policy, prompts, images, [r.request for r in rows], limit)
        ids = torch.zeros((len(rows), limit), dtype=torch.int32, device=device)
        logp = torch.zeros((len(rows), limit), dtype=torch.float32, device=device)
        length = torch.full((len(rows),), limit, dtype=torch.long, device=device)
        ended = torch.zeros(len(rows), dtype=torch.bool, device=device)
        running = torch.arange(len(rows), device=device)  # row number of each row still in the cache
        streams = _Streams([r.seed for r in rows])
        for t in range(limit):
            token, token_logp = choose(state.logits, streams.uniform(t, running), sampling)
            ids[running, t] = token.int()  # a finished row still in the cache writes past its own end
            logp[running, t] = token_logp
            now = torch.isin(token, eos) & ~ended[running]
            length[running[now]] = t + 1
            ended[running[now]] = True
            alive = ~ended[running]
            left = int(alive.sum())
            if left == 0 or t + 1 == limit:
                break
            if left <= COMPACT_AT * len(running):
                keep = alive.nonzero()[:, 0]
                running, token = running[keep], token[keep]
                state.keep(keep)
            state.advance(token)
        return [
            (
                i[:n].astype(IDS),
                lp[:n].astype(LOGP),
                StopReason.eos if e else StopReason.length,
            )
            for i, lp, n, e in zip(ids.cpu().numpy(), logp.cpu().numpy(), length.tolist(), ended.tolist(), strict=True)
        ]


class _Decoder:
    """The model's side of decoding: cache, mask and positions kept in step with the rows."""

    def __init__(
        self,
        policy: Policy,
        prompts: list[np.ndarray],
        images: list[tuple[Image, ...]],
        requests: list[int],
        limit: int,
    ) -> None:
        self.policy = policy
        device = policy.device
        distinct = list(dict.fromkeys(requests))
        width = max(len(prompts[i]) for i in distinct)
        ids = np.full((len(distinct), width), policy.pad_id, dtype=np.int64)
        pad = np.array([width - len(prompts[i]) for i in distinct])
        each = [policy.positions(prompts[i], images[i]) for i in distinct]
        position = np.zeros((len(each[0]), *ids.shape), dtype=np.int64)
        for row, i in enumerate(distinct):
            ids[row, pad[row] :] = prompts[i]
            position[:, row, pad[row] :] = each[row]
        real = torch.from_numpy(np.arange(width)[None] >= pad[:, None]).to(device)
        self.padded = bool(pad.any())
        self.cache = new_cache(policy.model.config)
        self.logits = self._forward(
            torch.from_numpy(ids).to(device),
            real.long() if self.padded else None,
            torch.from_numpy(position[0] if len(position) == 1 else position).to(device),
            policy.pixels([images[i] for i in distinct]),
        )
        place = {i: row for row, i in enumerate(distinct)}
        repeat = torch.tensor([place[i] for i in requests], device=device)
        reserve(self.cache, min(limit, 256))
        select_rows(self.cache, repeat)
        self.logits = self.logits[repeat]
        self.mask = torch.cat([real, real.new_ones((len(distinct), limit))], dim=1).long()[repeat]
        last = np.array([p.max() for p in each])  # the axes of a position go on together behind the prompt
        self.position = torch.from_numpy(last).to(device)[repeat, None]
        self.length = width

    def _forward(
        self, ids: torch.Tensor, mask: torch.Tensor | None, position: torch.Tensor, pixels: Inputs | None = None
    ) -> torch.Tensor:
        with self.policy.precision():
            out = self.policy.model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=position,
                use_cache=True,
                logits_to_keep=1,
                **{self.policy.cache_argument: self.cache},
                **(pixels or {}),
            )
        return self.policy.open(out.logits[:, -1].float())

    def keep(self, rows: torch.Tensor) -> None:
        """Drop all rows but these."""
        select_rows(self.cache, rows)
        self.mask = self.mask[rows]
        self.position = self.position[rows]

    def advance(self, token: torch.Tensor) -> None:
        """Feed one token per row; `logits` are then those of the next."""
        self.length += 1
        self.position = self.position + 1
        mask = self.mask[:, : self.length] if self.padded else None
        self.logits = self._forward(token[:, None], mask, self.position)


class _Streams:
    """Uniform numbers in [0, 1): one counter-based stream per rollout."""

    def __init__(self, row_seeds: list[int]) -> None:
        self.generators = [np.random.Generator(np.random.Philox(key=s)) for s in row_seeds]
        self.block = np.empty((len(row_seeds), STREAM_BLOCK))

    def uniform(self, t: int, rows: torch.Tensor) -> torch.Tensor:
        """The t-th number of each row's stream. `t` must count up by one from 0."""
        if t % STREAM_BLOCK == 0:
            for row in rows.tolist():
                self.block[row] = self.generators[row].random(STREAM_BLOCK)
        drawn = torch.from_numpy(self.block[rows.cpu().numpy(), t % STREAM_BLOCK])
        return drawn.float().to(rows.device) if rows.device.type == "mps" else drawn.to(rows.device)


def choose(logits: torch.Tensor, uniform: torch.Tensor, sampling: Sampling) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens [N] drawn from logits [N, V] by inverting the cumulative distribution, and their log-probs [N]."""
    if sampling.temperature == 0:
        token = logits.argmax(dim=-1)
        return token, torch.zeros_like(logits[:, 0])
    logp = torch.log_softmax(logits / sampling.temperature, dim=-1)
    if sampling.top_p < 1:
        logp = nucleus(logp, sampling.top_p)
    wide = torch.float32 if logits.device.type == "mps" else torch.float64  # Apple's devices have no float64
    cumulative = logp.exp().cumsum(dim=-1, dtype=wide)
    target = uniform.to(wide)[:, None] * cumulative[:, -1:]
    token = torch.searchsorted(cumulative, target, right=True)[:, 0].clamp_max(logits.shape[-1] - 1)
    return token, logp.gather(1, token[:, None])[:, 0]


def nucleus(logp: torch.Tensor, top_p: float) -> torch.Tensor:
    """Log-probs [N, V] cut to the smallest set of most likely tokens whose mass reaches `top_p`, renormalised."""
    ordered, index = logp.sort(dim=-1, descending=True)
    before = ordered.exp().cumsum(dim=-1) - ordered.exp()
    cut = torch.zeros_like(before, dtype=torch.bool).scatter(1, index, before >= top_p)
    kept = logp.masked_fill(cut, float("-inf"))
    return kept - kept.logsumexp(dim=-1, keepdim=True)


def _chunks(requests: Sequence[Request], prompts: list[np.ndarray], max_rows: int) -> list[list[tuple[int, int, int]]]:
    """Requests as (index, first member, count), sorted by prompt length to pad little, at most `max_rows` a chunk."""
    order = sorted(range(len(requests)), key=lambda i: (len(prompts[i]), i))
    chunks: list[list[tuple[int, int, int]]] = [[]]
    room = max_rows
    for i in order:
        first, count = requests[i].first_member, requests[i].count
        while count > 0:
            if room == 0:
                chunks.append([])
                room = max_rows
            take = min(count, room)
            chunks[-1].append((i, first, take))
            first, count, room = first + take, count - take, room - take
    return [c for c in chunks if c]
