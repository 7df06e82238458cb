"""Settings that nothing reads are refused; every setting is read under some others; the list of settings is whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rollwise.assemble import resolve
from rollwise.cli.main import main
from rollwise.config import ALIASES, RunConfig, build, leaves, merge, nest, to_tree
from rollwise.config.effect import RULES, unread
from rollwise.config.keys import dotted, keys
from rollwise.config.layers import expand_aliases
from rollwise.errors import UserError
from rollwise.methods import METHODS, method_names

BUDGET = {"budget": {"rollouts": 10_000}}


def set_on(method: str, *settings: str) -> RunConfig:
    from rollwise.cli.layers import overrides

    return resolve([("recipe.yaml", {"method": method, **BUDGET}), ("--set", overrides(list(settings)))])


@pytest.mark.parametrize(
    "method,setting,remedy",
    [
        ("popo", "replay.reservoir_share=0.5", "replay.kind recent; leave it out, or set replay.kind=hybrid"),
        ("grpo", "curriculum.mopps.target=0.4", "curriculum.kind uniform; leave it out, or set curriculum.kind=mopps"),
        (
            "mopps",
            "curriculum.mopps.band=0.1",
            "strategy topk; leave it out, or set curriculum.mopps.strategy=threshold",
        ),
        ("grpo", "allocation.pilot.share=0.5", "allocation.kind fixed; leave it out, or set allocation.kind=pilot"),
        ("dapo", "allocation.pilot.prompts=9", "allocation.kind dynamic"),
        ("grpo", "allocation.max_rounds=3", "allocation.kind fixed"),
        ("pilot-commit", "allocation.surplus=carry", "allocation.kind pilot"),
        ("grpo", "advantage.gae_lambda=0.9", "advantage.kind group; leave it out, or set method=ppo"),
        ("grpo", "advantage.whiten=false", "advantage.kind group"),
        ("rloo", "advantage.scale=none", "advantage.kind rloo; leave it out, or set advantage.kind=group"),
        ("dr-grpo", "advantage.ddof=0", "advantage.scale none"),
        ("popo", "replay.ratio=0.9", "replay.kind recent; leave it out, or set replay.kind=rollouts"),
        ("popo", "replay.alpha=0.9", "replay.kind recent"),
        ("popo", "replay.priority=sigma", "replay.kind recent"),
        ("per-uniform", "replay.alpha=0.9", "replay.priority uniform"),
        ("grpo", "replay.max_age=3", "replay.kind none"),
        ("grpo", "replay.capacity=9", "replay.kind none"),
        ("grpo-filter", "replay.short=drop", "replay.kind filter"),
        ("popo", "replay.per_prompt=2", "replay.kind recent; leave it out, or set replay.kind=success"),
        ("grpo", "objective.weight_cap=2", "objective.kind clipped; leave it out, or set objective.kind=decoupled"),
        (
            "popo",
            "objective.weight_over_cap=mask",
            "objective.weight_cap null; leave it out, or set objective.weight_cap",
        ),
        ("grpo", "critic.lr=1e-3", "critic.kind none"),
        ("grpo", "reward.correct_at=0.5", "reward.function null"),
        ("grpo", "reward.overlong_factor=2", "reward.overlong_buffer null"),
        ("grpo", "learner.schedule_updates=99", "learner.schedule constant"),
        ("grpo", "curriculum.evict_on=any", "curriculum.evict_at null"),
        ("grpo", "verl={trainer.nnodes: 2}", "backend local; leave it out, or set backend=verl"),
    ],
)
def test_a_setting_that_nothing_reads_is_one_line(method: str, setting: str, remedy: str) -> None:
    with pytest.raises(UserError) as error:
        set_on(method, setting)
    line = str(error.value)
    assert line.startswith(f"--set: {setting.split('=')[0]} is ") and "and nothing reads it with" in line
    assert remedy in line and "\n" not in line


def test_defaults_methods_and_starters_are_not_the_users() -> None:
    set_on("popo", "replay.ratio=0.5")  # its default: nothing is lost
    for name in method_names():
        set_on(name)
    set_on("per", "replay.kind=none")  # the method's own settings of replay stay as they are
    set_on("popo", "replay.kind=hybrid", "replay.reservoir_share=0.5")


def test_a_wait_for_no_plateau_is_named() -> None:
    stages = [{"until": {"steps": 3, "patience": 5}}, {}]
    with pytest.raises(UserError, match=r"curriculum.stages\[0\].until.patience is 5, and nothing reads it"):
        resolve([("f", {**BUDGET, "curriculum": {"stages": stages}})])


def test_stored_settings_are_whole_and_still_understood() -> None:
    stored = to_tree(set_on("popo"))
    stored["replay"]["ratio"] = 0.9
    assert build(stored).replay.ratio == 0.9


def test_a_comparison_takes_what_one_of_its_methods_reads(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run_all(methods: list[str], seeds: list[int], base: list[str], *_: Any, **__: Any) -> Any:
        ran.append(base)
        return type("Result", (), {"exit_status": 0})

    monkeypatch.setattr("rollwise.compare.compare", run_all)
    command = ["compare", "--methods", "grpo,per", "--rollouts", "2560", "--set"]
    assert main([*command, "replay.ratio=0.9"]) == 0
    assert ran == [["--shared", "--set", "replay.ratio=0.9"]]
    assert main([*command, "replay.reservoir_share=0.9"]) == 2
    assert "nothing reads it with replay.kind none" in capsys.readouterr().err
    assert resolve([("f", {**BUDGET, "replay": {"ratio": 0.9}})], shared=True).replay.ratio == 0.9


def variations() -> list[RunConfig]:
    found = [resolve([("f", {"method": name, **BUDGET})]) for name in METHODS]
    more: list[tuple[str, Any]] = [
        ("curriculum.mopps.strategy", "threshold"),
        ("curriculum.mopps.strategy", "uniform"),
        ("allocation.pilot.train_on", "commit"),
        ("guard.action", "off"),
        ("allocation.surplus", "carry"),
        ("reward.function", "f.py:g"),
        ("learner.schedule", "linear"),
        ("allocation.pilot.rollouts", 3),
        ("backend", "verl"),
        ("sampling.engine", "vllm"),
        ("sampling.top_p", 0.9),
    ]
    trees = [merge(to_tree(c), nest(name, value)) for c in found for name, value in more]
    return [*found, *(build(tree, together=False) for tree in trees)]


def test_every_key_is_read_under_some_settings_and_every_rule_names_a_key() -> None:
    configs = variations()
    assert [name for name in dotted() if all(unread(name, config) for config in configs)] == []
    named = [key for rule in RULES for key in (*rule.keys, *rule.why)]
    assert [n for n in named if not any(k == n or (n.endswith(".") and k.startswith(n)) for k in dotted())] == []
    assert all(any(not rule.reads(c) for c in configs) for rule in RULES), "and each can refuse"


# --- names of other trainers ------------------------------------------------------------------------------------------


def test_every_alias_is_a_key() -> None:
    assert {key for ours in ALIASES.values() for key in ours} <= set(dotted())


@pytest.mark.parametrize(
    "tree,key,value",
    [
        ({"actor_rollout_ref": {"rollout": {"n": 16}}}, "group_size", 16),
        ({"actor_rollout_ref.rollout.n": 16}, "group_size", 16),
        ({"clip_ratio": 0.1}, "objective.clip_high", 0.1),
        ({"max_steps": 7}, "budget.steps", 7),
        ({"loss_agg_mode": "seq-mean-token-mean"}, "objective.reduction", "sequence"),
        ({"actor_rollout_ref": {"actor": {"loss_agg_mode": "token-mean"}}}, "objective.reduction", "token"),
        ({"loss_type": "dr_grpo"}, "objective.reduction", "constant"),
        ({"scale_rewards": False}, "advantage.scale", "none"),
        ({"scale_rewards": "batch"}, "advantage.scale", "batch"),
        ({"algorithm": {"kl_ctrl": {"kl_coef": 0.001}}}, "advantage.kl_in_reward", 0.001),
    ],
)
def test_names_and_values_of_others(tree: dict[str, Any], key: str, value: Any) -> None:
    assert leaves(expand_aliases(tree, "f"))[key] == value


@pytest.mark.parametrize(
    "tree,words",
    [
        ({"num_generation": 4}, "unknown key 'num_generation'; did you mean 'num_generations', here group_size?"),
        ({"loss_type": "bnpo"}, "loss_type is 'bnpo'; understood are grpo, dapo, dr_grpo, or set objective.reduction"),
        ({"loss_agg_mode": [1]}, "understood are token-mean"),
        ({"scale_rewards": 1}, "scale_rewards is 1; understood are true, group, batch, false, none"),
        ({"actor_rollout_ref": {"rollout": {"m": 1}}}, "unknown key 'actor_rollout_ref.rollout.m'; did you mean"),
        ({"importance_sampling_level": "sequence"}, "another trainer's; set objective.kind=sequence"),
        ({"algorithm": {"adv_estimator": "grpo"}}, "'algorithm.adv_estimator' is another trainer's; set method"),
        ({"clip_ratio": 0.1, "epsilon": 0.2}, "'objective.clip_low' is given twice"),
        ({"rollout": {"n": 4}, "num_generations": 4}, "'group_size' is given twice"),
        ({"max_steps": 4, "budget": {"steps": 4}}, "'budget.steps' is given twice"),
    ],
)
def test_what_is_not_understood_is_answered(tree: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as error:
        resolve([("f.yaml", tree)])
    assert words in str(error.value) and str(error.value).startswith("f.yaml")


def test_two_names_of_one_key_on_the_command_line() -> None:
    with pytest.raises(UserError, match="'group_size' is given twice, as num_generations and as group_size"):
        set_on("grpo", "num_generations=4", "group_size=8")
    with pytest.raises(UserError, match=r"'objective.clip_low' is given twice, as epsilon and as clip_ratio"):
        set_on("grpo", "epsilon=0.1", "clip_ratio=0.2")
    assert set_on("grpo", "group_size=4", "group_size=6").group_size == 6, "a later one counts"
    both = set_on("grpo", "clip_ratio_high=0.3", "clip_ratio=0.1").objective
    assert (both.clip_low, both.clip_high) == (0.1, 0.3), "in any order"


# --- settings against each other --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method,settings,words",
    [
        ("mopps", ["curriculum.mopps.prior_correct=0.001"], "it must be at least 0.01"),
        ("grpo", ["sampling.top_p=1e-9"], "it must be at least 1e-06"),
        ("grpo", ["eval.top_p=1e-9"], "it must be at least 1e-06"),
        ("grpo", ["tasks.chain_sum.weight=1e-310"], "it must be at least 1e-06"),
        ("grpo", ["tasks.chain_sum=1e-310"], "tasks.chain_sum.weight is 1e-310; it must be at least 1e-06"),
        ("popo-stale", ["replay.capacity=32"], "push a group out before replay.min_age 10; at least 289"),
        ("popo-stale", ["replay.capacity_batches=9"], "at least 10"),
        ("grpo", ["group_size=1"], "group_size is 1 with advantage.kind group; a group needs at least 2"),
        ("rloo", ["group_size=1"], "advantage.kind rloo"),
        ("reinforce++-baseline", ["group_size=1"], "advantage.kind reinforce++-baseline"),
        ("popo-ppo", ["group_size=1"], "replay.kind recent"),
        ("ppo", ["group_size=1", "allocation.kind=dynamic"], "allocation.kind dynamic"),
        ("reinforce++", ["group_size=1", "curriculum.kind=mopps"], "judges prompts by the pass rate"),
    ],
)
def test_refused(method: str, settings: list[str], words: str) -> None:
    with pytest.raises(UserError) as error:
        set_on(method, *settings)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_allowed() -> None:
    assert set_on("popo-stale", "replay.capacity=289").replay.capacity == 289
    assert set_on("popo-stale", "replay.capacity_batches=10").replay.capacity_batches == 10
    assert set_on("ppo", "group_size=1").group_size == set_on("reinforce++", "group_size=1").group_size == 1


def test_a_mixture_of_starters_has_room_for_the_longest_prompt() -> None:
    config = set_on("grpo", "tasks.chain_sum=0.5", "tasks.sort_digits=")
    assert {n: e.weight for n, e in config.tasks.items()} == {"chain_sum": 0.5, "sort_digits": 1.0}
    assert (config.task, config.sampling.max_prompt_length) == ("chain_sum", 24), "sort_digits has the longer prompts"
    alone = set_on("grpo", "tasks.chain_sum=1")
    assert alone.sampling.max_prompt_length == 16
    own = set_on("grpo", "tasks.chain_sum=1", "tasks.sort_digits=1", "sampling.max_prompt_length=30")
    assert own.sampling.max_prompt_length == 30


# --- what is listed ---------------------------------------------------------------------------------------------------


def test_every_key_is_listed_with_its_doc(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys"]) == 0
    shown = capsys.readouterr().out
    assert all(f"    {k.name}: " in shown for k in keys()) and all(k.doc and k.type for k in keys())
    config = leaves(to_tree(RunConfig()))
    assert set(dotted()) - set(config) == set(), "and each is a leaf of the settings"
    assert main(["keys", "replay.ratio", "--json"]) == 0
    (ratio,) = json.loads(capsys.readouterr().out)
    assert (ratio["type"], ratio["default"], ratio["bounds"]) == ("number", 0.5, "at least 0")
    assert main(["keys", "num_generations"]) == 0
    assert "group_size: 8" in capsys.readouterr().out
    assert main(["keys", "curriculum"]) == 0
    assert "curriculum.stages[N].until.patience: 20" in capsys.readouterr().out
    assert main(["keys", "replay.ratoi"]) == 2
    assert "did you mean 'replay.ratio'?" in capsys.readouterr().err


def test_methods_show_the_defaults_they_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "pilot-commit", "grpo"]) == 0
    shown = capsys.readouterr().out
    first, second = shown.split("\n\ngrpo\n")
    assert "allocation.pilot.prompts: null\n        prompts piloted in a round; null: 3 x prompts_per_step" in first
    assert "allocation.pilot" not in second and "advantage.ddof: 1" in second
    assert main(["methods", "grpo", "gropo"]) == 2
