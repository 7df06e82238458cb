"""Settings: layers, errors that name the key, every key read by code."""

from __future__ import annotations

import ast
import dataclasses
import os
import typing
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rollwise.assemble import resolve
from rollwise.config import RunConfig, build, dump_yaml, expand_aliases, leaves, parse_override, read_yaml, to_tree
from rollwise.errors import UserError
from rollwise.methods import METHODS
from rollwise.starters import starter_names, starter_recipe

SRC = Path(__file__).parents[1] / "src" / "rollwise"
OK: dict[str, Any] = {"budget": {"steps": 1}}


def fails(tree: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as error:
        build({**OK, **tree}, "run.yaml")
    assert "\n" not in str(error.value)
    assert words in str(error.value)
    assert str(error.value).startswith("run.yaml")


@pytest.mark.parametrize(
    "tree,words",
    [
        ({"grup_size": 4}, "unknown key 'grup_size'; did you mean 'group_size'?"),
        ({"learner": {"learning_rat": 1}}, "unknown key 'learner.learning_rat'"),
        ({"learner": 3}, "'learner' is 3; it is a section of keys"),
        ({"group_size": "eight"}, "group_size is 'eight'; it is a whole number"),
        ({"group_size": 2.5}, "group_size is 2.5; it is a whole number"),
        ({"group_size": True}, "group_size is True; it is a whole number"),
        ({"group_size": None}, "group_size is None; it is a whole number"),
        ({"group_size": 0}, "group_size is 0; it must be above 0"),
        ({"group_size": 1}, "a group needs at least 2 rollouts"),
        ({"seed": -1}, "seed is -1; it must be at least 0"),
        ({"budget": {"rollouts": 0}}, "budget.rollouts is 0; it must be above 0"),
        ({"budget": {"steps": 0}}, "budget.steps is 0; it must be above 0"),
        ({"budget": {}}, "no budget; give one of budget.rollouts"),
        ({"budget": {"rollouts": 255}}, "budget.rollouts is 255; the first step needs 256"),
        ({"sampling": {"temperature": 0}}, "sampling.temperature is 0.0; it must be at least 0.001"),
        ({"sampling": {"top_p": 1.1}}, "sampling.top_p is 1.1; it must be at most 1"),
        ({"learner": {"lr": "fast"}}, "learner.lr is 'fast'; it is a number"),
        ({"learner": {"lr": float("nan")}}, "learner.lr is nan; a finite number"),
        ({"objective": {"kind": "ppo"}}, "objective.kind is 'ppo'; one of clipped, decoupled, behaviour"),
        ({"learner": {"schedule": "cosine"}}, "give learner.schedule_updates as well"),
        ({"learner": {"warmup_updates": 9, "schedule_updates": 9}}, "above learner.warmup_updates"),
        ({"replay": {"min_age": 5, "max_age": 4}}, "replay.max_age is 4; at least replay.min_age (5)"),
        ({"replay": {"capacity": 5, "capacity_batches": 4}}, "both set; keep one"),
        ({"allocation": {"kind": "dynamic", "on_limit": "replay"}}, "set replay.kind=recent"),
        ({"allocation": {"max_rollouts": 3}}, "allocation.max_rollouts is 3; at least group_size (8)"),
        ({"log": {"rollouts": "yes please"}}, "it is true or false"),
        ({"model": 7}, "model is 7; it is text"),
        ({"learner": {"beta1": 1.0}}, "learner.beta1 is 1.0; it must be below 1"),
        ({"objective": {"clip_high": 1e300}}, "it must be at most 1000000.0"),
        ({"sampling": {"max_completion_length": 10**9}}, "it must be at most 1048576"),
        ({"eval": {"samples": 10**23}}, "a number of at most 18 digits"),
        ({"seed": 10**400}, "a number of at most 18 digits"),
        ({"learner": {"lr": 10**400}}, "a number of at most 18 digits"),
    ],
)
def test_one_line_that_names_the_key(tree: dict[str, Any], words: str) -> None:
    fails(tree, words)


def test_scientific_notation_without_a_point_is_a_number() -> None:
    assert build({**OK, "learner": yaml.safe_load("{lr: 1e-5}")}).learner.lr == 1e-5
    assert build({**OK, "group_size": 4.0}).group_size == 4


def test_aliases_of_other_trainers() -> None:
    tree = expand_aliases({"num_generations": 4, "learning_rate": 1e-5, "epsilon_high": 0.3, "beta": 0.01}, "f")
    config = build({**OK, **tree})
    assert (config.group_size, config.learner.lr) == (4, 1e-5)
    assert (config.objective.clip_high, config.objective.kl_coef) == (0.3, 0.01)
    assert expand_aliases({"rollout": {"n": 16}}, "f") == {"group_size": 16}
    assert parse_override("rollout.n=16") == {"group_size": 16}
    assert expand_aliases({"data": {"train_batch_size": 16, "max_response_length": 99}}, "f") == {
        "prompts_per_step": 16,
        "sampling": {"max_completion_length": 99},
    }
    both = build({**OK, **expand_aliases({"epsilon": 0.1}, "f")}).objective
    assert (both.clip_low, both.clip_high) == (0.1, 0.1), "as there, one number bounds both sides"
    for tree in ({"epsilon": 0.1, "epsilon_high": 0.3}, {"epsilon_high": 0.3, "epsilon": 0.1}):
        apart = build({**OK, **expand_aliases(tree, "f")}).objective
        assert (apart.clip_low, apart.clip_high) == (0.1, 0.3)
    with pytest.raises(UserError, match="'group_size' is given twice"):
        expand_aliases({"num_generations": 4, "group_size": 8}, "f")


def test_an_alias_bomb_is_named_in_a_few_characters() -> None:
    bomb: list[Any] = ["x"] * 9
    for _ in range(30):
        bomb = [bomb] * 9
    with pytest.raises(UserError) as error:
        build({**OK, "seed": bomb})
    assert len(str(error.value)) < 120


@pytest.mark.parametrize(
    "text",
    [
        "learner.lr",
        "=3",
        "a.b={",
        "a.b=[1",
        "seed=!!int ''",
        "a=!!bool maybe",
        "a=!!timestamp x",
        "a=!!python/name:os.system",
    ],
)
def test_overrides_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UserError, match="--set"):
        parse_override(text)


@pytest.mark.parametrize(
    "content", ["[1, 2]", "a: [", "just text", "!!python/object/apply:os.system ['true']", "{" * 5000, "\x00"]
)
def test_files_that_are_no_recipe(tmp_path: Path, content: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(content)
    with pytest.raises(UserError) as error:
        read_yaml(path)
    assert "\n" not in str(error.value) and str(path) in str(error.value)


BOMB = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))


@pytest.mark.parametrize(
    "content,words",
    [
        (
            "seed: 1\nlearner: {lr: 1e-3, lr: 1e-4}\nbudget: {steps: 1}",
            " line 2: not valid YAML ('lr' stands there twice)",
        ),
        ("seed: 1\nseed: 1", " line 2: not valid YAML ('seed' stands there twice)"),
        ("task_args: &a {x: *a}", ": not valid YAML (more than 100,000 values)"),
        ("task_args:\n a0: &a0 [1]\n " + BOMB.replace("\n", "\n ").strip(), "(more than 100,000 values)"),
        ("x: " + "y" * 2**20, ": not valid YAML (more than 1,048,576 bytes)"),
    ],
)
def test_texts_that_say_a_thing_twice_or_grow_are_no_settings(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(content)
    with pytest.raises(UserError) as error:
        read_yaml(path)
    assert str(error.value).startswith(str(path)) and words in str(error.value)


def test_anchors_and_merged_mappings_are_settings(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("x: &x {lr: 1e-3, eps: 1}\ny: &y {<<: *x, eps: 2}\nz: {<<: *y, eps: 3}\nw: [*x, *y]")
    tree = read_yaml(path)
    assert tree["z"] == {"lr": "1e-3", "eps": 3} and tree["w"][1] == {"lr": "1e-3", "eps": 2}


def test_a_pipe_for_a_recipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "r.yaml")
    with pytest.raises(UserError, match="is no file"):
        read_yaml(tmp_path / "r.yaml")


def test_layers_and_their_order() -> None:
    config = resolve([("f", {"method": "popo", "budget": {"steps": 1}}), ("--set", {"learner": {"lr": 1e-3}})])
    assert config.learner.lr == 1e-3, "the user's"
    assert config.objective.kind == "decoupled", "the method's"
    assert config.learner.beta2 == 0.98, "the starter's"
    own = resolve([("f", {"method": "popo", "budget": {"steps": 1}, "model": "my/model"})])
    assert own.learner.beta2 == 0.999, "a starter's recipe is for that starter"
    varied = resolve([("f", {"method": "popo", "budget": {"steps": 1}, "objective": {"kind": "clipped"}})])
    assert varied.objective.kind == "clipped"


def test_the_layer_at_fault_is_named() -> None:
    good = ("a.yaml", {"method": "popo", "budget": {"steps": 1}})
    cases: list[tuple[list[tuple[str, dict[str, Any]]], str]] = [
        ([("a.yaml", {"lr": 1}), ("--set", {})], "a.yaml"),
        ([good, ("--set", {"learner": {"lr": -1}})], "--set"),
    ]
    for layers, source in cases:
        with pytest.raises(UserError) as error:
            resolve(layers)
        assert str(error.value).startswith(source)


@pytest.mark.parametrize("tree,words", [({"method": "pop"}, "did you mean 'popo'?"), ({"task": "sort"}, "sort_digits")])
def test_unknown_names(tree: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=r"unknown (method|task)") as error:
        resolve([("f", {**OK, **tree})])
    assert words in str(error.value)


def test_starter_recipes_leave_methods_alone() -> None:
    set_by_methods = {key.split(".")[0] for m in METHODS.values() for key in m.settings}
    assert starter_names() == ["chain_sum", "countdown", "sort_digits"]
    for name in starter_names():
        assert not set_by_methods & set(starter_recipe(name))
        assert "budget" not in starter_recipe(name)


def all_keys(cls: Any = RunConfig, prefix: str = "") -> dict[str, dataclasses.Field[Any]]:
    hints = typing.get_type_hints(cls)
    out = {}
    for f in dataclasses.fields(cls):
        if dataclasses.is_dataclass(hints[f.name]):
            out.update(all_keys(hints[f.name], f"{prefix}{f.name}."))
        else:
            out[f"{prefix}{f.name}"] = f
    return out


def test_every_key_is_explained_and_read_by_code() -> None:
    read = {
        node.attr
        for path in SRC.rglob("*.py")
        if path.parent.name != "config"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    for name, field in all_keys().items():
        assert field.metadata["doc"], name
        assert name.split(".")[-1] in read, f"{name} is read by nothing"


def values(name: str) -> st.SearchStrategy[Any]:
    return {
        "learner.lr": st.floats(1e-8, 1.0),
        "group_size": st.integers(2, 64),
        "replay.max_age": st.one_of(st.none(), st.integers(1, 100)),
        "output": st.one_of(
            st.none(), st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)
        ),
        "objective.reduction": st.sampled_from(["token", "sequence", "prompt", "constant"]),
        "log.rollouts": st.booleans(),
    }[name]


@given(
    st.fixed_dictionaries(
        {n: values(n) for n in ("learner.lr", "group_size", "replay.max_age", "output", "log.rollouts")}
    )
)
def test_what_is_printed_reads_back_equal(chosen: dict[str, Any]) -> None:
    tree: dict[str, Any] = {"budget": {"steps": 1}}
    for dotted, value in chosen.items():
        section, _, leaf = dotted.rpartition(".")
        (tree.setdefault(section, {}) if section else tree)[leaf] = value
    config = build(tree)
    assert build(yaml.safe_load(dump_yaml(config))) == config
    assert set(leaves(to_tree(config))) == set(all_keys())
