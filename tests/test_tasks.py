"""The tasks: prompts by index, a split that cannot leak, settings and files with errors that say what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.errors import UserError
from rollwise.records import Prompt, StopReason
from rollwise.tasks import describe, make_task, task_names
from rollwise.tasks.expressions import make_problem
from rollwise.tasks.sources import HELDOUT_SHARE, is_held_out
from rollwise.verify.arithmetic import parse

NAMES = ["sort_digits", "chain_sum", "countdown"]
SMALL: dict[str, dict[str, Any]] = {
    "sort_digits": {"max_digits": 6},
    "chain_sum": {"max_terms": 4},
    "countdown": {"numbers": [2, 3], "max_number": 9, "min_target": 1, "max_target": 30},
}


def build(name: str, starter: bool = True, **args: Any) -> Any:
    return make_task(name, args, starter=starter)


def shown(prompt: Prompt) -> str:
    return prompt.text if prompt.text is not None else (prompt.messages or [])[0]["content"]


def canonical(prompt: Prompt) -> str:
    """The key of a prompt, worked out from what is shown and not by the task's own code."""
    question = shown(prompt).removesuffix("=")
    if prompt.task == "sort_digits":
        return "".join(sorted(question))
    if prompt.task == "chain_sum":
        return ",".join(sorted(("+" + question).replace("+", " +").replace("-", " -").split()))
    numbers, target = question.split(":")
    return ",".join(sorted(numbers.split(","))) + ":" + target


# -- the table -------------------------------------------------------------------------------------------------------


def test_table() -> None:
    assert task_names()[: len(NAMES)] == NAMES
    assert list(describe()) == task_names()
    assert all(text and "\n" not in text for text in describe().values())


def test_unknown_task_names_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'countdown'"):
        build("count_down")
    with pytest.raises(UserError, match="known: chain_sum, choice, code, countdown"):
        build("zzz")


@pytest.mark.parametrize(
    ("name", "args", "says"),
    [
        ("sort_digits", {"max_digit": 5}, "task_args.max_digit'; did you mean 'max_digits'"),
        ("sort_digits", {"max_digits": "5"}, "task_args.max_digits is '5'; it must be a whole number"),
        ("sort_digits", {"max_digits": True}, "task_args.max_digits is True; it must be a whole number"),
        ("sort_digits", {"max_digits": 0}, "task_args.max_digits is 0; it must be a whole number of at least 1"),
        ("sort_digits", {"min_digits": 9, "max_digits": 3}, "at least task_args.min_digits"),
        ("sort_digits", {"template": "chat"}, "task_args.template is 'chat'; it must be one of auto, bare, instruct"),
        ("sort_digits", {"min_digits": 1, "max_digits": 1, "train_size": 0}, "task_args.train_size is 0"),
        ("chain_sum", {"max_terms": 1}, "at least 2"),
        ("chain_sum", {"max_total": 3}, "at least task_args.max_operand"),
        ("countdown", {"numbers": 3}, "task_args.numbers is 3; it must be a list of whole numbers"),
        ("countdown", {"numbers": []}, "a list of whole numbers"),
        ("countdown", {"numbers": [3, "4"]}, "a list of whole numbers"),
        ("countdown", {"numbers": [1]}, "at least 2"),
        ("countdown", {"operators": "+^"}, "task_args.operators"),
        ("countdown", {"reward": "dense"}, "one of binary, shaped"),
        ("countdown", {"heldout_data": "x.jsonl"}, "task_args.data"),
        ("countdown", {"min_target": 50, "max_target": 40}, "at least task_args.min_target"),
        ("countdown", {"data": 3}, "task_args.data is 3; it must be text or null"),
    ],
)
def test_wrong_settings(name: str, args: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as error:
        build(name, **args)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_impossible_questions_end_in_an_error() -> None:
    task = build("countdown", numbers=[2], max_number=2, min_target=500, max_target=600)
    with pytest.raises(UserError, match="widen"):
        task.train[0]


def test_a_space_too_small_to_split_ends_in_an_error() -> None:
    task = build("chain_sum", max_terms=2, max_operand=1, max_total=1)  # one question only: 1-1
    with pytest.raises(UserError, match="too few questions"):
        task.train[0]
        task.heldout[0]


# -- the sources -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_prompts_are_pure_functions_of_their_index(name: str) -> None:
    one, two = build(name), build(name)
    order = [7, 3, 999_999, 3, 0]
    assert [one.train[i] for i in order] == [two.train[i] for i in order]
    assert [one.heldout[i] for i in (40, 3)] == [two.heldout[i] for i in range(41)][40::-37]
    assert build(name, data_seed=1).train[3] != one.train[3]
    assert one.train[3].uid == f"{name}/train:3"
    assert one.heldout[3].uid == f"{name}/heldout:3"
    assert one.train[3].task == name
    assert Prompt.from_json(json.loads(json.dumps(one.train[3].to_json()))) == one.train[3]


@pytest.mark.parametrize("name", NAMES)
def test_sizes(name: str) -> None:
    task = build(name, train_size=1000, heldout_size=50)
    assert (len(task.train), len(task.heldout)) == (1000, 50)
    assert (len(build(name).train), len(build(name).heldout)) == (1_000_000, 10_000)
    for source in (task.train, task.heldout):
        for index in (-1, len(source)):
            with pytest.raises(IndexError):
                source[index]
    assert task.train[999] == build(name).train[999]  # the size only says where the list ends


@pytest.mark.parametrize("name", NAMES)
def test_small_spaces_do_not_leak(name: str) -> None:
    """In a space small enough that nearly every question turns up, no key is on both sides."""
    task = build(name, **SMALL[name])
    train = {canonical(task.train[i]) for i in range(3000)}
    heldout = {canonical(task.heldout[i]) for i in range(300)}
    assert not train & heldout
    # A split on the prompt's text would have leaked here: held-out questions have rearrangements of another hash.
    leaks = 0
    for index in range(300):
        question = shown(task.heldout[index]).removesuffix("=")
        leaks += not is_held_out(question)
    assert leaks > 100


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(NAMES), st.integers(0, 10**6 - 1), st.integers(0, 30), st.integers(0, 5))
def test_sides_of_the_split(name: str, i: int, j: int, seed: int) -> None:
    task = build(name, data_seed=seed, **SMALL[name])
    assert canonical(task.train[i]) != canonical(task.heldout[j])


def test_about_an_eighth_is_held_out() -> None:
    share = sum(is_held_out(str(i)) for i in range(8000)) / 8000
    assert abs(share - 1 / HELDOUT_SHARE) < 0.02


@pytest.mark.parametrize("name", NAMES)
def test_heldout_prompts_rarely_repeat(name: str) -> None:
    task = build(name)
    prompts = [task.heldout[i] for i in range(400)]
    large = [shown(p) for p in prompts if p.meta["size"] > 3]
    assert len(set(large)) == len(large)
    counts = Counter(p.meta["size"] for p in prompts)
    assert max(counts.values()) < 3 * min(counts.values())  # sizes stay even


# -- questions and verdicts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_demonstrations_are_correct_and_slips_are_not(name: str) -> None:
    task = build(name)
    rng = Random(0)
    for index in range(200):
        prompt = task.train[index]
        text = task.demonstration(prompt, rng)
        assert task.verify(text, prompt.answer, StopReason.eos).kind == "correct"
        assert task.verify(text, prompt.answer, StopReason.length).kind == "invalid"
        slip = text[:-1] + str((int(text[-1]) + 1) % 10) if text[-1].isdigit() else text + "+1"
        verdict = task.verify(slip, prompt.answer, StopReason.eos)
        assert verdict.kind in ("wrong", "invalid")
        assert verdict.score == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("template", ["instruct", "base"])
def test_longer_templates(name: str, template: str) -> None:
    task, bare = build(name, template=template), build(name)
    for index in range(20):
        prompt = task.train[index]
        assert prompt.answer == bare.train[index].answer  # the same question in other words
        text = shown(prompt)
        assert "<answer>" in text and "<think>" in text
        assert (prompt.text is not None) == (template == "base") == text.endswith("<think>")
        gold = bare.demonstration(bare.train[index], Random(0))
        tagged = f"first this</think> <answer>{gold}</answer>"
        assert task.verify(tagged, prompt.answer, StopReason.eos).kind == "correct"
        assert task.verify("<think>" + gold, prompt.answer, StopReason.eos).kind == "invalid"


@pytest.mark.parametrize("name", NAMES)
def test_auto_template(name: str) -> None:
    starter, other = build(name, starter=True).train[0], build(name, starter=False).train[0]
    assert starter.messages and starter.messages[0]["content"].endswith("=")
    assert other.messages and "<answer>" in other.messages[0]["content"]
    assert build(name, starter=False, template="bare").train[0] == starter


def test_sort_digits_questions() -> None:
    task = build("sort_digits")
    lengths: Counter[int] = Counter()
    for index in range(2000):
        prompt = task.train[index]
        digits = shown(prompt).removesuffix("=")
        lengths[len(digits)] += 1
        assert sorted(digits) == list(prompt.answer)
    assert set(lengths) == set(range(2, 21))
    assert min(lengths.values()) > 50


def test_chain_sum_questions() -> None:
    task = build("chain_sum")
    worked = 0
    for index in range(500):
        prompt = task.train[index]
        terms = [int(t) for t in shown(prompt).removesuffix("=").replace("-", "+-").split("+")]
        totals = [sum(terms[:n]) for n in range(1, len(terms) + 1)]
        assert all(0 <= t <= 20 for t in totals) and all(1 <= abs(t) <= 9 for t in terms)
        assert 2 <= len(terms) <= 7 and prompt.answer == totals[-1]
        worked += "," in task.demonstration(prompt, Random(index))
    assert 0.15 < worked / 500 < 0.4


@given(st.integers(0, 10**9), st.integers(2, 5))
def test_made_problems_are_solved_by_their_solution(seed: int, count: int) -> None:
    problem = make_problem(Random(seed), count, 1, 99, "+-*/")
    if problem is not None:
        parsed = parse(problem.solution)
        assert parsed.value == problem.target > 0
        assert parsed.used == Counter(problem.numbers)


def test_countdown_questions() -> None:
    task = build("countdown")
    sizes = Counter(len(task.train[i].answer["numbers"]) for i in range(400))
    assert set(sizes) == {3, 4}
    for index in range(400):
        answer = task.train[index].answer
        assert all(1 <= n <= 99 for n in answer["numbers"]) and 10 <= answer["target"] <= 100
    assert build("countdown", numbers=[4]).train[0].meta["size"] == 4


# -- files -----------------------------------------------------------------------------------------------------------

ROWS: list[dict[str, Any]] = [{"nums": [a, b, 7], "target": a + b + 7} for a in range(1, 12) for b in range(a, 12)]


def write(path: Path, rows: list[Any]) -> str:
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n", encoding="utf-8")
    return str(path)


def test_rows_are_split_by_key(tmp_path: Path) -> None:
    turned = [{"numbers": r["nums"][::-1], "target": r["target"], "extra": 1} for r in ROWS]
    task = build("countdown", data=write(tmp_path / "rows.jsonl", [*ROWS, "", *turned]))
    train = [task.train[i] for i in range(len(task.train))]
    heldout = [task.heldout[i] for i in range(len(task.heldout))]
    assert len(train) + len(heldout) == 2 * len(ROWS) and heldout
    assert not {canonical(p) for p in train} & {canonical(p) for p in heldout}
    assert train[0].uid == "countdown/train:0"
    assert len(build("countdown", data=task.args.data, train_size=5).train) == 5


def test_heldout_file_takes_its_rows_out_of_training(tmp_path: Path) -> None:
    data, held = write(tmp_path / "a.jsonl", ROWS), write(tmp_path / "b.jsonl", [{"nums": [7, 2, 1], "target": 10}])
    task = build("countdown", data=data, heldout_data=held)
    assert (len(task.heldout), len(task.train)) == (1, len(ROWS) - 1)
    assert task.notes == ("1 training rows are also held out and were left out of training",)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1, 2]", "a list and not an object"),
        ('{"target": 3}', "no 'nums' (or 'numbers')"),
        ('{"nums": [1, 2]}', "no 'target'"),
        ('{"nums": "1,2", "target": 3}', "'nums' is \"1,2\"; it must be a list"),
        ('{"nums": [], "target": 3}', "it must be a list of 1 to 16 whole numbers"),
        ('{"numbers": [1, 2.5], "target": 3}', "'numbers' is [1, 2.5]"),
        ('{"nums": [1, true], "target": 3}', "whole numbers"),
        ('{"nums": [1, -2], "target": 3}', "from 0"),
        ('{"nums": [1, 2], "target": "3"}', "'target' is \"3\"; it must be a whole number"),
        ('{"nums": [1, 2], "target": null}', "'target' is null"),
        ('{"nums": [1, 2], "target": NaN}', "'target' is NaN"),
    ],
)
def test_bad_rows(tmp_path: Path, line: str, says: str) -> None:
    path = write(tmp_path / "rows.jsonl", [ROWS[0], line])
    with pytest.raises(UserError) as error:
        build("countdown", data=path)
    assert str(error.value).startswith(f"{path} line 2: ") and says in str(error.value)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_bad_files(tmp_path: Path) -> None:
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    empty = write(tmp_path / "empty.jsonl", [])
    for path, says in [
        (str(tmp_path / "none.jsonl"), "No such file"),
        (str(tmp_path), "cannot be read"),
        (str(tmp_path / "binary.jsonl"), "not UTF-8"),
        (empty, "holds no rows"),
        (write(tmp_path / "one.jsonl", [{"nums": [1, 2], "target": 3}]), "give more rows"),
    ]:
        with pytest.raises(UserError) as error:
            build("countdown", data=path)
        assert path in str(error.value) and says in str(error.value) and "\n" not in str(error.value)


# -- weight ----------------------------------------------------------------------------------------------------------


def test_no_heavy_imports() -> None:
    code = (
        "import sys, rollwise.tasks, rollwise.verify.countdown, rollwise.starters; "
        "rollwise.tasks.make_task('countdown', {}, starter=True).train[0]; "
        "print(sorted({'torch', 'transformers', 'sympy', 'pandas'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
