"""The bundled start models: ordinary folders that load, render and ask what their task asks, and can be built again."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rollwise.config import build, merge
from rollwise.errors import UserError
from rollwise.records import StopReason
from rollwise.starters import starter_card, starter_names, starter_path, starter_recipe
from rollwise.tasks import make_task, task_names

NAMES = ["chain_sum", "countdown", "sort_digits"]
SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "build_starter.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """scripts/build_starter.py as a module; one thread."""
    spec = importlib.util.spec_from_file_location("build_starter", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["build_starter"] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    module.torch.set_num_threads(1)
    return module


def load(name: str) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = starter_path(name)
    return AutoModelForCausalLM.from_pretrained(path), AutoTokenizer.from_pretrained(path)


def bare_task(name: str) -> Any:
    return make_task(name, starter_recipe(name).get("task_args", {}), starter=True)


def test_names() -> None:
    assert starter_names() == NAMES
    assert set(NAMES) <= set(task_names())


def test_no_starter_is_an_error_that_says_what_to_do() -> None:
    for name in ("sort_digit", "../tasks", ""):
        with pytest.raises(UserError, match="has no starter model; set model to"):
            starter_path(name)


@pytest.mark.parametrize("name", NAMES)
def test_recipe_is_a_legal_config_and_leaves_the_method_alone(name: str) -> None:
    recipe = starter_recipe(name)
    assert not {"method", "objective", "advantage", "replay", "allocation", "curriculum", "budget"} & set(recipe)
    config = build(merge(recipe, {"task": name, "budget": {"steps": 1}}))
    assert (config.prompts_per_step, config.group_size, config.sampling.max_completion_length) == (32, 8, 22)
    assert make_task(name, config.task_args, starter=True).name == name


@pytest.mark.parametrize("name", NAMES)
def test_card(name: str, script: ModuleType) -> None:
    card = starter_card(name)
    plan = script.PLANS[name]
    assert card["task"] == name and card["seed"] == plan.seed and card["steps"] == plan.stop
    assert card["task_args"] == plan.task_args == starter_recipe(name).get("task_args", {})
    assert card["torch"].startswith("2.") and card["transformers"].startswith("5.")
    start = card["start"]
    assert start["prompts"] == 1000 and start["samples"] == 8
    assert 0.2 < start["accuracy"] < 0.65
    assert start["pass@8"] > start["accuracy"] + 0.1  # there is something to find
    sizes = [start["by_size"][s] for s in sorted(start["by_size"], key=int)]
    assert sizes[0] > sizes[-1]


def test_folders_are_small_and_plain() -> None:
    files = [p for name in NAMES for p in starter_path(name).iterdir()]
    assert sum(p.stat().st_size for p in files) < 5e6
    assert {p.suffix for p in files} <= {".json", ".jinja", ".yaml", ".safetensors"}


@pytest.mark.parametrize("name", NAMES)
def test_tokenizer(name: str, script: ModuleType) -> None:
    _, tok = load(name)
    task = bare_task(name)
    assert len(tok) == 24
    assert (tok.pad_token_id, tok.bos_token_id, tok.eos_token_id) == (0, 1, 2)
    for index in range(50):
        prompt = task.train[index]
        text = script.content(prompt)
        ids = tok.apply_chat_template(prompt.messages, add_generation_prompt=True, tokenize=True, return_dict=False)
        assert ids == [1, *script.encode(text)]
        assert len(ids) == len(text) + 1 <= starter_recipe(name)["sampling"]["max_prompt_length"]
        assert tok.decode(ids, skip_special_tokens=True) == text
    every = script.CHARS
    assert tok.decode(tok(every, add_special_tokens=False)["input_ids"]) == every


@pytest.mark.parametrize("name", NAMES)
def test_model(name: str, script: ModuleType) -> None:
    """Loads as what it says, in fp32, and has about the accuracy its card states."""
    model, _ = load(name)
    torch = script.torch
    torch.set_num_threads(1)
    card = starter_card(name)
    assert type(model).__name__ == "Qwen3ForCausalLM"
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert sum(p.numel() for p in model.parameters()) == card["parameters"]
    assert model.generation_config.eos_token_id == 2
    found = script.measure(model, bare_task(name), script.PLANS[name], prompts=200, samples=2)
    assert abs(found["accuracy"] - card["start"]["accuracy"]) < 0.12
    assert found["pass@2"] >= found["accuracy"]


def test_sort_digits_has_the_published_size() -> None:
    assert starter_card("sort_digits")["parameters"] == 108_416


@pytest.mark.parametrize("name", NAMES)
def test_building_is_deterministic(name: str, script: ModuleType) -> None:
    """A few steps twice give the same bits; another seed gives others. The loss falls from that of a blind guess."""
    torch = script.torch
    plan = script.PLANS[name]
    task = bare_task(name)

    def run(seed: int) -> tuple[dict[str, Any], float]:
        quick = replace(plan, batch=8, seed=seed)
        model = script.new_model(quick)
        return model.state_dict(), script.train(model, task, quick, 4)

    (one, loss), (two, again), (other, _) = run(5), run(5), run(6)
    assert loss == again and 0 < loss < 4
    assert all(torch.equal(one[k], two[k]) for k in one)
    assert not all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("name", NAMES)
def test_warm_up_sees_training_questions_only(name: str, script: ModuleType) -> None:
    task = bare_task(name)
    source = script.demonstrations(task, script.PLANS[name], script.Random(0))
    heldout = {tuple(script.encode(script.content(task.heldout[i]))) for i in range(2000)}
    for _ in range(3000):
        prompt, answer = next(source)
        assert prompt[0] == 1 and answer[-1] == 2
        assert tuple(prompt[1:]) not in heldout


def test_sampling_matches_generate(script: ModuleType) -> None:
    """The script's own batched greedy loop and the library's generation agree."""
    model, tok = load("sort_digits")
    texts = ["5291=", "73=", "0000111=", "98765432="]
    ours = script.sample(model, texts, 22, True, 0)
    for text, (mine, stop) in zip(texts, ours, strict=True):
        ids = script.torch.tensor([[1, *script.encode(text)]])
        out = model.generate(ids, attention_mask=ids * 0 + 1, do_sample=False, max_new_tokens=22)[0, ids.shape[1] :]
        assert tok.decode(out, skip_special_tokens=True) == mine
        assert (out[-1] == 2) == (stop is StopReason.eos)


def test_whole_build_in_small(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder, written twice, is the same bit for bit and loads."""
    monkeypatch.setitem(script.PLANS, "sort_digits", replace(script.PLANS["sort_digits"], stop=3, batch=4))
    measure = script.measure
    monkeypatch.setattr(script, "measure", lambda model, task, plan: measure(model, task, plan, prompts=20, samples=2))
    for out in (tmp_path / "a", tmp_path / "b"):
        script.build("sort_digits", out)
    names = sorted(os.listdir(tmp_path / "a"))
    assert names == sorted(p.name for p in starter_path("sort_digits").iterdir())
    for file in names:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file
    card = json.loads((tmp_path / "a" / "starter.json").read_text())
    assert card["start"]["prompts"] == 20
