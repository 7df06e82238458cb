"""The sampler against a plain forward pass, on several architectures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rollwise.errors import UserError
from rollwise.policy import Policy, load_policy, wrap
from rollwise.records import Prompt, Request, Rollout, Sampling, StopReason
from rollwise.sampling.torch_sampler import TorchSampler, choose, nucleus
from rollwise.starters import starter_path
from rollwise.tasks import make_task

BASE: dict[str, Any] = {
    "vocab_size": 24,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": [2, 5],
    "pad_token_id": 0,
}


class Letters:
    """A tokenizer of single characters: all the sampler needs of one."""

    pad_token_id: int | None = 0
    chat_template = None
    eos_token_id = 2

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [1] + [6 + ord(c) % 18 for c in text]}

    def batch_decode(self, rows: list[list[int]], **_: Any) -> list[str]:
        return [" ".join(map(str, r)) for r in rows]


def build(kind: str, **extra: Any) -> Policy:
    import transformers

    torch.manual_seed(0)
    settings = {**BASE, "num_key_value_heads": 2, **extra}
    if kind in ("Qwen3", "Gemma3"):
        settings["head_dim"] = 8
    if kind == "Mistral":
        settings["sliding_window"] = 6
    name = "Gemma3TextConfig" if kind == "Gemma3" else f"{kind}Config"
    if kind == "Gemma3":
        settings |= {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, name)(**settings))
    # Random weights of the usual size give an almost uniform distribution; larger ones make errors visible.
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(3.0)
    return wrap(model, Letters())


def requests(counts: list[int] | None = None) -> list[Request]:
    """Prompts of many lengths."""
    counts = counts or [4] * 7
    return [
        Request(prompt=Prompt(uid=f"p{i}", text="0123456789abcdef"[: 1 + 2 * i]), count=c) for i, c in enumerate(counts)
    ]


def sampler(policy: Policy, max_rows: int = 64) -> TorchSampler:
    return TorchSampler(policy, max_prompt_length=40, max_rows=max_rows)


def exact(policy: Policy) -> Policy:
    """In double precision, where what differs is an error: in single precision these models, of three times the usual
    weights, move by 1e-6 to 1e-5 with the processor's kernels alone. Stored log-probs are in single precision."""
    policy.model.double()
    return policy


def plain_logprobs(policy: Policy, rollout: Rollout, temperature: float) -> np.ndarray:
    ids = torch.from_numpy(np.concatenate([rollout.prompt_ids, rollout.completion_ids])).long()[None]
    with torch.no_grad():
        logits = policy.model(input_ids=ids).logits[0] / temperature
    start = len(rollout.prompt_ids)
    picked = logits.log_softmax(-1)[start - 1 : -1].gather(1, ids[0, start:, None])
    return picked[:, 0].numpy()  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", ["Qwen2", "Qwen3", "Llama", "Mistral", "Gemma3"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_stored_logprobs_are_those_of_a_plain_forward_pass(kind: str, temperature: float) -> None:
    policy = exact(build(kind))
    groups = sampler(policy).generate(
        requests(), Sampling(temperature=temperature, max_completion_length=12), run_seed=0, step=3
    )
    lengths = set()
    for rollout in (r for g in groups for r in g):
        np.testing.assert_allclose(rollout.logprobs, plain_logprobs(policy, rollout, temperature), atol=1e-6, rtol=0)
        lengths.add(rollout.length)
    assert len(lengths) > 3, "completions of one length only would not exercise the dropping of finished rows"


def test_a_wrong_cache_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above fails when a row's cache is swapped with its neighbour's."""
    policy = build("Qwen3")
    import rollwise.sampling.cache as cache_module
    import rollwise.sampling.torch_sampler as module

    original = cache_module.select_rows
    monkeypatch.setattr(module, "select_rows", lambda cache, rows: original(cache, rows.roll(1)))
    groups = sampler(policy).generate(requests(), Sampling(max_completion_length=12), run_seed=0, step=0)
    worst = max(
        float(np.abs(r.logprobs[1:] - plain_logprobs(policy, r, 1.0)[1:]).max())
        for g in groups
        for r in g
        if r.length > 1
    )
    assert worst > 1e-2


def test_members_differ_and_do_not_depend_on_the_batch() -> None:
    policy = build("Qwen3")
    how = Sampling(max_completion_length=12)
    together = sampler(policy).generate(requests(), how, run_seed=1, step=5)
    again = sampler(policy).generate(requests(), how, run_seed=1, step=5)
    chunked = sampler(policy, max_rows=3).generate(requests(), how, run_seed=1, step=5)
    alone = [sampler(policy).generate([r], how, run_seed=1, step=5)[0] for r in requests()]
    ids = [[r.completion_ids.tolist() for r in g] for g in together]
    for other in (again, chunked, alone):
        assert [[r.completion_ids.tolist() for r in g] for g in other] == ids
    assert all(len({tuple(c) for c in g}) > 1 for g in ids)
    other_step = sampler(policy).generate(requests(), how, run_seed=1, step=6)
    assert [[r.completion_ids.tolist() for r in g] for g in other_step] != ids


def test_later_members_of_a_group_continue_its_numbering() -> None:
    policy = build("Qwen3")
    how = Sampling(max_completion_length=12)
    whole = sampler(policy).generate([Request(prompt=Prompt(uid="p", text="abc"), count=6)], how, run_seed=0, step=1)[0]
    tail = sampler(policy).generate(
        [Request(prompt=Prompt(uid="p", text="abc"), count=2, first_member=4)], how, run_seed=0, step=1
    )[0]
    assert [r.member for r in tail] == [4, 5]
    assert [r.completion_ids.tolist() for r in tail] == [r.completion_ids.tolist() for r in whole[4:]]


def test_each_prompt_is_read_once() -> None:
    policy = build("Qwen3")
    seen: list[tuple[int, int]] = []
    policy.model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    sampler(policy, max_rows=100).generate(requests([8] * 5), Sampling(max_completion_length=6), run_seed=0, step=0)
    assert seen[0][0] == 5, "one row per prompt in the first pass"
    assert all(width == 1 for _, width in seen[1:]), "one token per row afterwards"


@pytest.mark.parametrize("pad", [0, 2, None])
def test_every_end_token_ends_and_is_kept(pad: int | None) -> None:
    policy = build("Qwen2")
    policy.pad_id = 2 if pad is None else pad
    groups = sampler(policy).generate(requests([12] * 7), Sampling(max_completion_length=10), run_seed=0, step=0)
    ends = set()
    for r in (r for g in groups for r in g):
        inner, last = r.completion_ids[:-1].tolist(), int(r.completion_ids[-1])
        assert not {2, 5} & set(inner)
        assert len(r.logprobs) == r.length <= 10
        if r.stop is StopReason.eos:
            ends.add(last)
            assert last in (2, 5)
        else:
            assert r.length == 10 and last not in (2, 5)
    assert ends == {2, 5}


def test_top_p_logprobs_are_those_of_the_cut_distribution() -> None:
    policy = build("Llama")
    groups = sampler(policy).generate(requests(), Sampling(top_p=0.6, max_completion_length=8), run_seed=0, step=0)
    for rollout in (r for g in groups for r in g):
        assert rollout.sampling.top_p == 0.6
        ids = torch.from_numpy(np.concatenate([rollout.prompt_ids, rollout.completion_ids])).long()[None]
        with torch.no_grad():
            probs = policy.model(input_ids=ids).logits[0].float().softmax(-1).double().numpy()
        for t, token in enumerate(rollout.completion_ids):
            p = probs[len(rollout.prompt_ids) - 1 + t]
            order = np.argsort(-p)
            keep = order[: int((np.cumsum(p[order]) < 0.6).sum()) + 1]
            assert token in keep
            assert rollout.logprobs[t] == pytest.approx(np.log(p[token] / p[keep].sum()), abs=2e-5)


def test_greedy_takes_the_most_likely_token() -> None:
    policy = build("Qwen3")
    groups = sampler(policy).generate(
        requests([2] * 7), Sampling(temperature=0, max_completion_length=8), run_seed=0, step=0
    )
    for a, b in groups:
        assert a.completion_ids.tolist() == b.completion_ids.tolist()
        ids = torch.from_numpy(np.concatenate([a.prompt_ids, a.completion_ids])).long()[None]
        with torch.no_grad():
            best = policy.model(input_ids=ids).logits[0].argmax(-1)[len(a.prompt_ids) - 1 : -1]
        assert best.tolist() == a.completion_ids.tolist()
        assert a.logprobs.tolist() == [0.0] * a.length


def test_choice_follows_the_distribution() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.2, 0.0, 0.3]])).repeat(4000, 1)
    uniform = (torch.arange(4000) + 0.5) / 4000
    token, logp = choose(logits, uniform, Sampling())
    share = torch.bincount(token, minlength=4) / 4000
    assert share.tolist() == pytest.approx([0.5, 0.2, 0.0, 0.3], abs=2e-3)
    assert logp.exp().tolist() == pytest.approx([[0.5, 0.2, 0.0, 0.3][t] for t in token.tolist()], abs=1e-6)


@pytest.mark.parametrize("top_p,kept", [(0.49, 1), (0.5, 1), (0.51, 2), (0.81, 3), (1.0, 3)])
def test_nucleus_keeps_the_smallest_sufficient_set(top_p: float, kept: int) -> None:
    logp = torch.log(torch.tensor([[0.2, 0.5, 0.3, 0.0]], dtype=torch.float64))
    out = nucleus(logp, top_p)
    assert int((out > -np.inf).sum()) == kept
    assert float(out.exp().sum()) == pytest.approx(1.0)


def test_a_prompt_over_the_limit_is_one_line() -> None:
    policy = build("Qwen2")
    tight = TorchSampler(policy, max_prompt_length=5, max_rows=8)
    with pytest.raises(UserError, match=r"prompt p2 has 6 tokens; sampling.max_prompt_length allows 1 to 5"):
        tight.generate(requests(), Sampling(max_completion_length=4), run_seed=0, step=0)


@pytest.mark.parametrize("task", ["sort_digits", "chain_sum", "countdown"])
def test_stored_logprobs_of_a_trained_model_in_single_precision(task: str) -> None:
    policy = load_policy(str(starter_path(task)))
    prompts = [make_task(task, {}, starter=True).train[i] for i in range(8)]
    asked = [Request(prompt=prompt, count=4) for prompt in prompts]
    for group in sampler(policy).generate(asked, Sampling(max_completion_length=24), run_seed=0, step=3):
        for rollout in group:
            np.testing.assert_allclose(rollout.logprobs, plain_logprobs(policy, rollout, 1.0), atol=1e-5, rtol=0)


def test_long_completions_outgrow_the_first_cache_block() -> None:
    policy = exact(build("Qwen3", max_position_embeddings=1024))
    policy.eos_ids = (999,)  # never drawn, so that every row runs on
    group = sampler(policy).generate(
        [Request(prompt=Prompt(uid="p", text="abcdef"), count=2)],
        Sampling(max_completion_length=300),
        run_seed=0,
        step=0,
    )[0]
    for rollout in group:
        assert rollout.length == 300 and rollout.stop is StopReason.length
        np.testing.assert_allclose(rollout.logprobs, plain_logprobs(policy, rollout, 1.0), atol=1e-6, rtol=0)
