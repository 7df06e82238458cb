"""Mixtures of data sets and stages of a run: by hand, by property, and through the real loop."""

from __future__ import annotations

import ast
import dataclasses
import typing
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise import checkpoint, parts, run
from rollwise.assemble import load_tasks, resolve
from rollwise.config import build, data_sets, dump_yaml, merge, nest, read_yaml, title
from rollwise.config.schema import MoppsConfig, StageConfig, TaskConfig, UntilConfig
from rollwise.console import Console, State
from rollwise.curriculum.filters import DropSolved
from rollwise.curriculum.mixture import Mixture
from rollwise.curriculum.stages import Plateau, Stage, Stages
from rollwise.curriculum.uniform import Uniform
from rollwise.errors import UserError
from rollwise.records import Prompt, StopReason
from rollwise.state import as_now
from rollwise.verify.scoring import Completion
from tests.conftest import SMALL, Finished
from tests.curricula import Numbers, judged, same
from tests.test_resume import again, without_settings

ROOT = Path(__file__).parents[1]
Tree = dict[str, Any]


# --- mixtures ---------------------------------------------------------------------------------------------------------


def mixture(weights: dict[str, float], sizes: dict[str, int] | None = None, *, solved: bool = False) -> Mixture:
    """Data sets by name, of 10 prompts unless said otherwise; `solved`: under SRPO's filter."""
    sizes = {**dict.fromkeys(weights, 10), **(sizes or {})}
    parts = {n: Uniform(Numbers(s, n), seed=1, filters=[DropSolved(s)] if solved else ()) for n, s in sizes.items()}
    return Mixture(parts, weights, seed=1)


@settings(max_examples=60, deadline=None)
@given(
    weights=st.dictionaries(st.sampled_from("abcd"), st.floats(0.1, 9), min_size=1),
    counts=st.lists(st.integers(0, 9), max_size=10),
)
def test_shares_follow_the_weights_and_saving_is_invisible(weights: dict[str, float], counts: list[int]) -> None:
    whole, parts = mixture(weights), mixture(weights)
    seen: Counter[str] = Counter()
    uids = set()
    total = 0
    for count in counts:
        prompts = whole.draw(count)
        assert prompts == parts.draw(count) and len(prompts) == count
        state = parts.state_dict()
        parts = mixture(weights)
        parts.load_state_dict(state)
        assert same(parts.state_dict(), whole.state_dict()) and parts.metrics() == whole.metrics()
        seen.update(p.task for p in prompts)
        uids |= {p.group_uid for p in prompts}
        total += count
        for name, weight in weights.items():
            assert abs(seen[name] - total * weight / sum(weights.values())) < len(weights)
    assert len(uids) == total, "filters and posteriors can tell all draws apart"


def test_the_order_of_data_sets_is_the_seed_s() -> None:
    def names(seed: int) -> list[str]:
        parts = {n: Uniform(Numbers(50, n), seed=seed) for n in "abc"}
        return [p.task for p in Mixture(parts, dict.fromkeys("abc", 1.0), seed=seed).draw(30)]

    assert names(0) == names(0)
    assert len({tuple(names(seed)) for seed in range(6)}) > 1


def test_a_small_data_set_comes_round_more_often_and_the_epoch_is_the_large_one_s() -> None:
    m = mixture({"a": 1, "b": 1}, {"a": 4, "b": 8})
    assert m.remaining == 16
    m.draw(10)
    assert m.remaining == 6 and m.passed == 0
    m.draw(6)
    assert m.passed == 1 and m.remaining == 16
    assert (m.parts["a"].epoch, m.parts["b"].epoch) == (2, 1)
    m.draw(3)
    m.next_epoch()
    assert m.remaining == 16 and m.passed == 2


def test_an_emptied_data_set_leaves_its_share_to_the_others() -> None:
    m = mixture({"a": 1, "b": 3}, {"a": 4, "b": 8}, solved=True)
    first = m.draw(16)
    m.observe([judged(p, "++" if p.task == "a" else "+-") for p in first])
    m.parts["a"].next_epoch()
    again = m.draw(8)
    assert {p.task for p in again} == {"b"}
    assert m.metrics()["curriculum/pool"] == 8 and m.metrics()["task/a/dropped"] == 4
    m.observe([judged(p, "++") for p in again])
    m.observe([judged(p, "++") for p in m.draw(8)])
    m.next_epoch()
    assert m.remaining == 0 and m.draw(3) == []


def test_groups_reach_their_own_data_set_only() -> None:
    m = mixture({"a": 1, "b": 1}, {"a": 3, "b": 3}, solved=True)
    m.observe([judged(dataclasses.replace(p, row=1, task="b"), "++") for p in [Numbers(3, "b")[1]]])
    m.next_epoch()
    assert [len(m.parts[n].order) for n in "ab"] == [3, 2]


# --- stages -----------------------------------------------------------------------------------------------------------


def staged(stages: list[Stage], sizes: dict[str, int] | None = None, *, solved: bool = False) -> Stages:
    names = {n: 1.0 for stage in stages for n in stage.weights}
    m = mixture(names, sizes, solved=solved)
    return Stages(Mixture(m.parts, stages[0].weights, seed=1), stages)


def go(s: Stages, marks: str, count: int = 2) -> set[str]:
    """One step; the tasks it drew."""
    prompts = s.draw(count)
    s.observe([judged(p, marks) for p in prompts])
    return {p.task for p in prompts}


def test_stages_end_by_steps_and_say_so_once() -> None:
    s = staged([Stage(weights={"a": 1}, steps=2), Stage(weights={"b": 1}, reset=("history", "optimizer", "replay"))])
    assert [go(s, "+-") for _ in range(2)] == [{"a"}] * 2
    assert s.turn is not None and s.turn.reset == ("optimizer", "replay")
    assert s.turn.note == "stage 1 of 2 ended after 2 steps: its steps are done"
    assert s.metrics()["curriculum/stage"] == 1, "of the step that has just been done"
    assert go(s, "+-") == {"b"}
    assert s.turn is None and s.metrics()["curriculum/stage"] == 2
    for _ in range(50):
        go(s, "++")
    assert s.number == 1, "the last goes on"


def test_stages_end_by_epochs_and_begin_with_one() -> None:
    s = staged([Stage(weights={"a": 1, "b": 1}, epochs=2), Stage(weights={"a": 1})], {"a": 3, "b": 6})
    steps = 0
    while s.number == 0:
        go(s, "+-")
        steps += 1
    assert steps == 12, "twice the six of b, which is half of the draws"
    assert {p.row for p in s.draw(3)} == {0, 1, 2}, "a new epoch"


def test_history_is_forgotten_only_where_asked() -> None:
    for reset, left in (((), 0), (("history",), 4)):
        s = staged(
            [Stage(weights={"a": 1}, epochs=1), Stage(weights={"a": 1, "b": 1}, reset=reset)], {"a": 4}, solved=True
        )
        for _ in range(2):
            go(s, "++")
        assert s.number == 1 and s.mixture.parts["a"].remaining == left


def test_a_stage_without_prompts_gives_way() -> None:
    s = staged([Stage(weights={"a": 1}, steps=99), Stage(weights={"b": 1})], {"a": 4}, solved=True)
    for _ in range(2):
        go(s, "++")
    assert s.turn is not None and s.turn.note.endswith("it has no prompt left")
    assert go(s, "++") == {"b"}


@pytest.mark.parametrize(
    "metric,marks,steps",
    [
        # window 2, gain .1, patience 2: means of two steps .5 (best), .75 (best), .75, .75: over
        ("accuracy", ["+-", "+-", "++", "+-", "++"], 5),
        ("accuracy", ["--", "+-", "++", "++", "++", "++"], 6),
        ("mean_length", ["+", "++", "+++", "++++", "++++", "++++", "++++"], 7),
        ("reward", ["+-", "??", "+-", "+-", "??", "+-"], 6),
    ],
)
def test_a_plateau_by_hand(metric: Any, marks: list[str], steps: int) -> None:
    plateau = Plateau(metric=metric, window=2, min_gain=0.1, patience=2)
    s = staged([Stage(weights={"a": 1}, plateau=plateau), Stage(weights={"b": 1})], {"a": 99})
    ended = 0
    for i, step in enumerate(marks, 1):
        go(s, step)
        if s.turn is not None:
            assert f"{metric} has not risen for 2 steps" in s.turn.note
            ended = i
            break
    assert ended == steps


@settings(max_examples=40, deadline=None)
@given(marks=st.lists(st.sampled_from(["++", "+-", "--", "??", ""]), max_size=16), exit_by=st.integers(0, 2))
def test_stages_saved_anywhere_go_on_the_same(marks: list[str], exit_by: int) -> None:
    plateau = Plateau(metric="accuracy", window=2, min_gain=0.0, patience=2)
    conditions: list[Tree] = [{"steps": 3}, {"epochs": 1}, {"plateau": plateau}]
    condition = conditions[exit_by]
    stages = [
        Stage(weights={"a": 2, "b": 1}, **condition),
        Stage(weights={"b": 1}, steps=2, reset=("history",)),
        Stage(weights={"a": 1, "b": 1}),
    ]

    def made() -> Stages:
        return staged(stages, {"a": 5, "b": 4}, solved=True)

    whole, parts = made(), made()
    for step in marks:
        prompts = whole.draw(3)
        assert prompts == parts.draw(3)
        groups = [judged(p, step or "+-") for p in prompts]
        for each in (whole, parts):
            each.observe(groups if step else [])
        assert whole.turn == parts.turn
        state = parts.state_dict()
        parts = made()
        parts.load_state_dict(state)
        assert same(parts.state_dict(), whole.state_dict()) and parts.metrics() == whole.metrics()


def test_a_part_is_put_back_to_what_it_was() -> None:
    part = DropSolved(3)
    back = as_now(part)
    part.observe([judged(dataclasses.replace(Numbers(3)[1], row=1), "++")])
    assert part.keep(part.epoch * 0 + [0, 1, 2], 1).tolist() == [0, 2]
    back()
    assert part.keep(part.epoch * 0 + [0, 1, 2], 1).tolist() == [0, 1, 2]


# --- settings ---------------------------------------------------------------------------------------------------------

TWO: Tree = {"tasks": {"sort_digits": {}, "chain_sum": {"weight": 2}}, "budget": {"steps": 1}}


def test_a_single_task_is_as_it_was() -> None:
    config = resolve([("f", {"task": "countdown", "budget": {"steps": 1}})])
    assert (title(config), config.tasks) == ("countdown", {})
    assert config.task_args["numbers"] == [2, 3, 4], "its starter's recipe"
    (name,) = tasks = load_tasks(config)
    assert name == "countdown" and tasks[name].train[0].uid == "countdown/train:0"


def test_a_mixture_takes_each_starter_s_task_settings() -> None:
    config = resolve([("f", merge(TWO, {"tasks": {"countdown": {"args": {"max_number": 20}}}}))])
    assert title(config) == "sort_digits+chain_sum+countdown"
    shown = State()
    shown.start(config, {})
    assert " on sort_digits+chain_sum+countdown, " in shown.head
    assert config.task == "sort_digits", "the first, whose starter and recipe are used"
    assert config.learner.updates_per_batch == 4
    assert config.tasks["countdown"].args == {**config.tasks["countdown"].args, "max_number": 20, "numbers": [2, 3, 4]}
    assert build(__import__("yaml").safe_load(dump_yaml(config))) == config
    own = resolve([("f", merge(TWO, {"task": "chain_sum"}))])
    assert (own.task, own.learner.updates_per_batch) == ("chain_sum", 1)
    assert {n: e.weight for n, e in data_sets(own).items()} == {"sort_digits": 1.0, "chain_sum": 2.0}


def test_data_sets_of_one_task_are_kept_apart() -> None:
    tasks = {
        "short": {"task": "sort_digits", "args": {"max_digits": 3}},
        "long": {"task": "sort_digits", "args": {"min_digits": 6, "max_digits": 8}},
    }
    loaded = load_tasks(resolve([("f", {"tasks": tasks, "budget": {"steps": 1}})]))
    prompts = [t.train[4] for t in loaded.values()]
    assert [p.uid for p in prompts] == ["short/sort_digits/train:4", "long/sort_digits/train:4"]
    assert [p.task for p in prompts] == ["short", "long"]
    assert loaded["long"].heldout[0].uid == "long/sort_digits/heldout:0"


def test_stages_may_name_tasks_by_themselves() -> None:
    stages = [{"tasks": {"chain_sum": 1}, "until": {"steps": 2}}, {"tasks": {"chain_sum": 1, "sort_digits": 3}}]
    config = resolve([("f", {"curriculum": {"stages": stages}, "budget": {"steps": 1}})])
    assert list(load_tasks(config)) == ["chain_sum", "sort_digits"] and config.task == "chain_sum"


@pytest.mark.parametrize(
    "tree,words",
    [
        ({"curriculum": {"stages": [{}, {}]}}, "curriculum.stages[0] can never end; give until.steps"),
        ({"curriculum": {"stages": [{"until": {"window": 3}}, {}]}}, "curriculum.stages[0] can never end"),
        ({"curriculum": {"stages": [{"until": {"steps": 3}}]}}, "the last, which ends with the budget"),
        ({"curriculum": {"stages": [{"until": {"plateau": "loss"}}, {}]}}, "until.plateau is 'loss'; one of accuracy"),
        ({"curriculum": {"stages": [{"until": {"epoch": 3}}, {}]}}, "until.epochs'?"),
        ({"curriculum": {"stages": [{"reset": ["weights"]}]}}, "stages[0].reset[0] is 'weights'; one of optimizer"),
        ({"curriculum": {"stages": {"a": 1}}}, "curriculum.stages is {'a': 1}; it is a list"),
        ({"curriculum": {"stages": [{"tasks": {"sort_digits": 0}}]}}, "tasks.sort_digits is 0.0; it must be at least"),
        (
            {"curriculum": {"stages": [{"tasks": {"sort_digit": 1}}]}},
            "unknown task 'sort_digit'; did you mean 'sort_digits'?",
        ),
        ({"tasks": {"a": {}}}, "unknown task 'a'"),
        ({"tasks": {"a b": {"task": "chain_sum"}}}, "a name is made of letters, digits and _ . -"),
        ({"tasks": {"a": {"task": "chain_sum", "weight": -1}}}, "tasks.a.weight is -1.0; it must be at least"),
        ({"tasks": {"a": {"task": "chain_sum"}}, "task_args": {"max_terms": 3}}, "give tasks.a.args"),
        ({"tasks": ["chain_sum"]}, "it is a mapping of names"),
    ],
)
def test_one_line_says_what_is_wrong(tree: Tree, words: str) -> None:
    with pytest.raises(UserError) as error:
        resolve([("f", {"budget": {"steps": 1}, **tree})])
    assert words in str(error.value) and "\n" not in str(error.value) and str(error.value).startswith("f")


def test_a_wrong_setting_of_a_data_set_names_it() -> None:
    config = resolve(
        [("f", {"tasks": {"chain": {"task": "chain_sum", "args": {"max_term": 3}}}, "budget": {"steps": 1}})]
    )
    with pytest.raises(UserError, match=r"unknown key 'tasks\.chain\.args\.max_term'; did you mean 'max_terms'"):
        load_tasks(config)


@pytest.mark.parametrize("section", [TaskConfig, UntilConfig, StageConfig, MoppsConfig])
def test_keys_inside_lists_and_mappings_are_explained_and_read(section: type) -> None:
    source = ROOT / "src" / "rollwise"
    read = {
        node.attr
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    for field in dataclasses.fields(section):
        assert field.metadata["doc"] and field.name in read, field.name


# --- through the real loop --------------------------------------------------------------------------------------------

MIX: Tree = {
    "tasks": {
        "sort": {"task": "sort_digits", "args": {"max_digits": 8, "train_size": 30}},
        "chain_sum": {"weight": 2, "args": {"max_terms": 4, "train_size": 30}},
    },
    "log.rollouts": True,
}
STAGES: list[Tree] = [
    {"tasks": {"sort": 1}, "until": {"steps": 3}},
    {"tasks": {"sort": 1, "chain_sum": 1}, "until": {"epochs": 1, "steps": 3}},
    {"tasks": {"chain_sum": 1, "sort": 2}, "reset": ["optimizer", "replay", "history"]},
]


@pytest.fixture
def mixed(tmp_path: Path) -> Callable[..., Finished]:
    """As `train`, with the data sets of `MIX`."""

    def go(method: str, more: Tree | None = None, *, name: str = "run") -> Finished:
        base = {k: v for k, v in SMALL.items() if k not in ("task", "task_args")}
        tree = merge(base, {"method": method, "output": str(tmp_path / name)})
        for dotted, value in {**MIX, **(more or {})}.items():
            tree = merge(tree, nest(dotted, value))
        return Finished(run.start(resolve([("test", tree)]), Console())[0])

    return go


def test_each_task_is_verified_counted_and_evaluated_by_itself(mixed: Callable[..., Finished]) -> None:
    done = mixed("popo", {"budget.steps": 5})
    groups = done.groups()
    tasks = {"sort": "sort_digits", "chain_sum": "chain_sum"}
    assert Counter(g["prompt"]["task"] for g in groups) == {"chain_sum": 20, "sort": 10}
    config = build(read_yaml(done.folder / "config.yaml"))
    loaded = load_tasks(config)
    for g in groups:
        prompt = g["prompt"]
        assert loaded[prompt["task"]].name in tasks
        assert prompt == loaded[prompt["task"]].train[prompt["row"]].to_json() | {
            "occurrence": prompt["occurrence"],
            "row": prompt["row"],
        }
        for r in g["rollouts"]:
            said = Completion(prompt=Prompt.from_json(prompt), text=r["text"], stop=StopReason(r["stop"]))
            (verdict,) = loaded[prompt["task"]].judge([said])
            assert verdict.to_json() == r["verdict"]
    for step in done.steps:
        own = [g for g in groups if g["step"] == step["step"]]
        for task in tasks:
            members = [r for g in own if g["prompt"]["task"] == task for r in g["rollouts"]]
            got = {k: step["metrics"][f"task/{task}/{k}"] for k in ("accuracy", "reward", "mean_length", "rollouts")}
            right = [r["verdict"]["kind"] == "correct" for r in members]
            assert got["rollouts"] == len(members)
            assert got["accuracy"] == pytest.approx(sum(right) / len(members))
            assert got["reward"] == pytest.approx(sum(r["reward"] for r in members) / len(members))
            assert got["mean_length"] == pytest.approx(sum(len(r["completion_ids"]) for r in members) / len(members))
    for unit in ("rollouts", "tokens"):
        total = sum(sum(done.metric(f"task/{task}/{unit}")) for task in tasks)
        assert total == done.ledger["generated"][unit], "the tasks' own counts are the ledger's"
    for event in done.evals:
        each = [event["results"][f"task/{task}/accuracy"] for task in tasks]
        assert event["results"]["accuracy"] == pytest.approx(sum(each) / 2)
        assert event["prompts"] == 16, "8 of each"
    assert done.events[0]["task"] == "sort+chain_sum"


def test_a_staged_run_switches_resets_and_resumes_exactly(mixed: Callable[..., Finished]) -> None:
    more: Tree = {"curriculum.stages": STAGES, "curriculum.drop_solved": True, "learner.lr": 1e-3}
    whole = mixed("popo", {**more, "budget.steps": 8}, name="whole")
    assert whole.metric("curriculum/stage") == [1, 1, 1, 2, 2, 2, 3, 3]
    notes = [(s["step"], n) for s in whole.steps for n in s["notes"]]
    assert [n for n in notes if "stage" in n[1]] == [
        (3, "stage 1 of 3 ended after 3 steps: its steps are done"),
        (6, "stage 2 of 3 ended after 3 steps: its steps are done"),
    ]
    drawn = {s: Counter(g["prompt"]["task"] for g in whole.groups() if g["step"] == s) for s in range(1, 9)}
    assert (
        drawn[3] == {"sort": 6} and drawn[5] == {"sort": 3, "chain_sum": 3} and drawn[8] == {"sort": 4, "chain_sum": 2}
    )
    uids = [g["uid"] for g in whole.groups()]
    assert len(set(uids)) == len(uids)
    sizes = whole.metric("replay/size")
    assert sizes[2] > 0 and sizes[5] == 0, "stored groups go on into stage 2 and not into stage 3"
    assert whole.steps[6]["metrics"]["replay/groups"] == 0
    for cut in (3, 5, 6):
        name = f"cut{cut}"
        part = mixed("popo", {**more, "budget.steps": cut}, name=name)
        if cut == 6:
            learner = checkpoint.load(part.folder / "checkpoints" / "step_6")["loop"]["learner"]
            assert learner["updates"] > 0
            assert not any(np.any(value) for of in learner["moments"].values() for value in of.values())
        resumed = again(part.folder, budget__steps=8)
        assert without_settings(resumed.events) == without_settings(whole.events)
        assert resumed.weights() == whole.weights()


def test_a_reset_left_out_would_be_seen(mixed: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch) -> None:
    more: Tree = {"curriculum.stages": STAGES, "learner.lr": 1e-3, "budget.steps": 8}
    whole = mixed("popo", more, name="whole")
    kept = [*STAGES[:2], {**STAGES[2], "reset": ["history", "replay"]}]
    moments = mixed("popo", {**more, "curriculum.stages": kept}, name="moments")
    assert moments.weights() != whole.weights()
    kept = [*STAGES[:2], {**STAGES[2], "reset": ["history", "optimizer"]}]
    assert mixed("popo", {**more, "curriculum.stages": kept}, name="stored").weights() != whole.weights()


@pytest.mark.parametrize("method", ["popo-hybrid", "per", "arpo"])
def test_every_store_can_begin_anew(mixed: Callable[..., Finished], method: str) -> None:
    stages: list[Tree] = [{"until": {"steps": 3}}, {"reset": ["replay"]}]
    more: Tree = {"curriculum.stages": stages, "budget.steps": 3}
    more |= {"replay.warmup_steps": 0} if method == "per" else {}
    done = mixed(method, more, name="switched")
    state = checkpoint.load(done.folder / "checkpoints" / "step_3")["loop"]["replay"]
    other = mixed(method, {**more, "curriculum.stages": [], "budget.steps": 3}, name="whole")
    kept = checkpoint.load(other.folder / "checkpoints" / "step_3")["loop"]["replay"]
    assert not same(state, kept), "something had been stored"
    assert same(state, parts.replay(build(read_yaml(done.folder / "config.yaml"))).state_dict())


def test_mopps_over_filters_keeps_tasks_apart(mixed: Callable[..., Finished]) -> None:
    done = mixed("mopps-popo", {"curriculum.drop_solved": True, "curriculum.mopps.pool_factor": 2, "budget.steps": 5})
    state = checkpoint.load(done.folder / "checkpoints" / "step_5")["loop"]["curriculum"]["parts"]
    for task in ("sort", "chain_sum"):
        rows = {g["prompt"]["row"] for g in done.groups() if g["prompt"]["task"] == task}
        assert set(state[task]["rows"].tolist()) == rows


def test_one_task_can_have_stages_too(train: Callable[..., Finished]) -> None:
    stages = [{"until": {"steps": 2}}, {"reset": ["optimizer"]}]
    done = train("grpo", {"curriculum.stages": stages})
    assert done.metric("curriculum/stage") == [1, 1, 2, 2]
    assert not [k for k in done.steps[0]["metrics"] if k.startswith("task/")]


def test_the_example_of_a_staged_run(tmp_path: Path) -> None:
    recipe = read_yaml(ROOT / "examples" / "two_stages.yaml")
    config = resolve([("example", recipe)])
    assert (config.task, title(config), config.method) == ("sort_digits", "short+long", "srpo")
    assert data_sets(config)["short"].args == {"max_digits": 9, "train_size": 600}
    first = {"plateau": "accuracy", "window": 1, "min_gain": 1.0, "patience": 1}
    stages = [{**recipe["curriculum"]["stages"][0], "until": first}, *recipe["curriculum"]["stages"][1:]]
    small: Tree = {
        "prompts_per_step": 6,
        "group_size": 4,
        "eval": {"prompts": 4, "every": None},
        "log": {"report": False},
    }
    small |= {"output": str(tmp_path / "run"), "budget": {"rollouts": 96}, "curriculum": {"stages": stages}}
    done = Finished(run.start(resolve([("example", recipe), ("test", small)]), Console())[0])
    assert done.metric("curriculum/stage") == [1, 1, 2, 2]
    assert all(s["metrics"]["task/long/rollouts"] == 12 for s in done.steps[2:])
    assert typing.cast(Tree, done.evals[-1]["results"])["task/long/accuracy"] >= 0
