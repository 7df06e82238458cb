"""vLLM as the sampler: our side of the contract, against a stand-in for its public interface."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from rollwise import seeds
from rollwise.assemble import resolve
from rollwise.cli.main import main
from rollwise.config import build, merge, nest
from rollwise.config.schema import VllmConfig
from rollwise.errors import UserError
from rollwise.learner.loss import token_loss
from rollwise.parts import sampler_cap
from rollwise.policy import Policy, load_policy
from rollwise.records import Prompt, Request, Rollout, Sampling, StopReason
from rollwise.sampling.vllm_sampler import VllmSampler
from rollwise.starters import starter_path
from tests import fake_vllm
from tests.fake_vllm import engines, install
from tests.models import tiny_model, tiny_vision_model

SAMPLING = Sampling(temperature=0.8, max_completion_length=10)
Train = Callable[..., Any]


def starter() -> Policy:
    return load_policy(str(starter_path("sort_digits")))


def sampler(policy: Policy, version: Callable[[], int] = int, **settings: Any) -> VllmSampler:
    return VllmSampler(
        policy, VllmConfig(**settings), max_prompt_length=20, max_completion_length=20, max_rows=7, version=version
    )


def requests() -> list[Request]:
    def ask(text: str) -> Prompt:
        return Prompt(uid=text, messages=[{"role": "user", "content": text}])

    return [Request(prompt=ask("5291="), count=3), Request(prompt=ask("84="), count=2, first_member=4)]


def plain(policy: Policy, rollout: Rollout) -> np.ndarray:
    """Log-probs of the completion by a plain forward pass."""
    ids = torch.from_numpy(np.concatenate([rollout.prompt_ids, rollout.completion_ids])).long()[None]
    with torch.no_grad():
        logp = (policy.model(input_ids=ids).logits[0].float() / rollout.sampling.temperature).log_softmax(-1)
    start = len(rollout.prompt_ids)
    out: np.ndarray = logp[start - 1 : -1].gather(1, ids[0, start:, None])[:, 0].numpy()
    return out


def worst(policy: Policy, groups: list[list[Rollout]]) -> float:
    return max(float(np.abs(plain(policy, r) - r.logprobs).max()) for g in groups for r in g)


def shake(policy: Policy, by: float) -> None:
    torch.manual_seed(3)
    with torch.no_grad():
        for p in policy.model.parameters():
            p.add_(by * torch.randn_like(p))


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


def test_rollouts_are_those_of_the_contract() -> None:
    policy = starter()
    asked = requests()
    groups = sampler(policy).generate(asked, SAMPLING, run_seed=1, step=6)
    assert [[r.member for r in g] for g in groups] == [[0, 1, 2], [4, 5]]
    for request, group in zip(asked, groups, strict=True):
        for r in group:
            assert r.group_uid == request.prompt.group_uid and r.birth_step == 6 and r.sampling == SAMPLING
            assert r.prompt_ids is group[0].prompt_ids
            assert r.prompt_ids.tolist() == policy.encode(request.prompt, 20).tolist()
            assert r.completion_ids.dtype == np.int32 and r.logprobs.dtype == np.float32
            assert r.text == policy.decode([r.completion_ids])[0] and r.birth_logprobs is None
            ended = int(r.completion_ids[-1]) in policy.eos_ids
            assert r.stop is (StopReason.eos if ended else StopReason.length)
            assert ended or r.length == 10
    assert worst(policy, groups) < 1e-5


def test_each_member_has_its_own_derived_seed_and_the_engine_is_told_what_to_do() -> None:
    policy = starter()
    asked = requests()
    sampler(policy, gpu_memory_utilization=0.3, args={"kv_cache_memory_bytes": 9}).generate(
        asked, SAMPLING, run_seed=5, step=2, purpose="p"
    )
    (engine,) = engines
    assert engine.given["dtype"] == "float32" and engine.given["gpu_memory_utilization"] == 0.3
    assert engine.given["max_model_len"] == 40 and engine.given["max_num_seqs"] == 7
    assert engine.given["logprobs_mode"] == "processed_logprobs" and engine.given["kv_cache_memory_bytes"] == 9
    assert engine.given["hf_overrides"] == {"tie_word_embeddings": False}
    params = [p for _, p in engine.calls[-1]]
    members = [(r.prompt.group_uid, r.first_member + i) for r in asked for i in range(r.count)]
    assert [p.seed for p in params] == [seeds.derive(5, "p", 2, uid, m) % 2**63 for uid, m in members]
    assert len({p.seed for p in params}) == 5
    for p in params:
        assert (p.n, p.temperature, p.top_p, p.max_tokens, p.logprobs) == (1, 0.8, 1.0, 10, 0)
        assert p.ignore_eos and p.stop_token_ids == list(policy.eos_ids) and not p.detokenize


def test_equal_seeds_draw_alike_and_steps_differ() -> None:
    drawn, hot = sampler(starter()), dataclasses.replace(SAMPLING, temperature=3.0)

    def ids(step: int) -> list[list[int]]:
        groups = drawn.generate(requests(), hot, run_seed=1, step=step)
        return [r.completion_ids.tolist() for g in groups for r in g]

    assert ids(1) == ids(1) != ids(2)


def test_weights_go_over_before_the_draw_once_for_each_version() -> None:
    policy, version = starter(), [0]
    drawn = sampler(policy, lambda: version[0])

    def called() -> list[Any]:
        groups = drawn.generate(requests(), SAMPLING, run_seed=1, step=1)
        assert worst(policy, groups) < 1e-5
        out = ["draw" if isinstance(c, list) else c for c in engines[0].calls]
        engines[0].calls.clear()
        return out

    assert called() == ["reload", "reset", "draw", "draw"], "the first draw is the probe"
    assert called() == ["draw"]
    for _ in range(3):
        shake(policy, 0.05)
        version[0] += 1
        assert called() == ["reload", "reset", "draw"]


def test_without_the_transfer_the_log_probs_drift_away() -> None:
    policy = starter()
    drawn = sampler(policy)
    assert worst(policy, drawn.generate(requests(), SAMPLING, run_seed=1, step=1)) < 1e-5
    apart = []
    for _ in range(3):
        shake(policy, 0.002)
        apart.append(worst(policy, drawn.generate(requests(), SAMPLING, run_seed=1, step=1)))
    assert 1e-3 < apart[0] < apart[1] < apart[2]


def test_greedy_and_nucleus() -> None:
    policy = starter()
    drawn = sampler(policy)
    greedy = drawn.generate(requests(), dataclasses.replace(SAMPLING, temperature=0.0), run_seed=1, step=1)
    assert all(not r.logprobs.any() for g in greedy for r in g)
    assert len({tuple(r.completion_ids.tolist()) for r in greedy[0]}) == 1
    cut = drawn.generate(requests(), dataclasses.replace(SAMPLING, top_p=0.5), run_seed=1, step=1)
    assert all((r.logprobs >= plain(policy, r) - 1e-6).all() for g in cut for r in g), "renormalised over the nucleus"


def test_short_completions_leave_room_for_the_probe() -> None:
    policy = starter()
    short = VllmSampler(
        policy, VllmConfig(), max_prompt_length=7, max_completion_length=2, max_rows=4, version=int
    ).generate(requests(), dataclasses.replace(SAMPLING, max_completion_length=2), run_seed=1, step=1)
    assert worst(policy, short) < 1e-5 and {r.length for g in short for r in g} <= {1, 2}


@pytest.mark.parametrize("own_head", [True, False])
def test_a_tied_output_embedding_is_sent_where_the_engine_has_one(
    monkeypatch: pytest.MonkeyPatch, own_head: bool
) -> None:
    install(monkeypatch, own_head=own_head)
    if not own_head:  # vLLM's class for such a model has no parameter of that name
        original = fake_vllm.Engine.apply_model
        monkeypatch.setattr(fake_vllm.Engine, "apply_model", lambda self, f: original(self, lambda _: [False]))
    policy = starter()
    assert policy.model.get_output_embeddings().weight is policy.model.get_input_embeddings().weight
    drawn = sampler(policy)
    assert worst(policy, drawn.generate(requests(), SAMPLING, run_seed=1, step=1)) < 1e-5
    assert drawn.engine._left_out == (set() if own_head else {"lm_head.weight"})


def test_untied_weights_and_no_requests(tmp_path: Path) -> None:
    policy = load_policy(str(tiny_model(tmp_path, "Qwen2")))
    drawn = sampler(policy)
    assert drawn.generate([], SAMPLING, run_seed=1, step=1) == [] and engines[0].calls == []
    one = Request(prompt=Prompt(uid="one", text="5291="), count=2)
    assert worst(policy, drawn.generate([one], SAMPLING, run_seed=1, step=1)) < 1e-5
    assert engines[0].given["hf_overrides"] == {}


@pytest.mark.parametrize(
    "habits,words",
    [
        ({"loses": "q_proj"}, "from the trainer's on average: it computes another model; set sampling.engine=torch"),
        ({"bend": -0.9}, "from the trainer's on average"),
        ({"ends": "abort"}, "ended with 'abort'"),
        (
            {"fails": "no kernel\nfor head_dim=8"},
            "cannot run this model (no kernel for head_dim=8); set sampling.engine",
        ),
        ({"unknown": "q_proj"}, "does not take this model's weights (There is no module or parameter named"),
    ],
)
def test_an_engine_that_is_not_the_policy_is_refused(
    monkeypatch: pytest.MonkeyPatch, habits: dict[str, Any], words: str
) -> None:
    install(monkeypatch, **habits)
    with pytest.raises(UserError) as error:
        sampler(starter()).generate(requests(), SAMPLING, run_seed=1, step=1)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_token_without_log_prob_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = sampler(starter())
    original = drawn.engine.params
    monkeypatch.setattr(drawn.engine, "params", lambda **given: dataclasses.replace(original(**given), logprobs=None))
    with pytest.raises(UserError, match="a token without its log-prob"):
        drawn.generate(requests(), SAMPLING, run_seed=1, step=1)


def test_a_prompt_that_is_too_long_is_found_before_anything_is_drawn() -> None:
    drawn = sampler(starter())
    long = Request(prompt=Prompt(uid="l", text="1" * 30), count=1)
    with pytest.raises(UserError, match="max_prompt_length allows 1 to 20"):
        drawn.generate([*requests(), long], SAMPLING, run_seed=1, step=1)
    assert engines[0].calls == []


@pytest.mark.parametrize(
    "settings,words",
    [
        ({"args": {"tensor_parallel_size": 2}}, "tensor_parallel_size is 2; the engine lives in this process, on 1"),
        ({"args": {"dtype": "half"}}, "dtype follows from other settings; set sampling.vllm.dtype"),
        ({"args": {"load_format": "auto"}}, "load_format follows from other settings; leave it out"),
        (
            {"args": {"kv_cash": 1}},
            "does not start (",
        ),
    ],
)
def test_arguments_of_the_engine_that_cannot_be(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as error:
        sampler(starter(), **settings)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_models_and_packages_it_cannot_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="samples from text models only"):
        sampler(load_policy(str(tiny_vision_model(tmp_path))))
    with pytest.raises(UserError, match=r"does not start \(max_model_len \(600\) is greater"):
        VllmSampler(starter(), VllmConfig(), max_prompt_length=500, max_completion_length=100, max_rows=1, version=int)
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UserError, match=r"pip install 'rollwise\[vllm\]'"):
        sampler(starter())


def test_runs_through_the_loop_and_measures_the_mismatch(train: Train) -> None:
    few = {"sampling.engine": "vllm", "budget.steps": 3, "eval.prompts": 2}
    run = train("popo", few)
    assert max(run.metric("sampling/logp_diff_max")) < 1e-5
    for name in ("mean", "max"):
        assert run.metric(f"sampling/weight_{name}") == pytest.approx([1.0] * len(run.steps), abs=1e-4)
    assert run.metric("sampling/weight_truncated") == [0.0] * len(run.steps)
    again = train("popo", few, name="again")
    assert again.bytes == run.bytes and again.weights() == run.weights()
    off = train("popo", {**few, "sampling.importance_cap": None}, name="off")
    assert set(off.metric("sampling/weight_mean")) == {None}


def test_an_engine_that_is_off_is_corrected_for(monkeypatch: pytest.MonkeyPatch, train: Train) -> None:
    install(monkeypatch, bend=-0.25)
    few = {"sampling.engine": "vllm", "budget.steps": 2, "eval.prompts": 2}
    run = train("grpo", {**few, "sampling.importance_cap": 1.05})
    assert min(run.metric("sampling/logp_diff_mean")) > 0.01
    assert max(run.metric("sampling/weight_truncated")) > 0 and max(run.metric("sampling/weight_max")) > 1.05
    assert max(run.metric("sampling/weight_mean")) <= 1.05
    off = train("grpo", {**few, "sampling.importance_cap": None}, name="off")
    assert off.weights() != run.weights()


def test_the_torch_engine_has_no_such_weight(train: Train) -> None:
    run = train("grpo")
    assert set(run.metric("sampling/weight_mean")) == {None}


def test_the_weight_multiplies_the_surrogate_and_not_the_regularisers() -> None:
    objective = build({"budget": {"steps": 1}, "objective": {"kl_coef": 0.5}}).objective
    theta, sampled = torch.full((1, 2), -1.0), torch.tensor([[-1.4, -3.0]])
    known = partial(token_loss, objective, theta, theta, theta, torch.ones(1, 1), mask_RT=torch.ones(1, 2).bool())
    bare, _, kl = known(reference_RT=torch.full((1, 2), -1.5))
    loss, stats, _ = known(reference_RT=torch.full((1, 2), -1.5), sampled_RT=sampled, sampler_cap=2.0)
    assert kl is not None and stats.sampler_weight is not None
    weight = torch.tensor([[float(np.exp(0.4)), 2.0]])
    torch.testing.assert_close(stats.sampler_weight, weight)
    torch.testing.assert_close(loss, weight * (bare - 0.5 * kl) + 0.5 * kl)


def test_its_settings_are_read_under_it_only() -> None:
    def resolved(*given: tuple[str, Any]) -> Any:
        tree: dict[str, Any] = {"budget": {"steps": 1}}
        for name, value in given:
            tree = merge(tree, nest(name, value))
        return resolve([("recipe.yaml", tree)])

    engine = ("sampling.engine", "vllm")
    resolved(engine, ("sampling.importance_cap", 3.0), ("sampling.vllm.args", {"seed": 1}))
    for name, value in (("vllm.dtype", "bfloat16"), ("importance_cap", 3.0), ("vllm.args.seed", 1)):
        with pytest.raises(UserError, match=r"nothing reads it with sampling\.engine torch"):
            resolved((f"sampling.{name}", value))
    resolved(("backend", "verl"), ("sampling.importance_cap", 3.0))
    with pytest.raises(UserError, match=r"nothing reads it with sampling\.top_p"):
        resolved(engine, ("sampling.top_p", 0.9), ("sampling.importance_cap", 3.0))
    resolved(engine, ("sampling.top_p", 0.9))


def test_a_run_without_the_package_ends_in_one_line_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "vllm")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    out = tmp_path / "run"
    assert main(["train", "--set", "sampling.engine=vllm", "--set", "budget.steps=1", "--output", str(out)]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("rollwise: error: sampling.engine is vllm, which is not")
    assert not out.exists()


def test_an_evaluation_generates_with_the_engine_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--samples", "1", "--no-greedy", "--prompts", "4", "--set", "sampling.engine=vllm"]
    assert main(["eval", str(starter_path("sort_digits")), *small]) == 0
    assert "4 held-out prompts x 1" in capsys.readouterr().out and len(engines) == 1


def test_the_recipe_of_the_page_is_understood() -> None:
    page = (Path(__file__).parents[1] / "docs" / "engines.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"```yaml\n(.*?)```", page, re.S)
    config = resolve([("page", {**yaml.safe_load(recipe), "budget": {"steps": 1}})])
    assert config.sampling.engine == "vllm" and sampler_cap(config) == 2.0
    assert sampler_cap(resolve([("none", {"budget": {"steps": 1}})])) is None
