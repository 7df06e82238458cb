"""Our settings as verl's, and a verl user's as ours; against verl's own configuration where verl is installed."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rollwise.assemble import resolve
from rollwise.backends.verl.classes import COUNTS, LEFT_ALONE, OLD, UNDERSTOOD, UNREAD, check_counts
from rollwise.backends.verl.mapping import FIXED, from_verl, to_verl
from rollwise.backends.verl.overrides import arguments, written
from rollwise.backends.verl.table import ROWS, made_from, row_of
from rollwise.backends.verl.theirs import in_a_command
from rollwise.config import RunConfig, build, dump_yaml, leaves, merge, nest, to_tree
from rollwise.config.keys import dotted
from rollwise.errors import UserError
from rollwise.methods import method_names

Tree = dict[str, Any]
RUN = Path("/runs/one")


def set_on(method: str = "popo", /, **more: Any) -> RunConfig:
    tree: Tree = {"method": method, "backend": "verl", "budget": {"steps": 3}, "model": "org/model", "device": "cuda"}
    tree |= {"task": "chain_sum"}
    for name, value in more.items():
        tree = merge(tree, nest(name.replace("__", "."), value))
    return resolve([("f", tree)])


# --- the table --------------------------------------------------------------------------------------------------------


def test_every_setting_is_in_the_table_and_the_table_names_settings() -> None:
    assert [name for name in (*dotted(), *leaves(to_tree(RunConfig()))) if row_of(name) is None] == []
    known = list(leaves(to_tree(RunConfig())))
    named = [key for row in ROWS for key in row.ours]
    assert [n for n in named if n not in known and not any(k.startswith(n) and n.endswith(".") for k in known)] == []
    assert len(named) == len(set(named))


def test_a_setting_that_is_new_to_an_explicit_section_would_be_missed() -> None:
    assert row_of("learner.new") is None and row_of("sampling.new") is None and row_of("new") is None


@pytest.mark.parametrize("method", method_names())
def test_no_row_makes_what_it_does_not_name(method: str) -> None:
    for engine in ("dp", "megatron"):
        config = set_on(method, verl={"model_engine": engine}, critic__kind="model" if method in PPO else "none")
        for row in ROWS:
            assert set(row.values(config)) <= set(row.theirs), row.ours


PPO = [m for m in method_names() if "ppo" in m.split("-") and "lite" not in m]


def test_sizes_go_where_verl_looks_for_them() -> None:
    config = set_on(
        prompts_per_step=48,
        group_size=6,
        sampling={"max_prompt_length": 100, "max_completion_length": 9000, "temperature": 0.7},
        learner={"lr": 2e-6, "beta2": 0.98, "micro_batch_tokens": 5000, "max_grad_norm": None},
        objective__kl_coef=0.01,
    )
    made = to_verl(config, RUN)
    assert made["data.train_batch_size"] == made["actor_rollout_ref.actor.ppo_mini_batch_size"] == 48
    assert made["actor_rollout_ref.rollout.n"] == 6 and made["actor_rollout_ref.rollout.temperature"] == 0.7
    assert made["actor_rollout_ref.actor.ppo_max_token_len_per_gpu"] == 9100, "no less than the longest sequence"
    assert made["actor_rollout_ref.actor.optim.betas"] == [0.9, 0.98]
    assert made["actor_rollout_ref.actor.optim.clip_grad"] == float("inf")
    assert made["actor_rollout_ref.actor.use_kl_loss"] is True and made["critic.enable"] is False
    assert made["trainer.default_local_dir"] == "/runs/one/checkpoints"
    assert made["+rollwise.config"] == "/runs/one/config.yaml"
    assert not any(name.lstrip("+").startswith("critic.optim") for name in made)


def test_a_key_of_verl_is_laid_over_those_made_and_over_those_of_a_cpu() -> None:
    own = {"trainer.nnodes": 8, "actor_rollout_ref.model.override_config.attn_implementation": "eager"}
    made = to_verl(set_on(verl=own, device="cpu"), RUN)
    assert made["trainer.nnodes"] == 8 and made["trainer.device"] == "cpu"
    names = [n for n in made if n.lstrip("+") == "actor_rollout_ref.model.override_config.attn_implementation"]
    assert names == ["actor_rollout_ref.model.override_config.attn_implementation"]


@pytest.mark.parametrize(
    "more,words",
    [
        ({"verl": {"data.train_batch_size": 4}}, "verl.data.train_batch_size is made from prompts_per_step; set that"),
        ({"verl": {"+actor_rollout_ref.rollout.n": 4}}, "is made from group_size"),
        ({"verl": {"trainer": {"v1": {"trainer_mode": "sync"}}}}, "verl.trainer.v1.trainer_mode is not free"),
        ({"verl": {"rollwise.resume": True}}, "is not free"),
        ({"verl": {"actor_rollout_ref.actor.clip_ratio_high": 0.3}}, "is objective.clip_high here; set that"),
        ({"verl": {"algorithm.filter_groups.metric": "acc"}}, "is not read by Rollwise's trainer: use method=dapo"),
        ({"verl": {"reward_model.enable": True}}, "is not read by Rollwise's trainer"),
        ({"verl": {"~trainer.nnodes": None}}, "is no setting of verl"),
        ({"verl": {"a=b": 1}}, "is no setting of verl"),
        ({"verl": {"hydra.run.dir": "x"}}, "verl.hydra.run.dir is of Hydra, which the launcher runs; leave it out"),
        ({"verl": {"++hydra.verbose": True}}, "verl.hydra.verbose is of Hydra"),
        ({"verl": {"trainer.nnodes": 0}}, "verl.trainer.nnodes is 0; it must be a whole number from 1 on"),
        ({"verl": {"trainer.nnodes": None}}, "verl.trainer.nnodes is None; it must be a whole number from 1 on"),
        ({"verl": {"+trainer.n_gpus_per_node": None}}, "verl.trainer.n_gpus_per_node is None"),
        ({"verl": {"ray_kwargs.ray_init.num_cpus": 1}}, "num_cpus is 1; verl would wait for 8: give as many"),
        (
            {"verl": {"ray_kwargs.ray_init.num_cpus": 16, "trainer.n_gpus_per_node": 6}},
            "verl.ray_kwargs.ray_init.num_cpus is 16; verl would wait for 28",
        ),
        ({"device": "cpu", "verl": {"model_engine": "megatron"}}, "is megatron, which needs accelerators"),
        ({"verl": {"trainer.n_gpus_per_node": -1}}, "verl.trainer.n_gpus_per_node is -1"),
        ({"verl": {"trainer.n_gpus_per_node": "two"}}, "verl.trainer.n_gpus_per_node is 'two'"),
        ({"verl": {"actor_rollout_ref.rollout.agent.num_workers": 0}}, "rollout.agent.num_workers is 0"),
        ({"verl": {"+actor_rollout_ref.rollout.agent.num_workers": 1.5}}, "rollout.agent.num_workers is 1.5"),
        ({"verl": {"actor_rollout_ref.rollout.tensor_model_parallel_size": 0}}, "tensor_model_parallel_size is 0"),
        ({"verl": {"actor_rollout_ref.actor.ulysses_sequence_parallel_size": True}}, "parallel_size is True"),
        ({"verl": {"ray_kwargs.ray_init.num_cpus": 0}}, "verl.ray_kwargs.ray_init.num_cpus is 0"),
        ({"verl": {"model_engine": "veomni"}}, "verl.model_engine is 'veomni'; one of dp, megatron"),
        ({"learner": {"schedule": "linear", "schedule_updates": 9}}, "verl with FSDP has constant and cosine"),
        ({"learner__freeze_vision": True}, "learner.freeze_vision is True with backend verl"),
        ({"learner__logit_budget": 99}, "learner.logit_budget is 99 with backend verl"),
        ({"threads": 4}, "set OMP_NUM_THREADS"),
        ({"device": "cuda:1"}, "device is 'cuda:1' with backend verl"),
        ({"sampling__engine": "vllm"}, "sampling.engine is 'vllm', and nothing reads it with backend verl"),
        ({"curriculum": {"stages": [{"until": {"steps": 1}}, {"reset": ["optimizer"]}]}}, "curriculum.stages with"),
    ],
)
def test_what_verl_cannot_do_is_one_line(more: Tree, words: str) -> None:
    with pytest.raises(UserError) as error:
        to_verl(set_on(**more), RUN)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_critic_that_verl_has_not() -> None:
    with pytest.raises(UserError, match=r"critic.kind is 'head' with backend verl"):
        to_verl(set_on("ppo", critic__kind="head"), RUN)


def test_nested_and_dotted_settings_of_verl_are_one() -> None:
    layers: list[tuple[str, Tree]] = [
        ("f", {"backend": "verl", "budget": {"steps": 1}, "verl": {"trainer.nnodes": 8, "model_engine": "dp"}}),
        ("--set", {"verl": {"trainer": {"nnodes": 2}}}),
    ]
    assert resolve(layers).verl == {"trainer.nnodes": 2, "model_engine": "dp"}
    config = resolve(layers)
    assert build(to_tree(config)) == config


# --- a verl user's own command ----------------------------------------------------------------------------------------

THEIRS: Tree = {
    "data": {
        "train_files": "train.parquet",
        "val_files": ["val.parquet"],
        "train_batch_size": 64,
        "max_prompt_length": 128,
        "max_response_length": 256,
    },
    "actor_rollout_ref": {
        "model": {"path": "org/model"},
        "actor": {
            "ppo_mini_batch_size": 16,
            "clip_ratio_low": 0.2,
            "clip_ratio_high": 0.2,
            "loss_agg_mode": "token-mean",
            "use_kl_loss": False,
            "kl_loss_coef": 0.001,
            "optim": {"lr": 2e-6, "weight_decay": 0.01, "clip_grad": 1.0, "betas": [0.9, 0.999]},
        },
        "rollout": {"n": 5, "temperature": 1.0, "top_p": 1, "val_kwargs": {"n": 2, "temperature": 0.6}},
    },
    "critic": {"enable": None},
    "algorithm": {"adv_estimator": "grpo"},
    "reward": {"custom_reward_function": {"path": None, "name": "compute_score"}},
    "trainer": {
        "total_training_steps": 7,
        "test_freq": 5,
        "save_freq": -1,
        "default_local_dir": "/ckpt/here",
        "device": "cuda",
    },
}


def theirs(own: Tree | None = None, /, **more: Any) -> RunConfig:
    tree = {**THEIRS, "rollwise": {"method": "popo"} if own is None else own}
    for name, value in more.items():
        part: Any = value
        for key in reversed(name.split("__")):
            part = {key: part}
        tree = merge(tree, part)
    return from_verl(tree)


def test_the_command_is_understood() -> None:
    config = theirs({"method": "popo", "replay": {"capacity_batches": 2}, "seed": 3})
    assert (config.backend, config.method, config.task, config.seed) == ("verl", "popo", "data", 3)
    assert config.task_args == {"data": "train.parquet", "heldout_data": "val.parquet"}
    assert (config.prompts_per_step, config.group_size, config.learner.updates_per_batch) == (64, 5, 4)
    assert (config.learner.lr, config.budget.steps, config.output) == (2e-6, 7, "/ckpt/here")
    assert (config.eval.every, config.eval.samples, config.eval.temperature) == (5, 2, 0.0)
    assert config.checkpoint.every is None and config.replay.capacity_batches == 2
    assert config.objective.clip_high == 0.28, "the method's: the command leaves verl's default"
    assert (config.objective.kind, config.replay.kind) == ("decoupled", "recent")


def test_the_command_is_over_the_method_and_below_its_own_keys() -> None:
    clip: Tree = {
        "actor_rollout_ref__actor__clip_ratio_high": 0.31,
        "actor_rollout_ref__actor__loss_agg_mode": "seq-mean-token-mean",
    }
    config = theirs(**clip)
    assert (config.objective.clip_high, config.objective.clip_low) == (0.31, 0.2)
    assert config.objective.reduction == "sequence"
    own = {"method": "popo", "objective": {"reduction": "prompt"}}
    assert theirs(own, **clip).objective.reduction == "prompt"


def test_kl_rewards_and_validation_of_the_command(tmp_path: Path) -> None:
    config = theirs(actor_rollout_ref__actor__use_kl_loss=True)
    assert config.objective.kl_coef == 0.001
    config = theirs(custom_reward_function={"path": "r.py", "name": "f"})
    assert config.reward.function == "r.py:f", "verl's old name of it"
    config = theirs(reward__custom_reward_function__path="r.py")
    assert config.reward.function == "r.py:compute_score"
    assert theirs(actor_rollout_ref__rollout__val_kwargs__do_sample=True).eval.temperature == 0.6


def test_epochs_are_counted_in_rows(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "1"}\n' * 200)
    more: Tree = {"data__train_files": str(rows), "trainer__total_training_steps": None, "trainer__total_epochs": 4}
    assert theirs(**more).budget.steps == 12, "three whole batches of 64 an epoch"
    assert theirs({"method": "popo", "budget": {"rollouts": 999}}, **more).budget.steps is None
    more["data__train_files"] = "org/name"
    with pytest.raises(UserError, match=r"give trainer.total_training_steps"):
        theirs(**more)


@pytest.mark.parametrize(
    "own,more,words",
    [
        ({}, {}, "rollwise.method is missing; add +rollwise.method=popo"),
        ({"method": "pop"}, {}, "did you mean 'popo'?"),
        (None, {"algorithm__filter_groups__enable": True}, "algorithm.filter_groups.enable is True, which Rollwise's"),
        (None, {"distillation__enabled": True}, "distillation.enabled is True"),
        (None, {"reward__reward_model__enable": True}, "reward.reward_model.enable is True"),
        (None, {"reward_model__enable": True}, "reward_model.enable is True"),
        (None, {"actor_rollout_ref__rollout__multi_turn__enable": True}, "multi_turn.enable is True"),
        (None, {"trainer__v1__sampler__custom_sampler__path": "s.py"}, "custom_sampler.path is 's.py'"),
        (None, {"algorithm__rollout_correction__rollout_is": "token"}, "set +rollwise.objective.kind=decoupled"),
        (None, {"data__truncation": "left"}, "a prompt is never cut"),
        (None, {"actor_rollout_ref__actor__loss_agg_mode": "token-sum"}, "one of token-mean, seq-mean"),
        (None, {"actor_rollout_ref__actor__ppo_mini_batch_size": 24}, "it must divide data.train_batch_size (64)"),
        (None, {"actor_rollout_ref__rollout__n": 1}, "group_size is 1 with advantage.kind group"),
        (None, {"algorithm__adv_estimator": "gae"}, "verl loads a critic, and popo has none; set it to grpo"),
        ({"method": "ppo"}, {}, "verl loads no critic, and ppo needs one; set it to gae"),
        (None, {"algorithm__adv_estimator": "rloo"}, "the advantage of popo is its own; set grpo"),
        ({"method": "popo", "learner": {"lr": 1e-5}}, {}, "this is actor_rollout_ref.actor.optim.lr; set that"),
        ({"method": "popo", "num_generations": 4}, {}, "+rollwise.group_size: in a command of verl's this is"),
        ({"method": "popo", "objective": {"kl_coef": 0.1}}, {}, "this is actor_rollout_ref.actor.use_kl_loss"),
        ({"method": "popo", "output": "x"}, {}, "+rollwise.output"),
        ({"method": "popo", "replay": {"capcity": 4}}, {}, "unknown key 'replay.capcity'"),
        ({"method": "popo", "replay": {"ratio": 4}}, {}, "nothing reads it with replay.kind recent"),
        (None, {"actor_rollout_ref__rollout__agent__num_workers": 0}, "rollout.agent.num_workers is 0; it must be a"),
        (None, {"trainer__nnodes": 0}, "trainer.nnodes is 0; it must be a whole number from 1 on"),
        (None, {"trainer__resume_mode": "resume_path"}, "trainer.resume_mode is resume_path"),
        (None, {"actor_rollout_ref__actor__optim__lr_scheduler_type": "cosine"}, "give the updates at which cosine"),
    ],
)
def test_what_contradicts_the_method_is_one_line(own: Tree | None, more: Tree, words: str) -> None:
    with pytest.raises(UserError) as error:
        theirs(own, **more)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_what_the_parts_advise_is_spelled_as_the_command_does() -> None:
    line = "t.jsonl: say which, for example task_args.verifier=math; or sampling.overlong_prompts=skip"
    own = "t.jsonl: say which, for example +rollwise.task_args.verifier=math; or data.filter_overlong_prompts=True"
    assert in_a_command(line) == own == in_a_command(own)
    assert in_a_command("sampling.max_prompt_length allows 6") == "data.max_prompt_length allows 6"
    assert in_a_command("set eval.prompts=3 or seed") == "set +rollwise.eval.prompts=3 or seed"
    assert in_a_command("/a/eval.prompts and reward.py: log.x") == "/a/eval.prompts and reward.py: log.x"


def test_a_launched_run_has_the_settings_of_its_folder(tmp_path: Path) -> None:
    config = set_on(output=str(tmp_path))
    (tmp_path / "config.yaml").write_text(dump_yaml(config))
    assert from_verl({"rollwise": {"config": str(tmp_path / "config.yaml"), "resume": True}}) == config


# --- the command line -------------------------------------------------------------------------------------------------


def test_values_are_written_for_hydra() -> None:
    values = {"b": None, "+a": True, "c": 1e-6, "d": "it's, a {b}=c\\", "e": [1, "x"], "f": {"k": [0.5]}, "g": "${x}"}
    assert arguments(values) == [
        "+a=true",
        "b=null",
        "c=1e-06",
        "d='it\\'s, a {b}=c\\\\'",
        "e=[1,'x']",
        "f={k:[0.5]}",
        "g='\\${x}'",
    ]


@pytest.mark.parametrize("value", [{"a b": 1}, {1: 2}, {"null": 1}, object(), "???", "a\0b"])
def test_values_that_cannot_be_written(value: Any) -> None:
    with pytest.raises(UserError, match=r"verl\.x"):
        written(value, "x")


text = st.text(
    st.one_of(
        st.sampled_from("\\'\"${},=: ()[]#~+\n\t?"), st.characters(exclude_characters="\0", exclude_categories=["Cs"])
    ),
    max_size=12,
).filter(lambda s: s != "???")
leaf = st.one_of(st.none(), st.booleans(), st.integers(-(10**15), 10**15), st.floats(allow_nan=False), text)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,5}", fullmatch=True).filter(
    lambda n: n.lower() not in ("true", "false", "null", "inf", "nan")
)
values = st.recursive(leaf, lambda v: st.lists(v, max_size=3) | st.dictionaries(names, v, max_size=3), max_leaves=5)


@pytest.mark.skipif(find_spec("hydra") is None, reason="verl is not installed here; `make test-verl` runs this")
@settings(max_examples=300, deadline=None)
@given(values)
@example("/data/a b,c='d'/${HOME}\\")
def test_hydra_reads_back_what_was_written(value: Any) -> None:
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf

    tree = OmegaConf.create({})
    OmegaConf.set_struct(tree, True)
    parsed = OverridesParser.create().parse_override(f"+a.b={written(value, 'x')}")
    ConfigLoaderImpl._apply_overrides_to_config([parsed], tree)
    back = OmegaConf.to_container(tree, resolve=True)["a"]["b"]
    assert back == value and type(back) is type(value)


# --- against verl -----------------------------------------------------------------------------------------------------


def verls(*extra: str) -> Tree:
    """verl's configuration at its defaults, but for what it has none of."""
    pytest.importorskip("verl", reason="verl is not installed here; `make test-verl` runs this")
    from omegaconf import OmegaConf

    from rollwise.backends.verl.compose import composed

    tree = OmegaConf.to_container(composed(["actor_rollout_ref.rollout.name=vllm", *extra]), resolve=True)
    assert isinstance(tree, dict)
    return tree


def flat(tree: Any, prefix: str = "") -> Tree:
    out: Tree = {}
    for name, value in tree.items():
        inner = isinstance(value, dict) and value
        out |= flat(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value}
    return out


def test_every_setting_of_verl_has_its_class() -> None:
    there = {k: v for k, v in flat(verls()).items() if not k.endswith("_target_")}
    check_counts(there)
    assert [k for k in COUNTS if k not in there] == ["ray_kwargs.ray_init.num_gpus"], "verl's tree has not that one"
    assert [k for k in UNDERSTOOD if k not in there] == []
    absent = {"actor_rollout_ref.rollout.agent.agent_loop_manager_class"}
    unknown = [k for k in UNREAD if k not in there and k not in absent]
    assert unknown == []
    assert {k: (there[k], u.default) for k, u in UNREAD.items() if k in there and there[k] != u.default} == {}
    classes = {*UNDERSTOOD, *UNREAD}
    free = [k for k in there if k not in classes and not k.startswith((*LEFT_ALONE, *OLD))]
    assert free == []
    decisive = ("algorithm.", "data.", "actor_rollout_ref.actor.policy_loss.", "trainer.v1.sampler.")
    assert [k for k in there if k.startswith(decisive) and k not in classes and k.split(".")[1] not in LOADER] == []


LOADER = {"use_shm", "dataloader_num_workers", "filter_overlong_prompts_workers", "validation_shuffle"}


@pytest.mark.parametrize(
    "method,more",
    [
        ("popo", {}),
        ("dapo", {"dtype": "bfloat16", "prompts_per_step": 7, "group_size": 3}),
        ("grpo", {"objective__kl_coef": 0.01, "learner": {"schedule": "cosine", "schedule_updates": 50}}),
        ("ppo", {"critic__kind": "model", "advantage__kl_in_reward": 0.01, "model": "starter"}),
        ("popo", {"device": "cpu", "model": "starter", "verl": {"trainer.n_gpus_per_node": 2}}),
        ("ppo", {"device": "cpu", "model": "starter", "critic__kind": "model", "learner__max_grad_norm": None}),
        ("popo", {"verl": {"model_engine": "megatron"}, "dtype": "bfloat16", "learner__max_grad_norm": None}),
        ("ppo", {"verl": {"model_engine": "megatron"}, "critic__kind": "model"}),
    ],
)
def test_verl_takes_what_is_made(method: str, more: Tree) -> None:
    config = set_on(method, **more)
    made = to_verl(config, RUN)
    tree = verls(*arguments(made))
    there = flat(tree)
    for name, value in made.items():
        if not isinstance(value, dict) and value not in ([], {}):
            assert there[name.lstrip("+")] == value, name
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    if config.verl.get("model_engine") == "megatron":
        return  # its configuration imports Megatron
    whole = OmegaConf.create(tree)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        critic, reference = need_critic(whole), need_reference_policy(whole)
    assert critic is (config.critic.kind == "model")
    assert reference is (config.objective.kl_coef > 0 or config.advantage.kl_in_reward > 0)
    validate_config(whole, use_reference_policy=reference, use_critic=critic)


def test_a_setting_that_verl_does_not_know_is_one_line() -> None:
    pytest.importorskip("verl", reason="verl is not installed here; `make test-verl` runs this")
    from rollwise.backends.verl.compose import composed

    for name, value in (("trainer.nnodse", 2), ("trainer", 3), ("model_engine", "dpp")):
        with pytest.raises(UserError, match="verl does not take these settings") as error:
            composed(arguments({**to_verl(set_on(), RUN), name: value}))
        assert "\n" not in str(error.value)


def test_the_critic_of_a_whole_command() -> None:
    """verl's own default is an estimator that loads one."""
    given = ("data.train_files=a.parquet", "data.val_files=v.parquet", "actor_rollout_ref.rollout.n=8")
    rest = ("trainer.total_training_steps=9", "critic.optim.lr=3e-5")
    with pytest.raises(UserError, match="verl loads a critic, and popo has none; set it to grpo"):
        from_verl(verls(*given, *rest, "+rollwise.method=popo"))
    config = from_verl(verls(*given, *rest, "+rollwise.method=ppo"))
    assert (config.critic.kind, config.critic.lr) == ("model", 3e-5)


def test_a_whole_command_of_a_verl_user() -> None:
    tree = verls(
        "data.train_files=[a.parquet,b.parquet]",
        "data.val_files=v.parquet",
        "data.train_batch_size=128",
        "actor_rollout_ref.model.path=org/model",
        "actor_rollout_ref.rollout.n=8",
        "algorithm.adv_estimator=grpo",
        "trainer.total_training_steps=9",
        "trainer.v1.trainer_mode=rollwise",
        "+rollwise.method=popo",
        "+rollwise.replay.capacity_batches=2",
    )
    config = from_verl(tree)
    assert config.task_args["data"] == ["a.parquet", "b.parquet"] and config.group_size == 8
    assert config.learner.weight_decay == 0.01, "verl's default, which its optimizer has"
    assert config.learner.updates_per_batch == 1 and config.replay.capacity_batches == 2
    assert leaves(to_tree(config))["eval.temperature"] == 0.0
    assert set(FIXED) and made_from()["trainer.default_local_dir"] == "output"
