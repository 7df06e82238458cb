"""The tasks that ask rows: the split, templates and settings; and whole runs on rows through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollwise.audit.golds import audit_golds, check_golds
from rollwise.cli import main
from rollwise.errors import UserError
from rollwise.records import Prompt
from rollwise.tasks import anchored, make_task
from rollwise.verify.scoring import Completion
from tests.models import tiny_model

GSM8K = [
    {"question": f"What is {i} plus 2?", "answer": f"{i}+2=<<{i}+2={i + 2}>>{i + 2}\n#### {i + 2}"} for i in range(40)
]


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(r) for r in rows), encoding="utf-8")
    return str(path)


def build(name: str, **args: Any) -> Any:
    return make_task(name, args, starter=False)


def prompts(source: Any) -> list[Prompt]:
    return [source[i] for i in range(len(source))]


def content(prompt: Prompt) -> str:
    return str(prompt.messages[-1]["content"]) if prompt.messages else str(prompt.text)


# -- the split -------------------------------------------------------------------------------------------------------


def test_an_eighth_is_held_out_and_equal_questions_stay_together(tmp_path: Path) -> None:
    rows = [{"question": f"What is {i % 100} plus 2?", "answer": f"#### {i % 100 + 2}"} for i in range(400)]
    task = build("gsm8k", data=write(tmp_path / "a.jsonl", rows))
    train, heldout = prompts(task.train), prompts(task.heldout)
    assert len(train) + len(heldout) == 400 and 20 < len(heldout) < 90
    assert not {content(p) for p in train} & {content(p) for p in heldout}
    uids = [p.uid for p in train + heldout]
    assert len(set(uids)) == 400  # rows that ask the same stay apart
    assert {int(u.split(":")[1]) for u in uids} == set(range(400))
    assert all(p.uid.startswith("gsm8k/train:") for p in train)
    again = build("gsm8k", data=task.args.data)
    assert prompts(again.train) == train
    assert [p.uid for p in prompts(build("gsm8k", data=task.args.data, split_seed=1).heldout)] != [
        p.uid for p in heldout
    ]


def test_held_out_rows_leave_training(tmp_path: Path) -> None:
    data, held = write(tmp_path / "a.jsonl", GSM8K), write(tmp_path / "b.jsonl", [*GSM8K[:3], GSM8K[0]])
    task = build("gsm8k", data=data, heldout_data=held)
    assert [p.uid for p in prompts(task.heldout)] == [f"gsm8k/heldout:{i}" for i in range(4)]
    assert [p.uid for p in prompts(task.train)] == [f"gsm8k/train:{i}" for i in range(3, 40)]
    assert "3 training rows are also held out and were left out of training" in task.notes


def test_splits_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", GSM8K[:30])
    write(tmp_path / "test.jsonl", GSM8K[30:])
    task = build("gsm8k", data=str(tmp_path), heldout_split="test", limit=20)
    assert (len(task.train), len(task.heldout)) == (20, 10)
    assert len(build("gsm8k", data=str(tmp_path), split="test", heldout_split="train").train) == 10


def test_notes_say_what_was_done(tmp_path: Path) -> None:
    task = build("data", data=write(tmp_path / "a.jsonl", GSM8K))
    notes = " | ".join(task.notes)
    assert "prompt <- question, gold <- answer; rows by verifier: gsm8k 40" in notes
    assert "golds reduced to the final answer: 40 by ####" in notes
    assert "an eighth by question is held out" in notes
    assert all("\n" not in note for note in task.notes)


# -- templates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rows", "says"),
    [
        ("gsm8k", GSM8K, '"#### "'),
        ("math", GSM8K, "\\boxed{}"),
        ("exact", GSM8K, "<answer>"),
        (
            "choice",
            [{"question": f"{i}?", "choices": ["red", "blue"], "answer": i % 2} for i in range(40)],
            "\n\nA. red\nB. blue\n\n",
        ),
        ("data", [{"nums": [i, 2], "target": i + 2} for i in range(40)], "<answer>(1+2)*3</answer>"),
        (
            "code",
            [
                {"text": f"Write a function that adds {i}.", "code": "", "test_list": [f"assert add{i}(1) == {i + 1}"]}
                for i in range(40)
            ],
            "assert add",
        ),
    ],
)
def test_text_is_told_how_to_answer(tmp_path: Path, name: str, rows: list[dict[str, Any]], says: str) -> None:
    data = write(tmp_path / "a.jsonl", rows)
    asked = content(build(name, data=data).train[0])
    assert says in asked
    bare = build(name, data=data, template="none").train[0]
    assert bare.messages is None and bare.text is not None and asked.startswith(bare.text)
    base = build(name, data=data, template="base").train[0]
    assert base.text is not None and base.text.endswith("Assistant: <think>") and says in base.text


def test_prompts_that_say_how_to_answer_stay(tmp_path: Path) -> None:
    rows = [{"prompt": f"What is {i} + 1? Put it in \\boxed{{}}.", "solution": f"{i + 1}"} for i in range(40)]
    assert content(build("math", data=write(tmp_path / "a.jsonl", rows)).train[0]).endswith("in \\boxed{}.")
    opened = [{**r, "prompt": f"{r['prompt']}\nAssistant: <think>"} for r in rows]
    assert build("math", data=write(tmp_path / "b.jsonl", opened)).train[0].text.endswith("<think>")


def test_messages_stay_and_a_system_message_takes_the_place_of_theirs(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "old"}, {"role": "user", "content": "1 + 1?"}]
    data = write(
        tmp_path / "a.jsonl",
        [{"messages": [*messages[:1], {**messages[1], "content": f"{i} + 1?"}], "answer": "2"} for i in range(40)],
    )
    assert build("math", data=data).train[0].messages[0] == messages[0]
    task = build("math", data=data, system="new", template="instruct")
    assert task.train[0].messages[0]["content"] == "new" and len(task.train[0].messages) == 2
    assert task.train[0].messages[1]["content"].endswith("\\boxed{}.")
    with pytest.raises(UserError, match="base is plain text and cannot hold"):
        build("math", data=data, system="new", template="base").train[0]


# -- judging ---------------------------------------------------------------------------------------------------------


def test_rows_are_judged_by_their_own_verifier(tmp_path: Path) -> None:
    rows = [
        {"data_source": s, "prompt": f"{s} {i}", "reward_model": {"ground_truth": g}}
        for i in range(20)
        for s, g in (("openai/gsm8k", "1000"), ("lighteval/MATH", "\\frac12"), ("Idavidrein/gpqa", "B"))
    ]
    task = build("data", data=write(tmp_path / "a.jsonl", rows))
    said = {"gsm8k": "#### 1,000", "math": "\\boxed{0.5}", "choice": "\\boxed{(B)}"}
    asked = [Completion(prompt=p, text=said[p.meta["verifier"]]) for p in prompts(task.train)]
    verdicts = task.judge(asked)
    assert {v.kind for v in verdicts} == {"correct"} and len(verdicts) == len(asked)
    assert {v.kind for v in task.judge([Completion(prompt=c.prompt, text="\\boxed{7}") for c in asked])} <= {
        "wrong",
        "invalid",
    }


def test_golds_that_fail_their_own_verifier_are_found(tmp_path: Path) -> None:
    rows = [*GSM8K, *({"question": f"bad {i}", "answer": "#### many"} for i in range(8))]
    task = build("gsm8k", data=write(tmp_path / "a.jsonl", rows))
    found = audit_golds(prompts(task.train), task.judge, task.restated)
    bad = [p.uid for p in prompts(task.train) if p.answer == "many"]
    assert bad and [f.uid for f in found.failed] == bad and found.checked == len(task.train)
    assert f"{len(bad)} of {len(task.train)} golds checked are not right" in str(check_golds(task))
    assert check_golds(build("gsm8k", data=write(tmp_path / "b.jsonl", GSM8K))) is None
    with pytest.raises(UserError, match="check the gold column and the verifier"):
        check_golds(build("gsm8k", data=write(tmp_path / "c.jsonl", rows[40:] * 5)))
    assert check_golds(make_task("chain_sum", {}, starter=True)) is None


def test_settings_of_a_verifier_pass_through(tmp_path: Path) -> None:
    rows = [{"question": f"q{i}", "test_list": [f"assert f(1) == {i}"]} for i in range(20)]
    data = write(tmp_path / "a.jsonl", rows)
    task = build("code", data=data, verifier_args={"test_seconds": 3})
    assert task._verifiers["code"].settings.test_seconds == 3
    by_name = build("data", data=data, verifier_args={"code": {"test_seconds": 4}})
    assert by_name._verifiers["code"].settings.test_seconds == 4
    with pytest.raises(UserError, match=r"task_args.verifier_args.math is .* by verifier of these rows: code"):
        build("data", data=data, verifier_args={"math": {}})


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({}, "task_args.data is missing; task math needs a file"),
        ({"data": 3}, "task_args.data is 3; it must be text or null"),
        ({"data": []}, "task_args.data is []; it must be a list of texts"),
        ({"data": "x.jsonl", "map": "prompt"}, "task_args.map is 'prompt'; it must be a mapping"),
        ({"data": "x.jsonl", "map": {"gold": 3}}, "task_args.map.gold is 3; it must be text"),
        ({"data": "x.jsonl", "map": {"promt": "q"}}, "task_args.map.promt: no such part of a row"),
        ({"data": "x.jsonl", "verifier": "gsm8k"}, "it must be null or math with task math; task data takes any"),
        ({"data": "x.jsonl", "limit": 0}, "task_args.limit is 0"),
        ({"data": "x.jsonl", "bad_rows": "drop"}, "one of error, skip"),
        ({"data": "x.jsonl", "verifier_args": [1]}, "task_args.verifier_args is [1]; it must be a mapping"),
    ],
)
def test_wrong_settings(args: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as error:
        build("math", **args)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_an_unknown_verifier_is_named() -> None:
    with pytest.raises(UserError, match="did you mean 'math'"):
        build("data", data="x.jsonl", verifier="maths")


def test_too_few_rows(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no row falls into the held-out eighth"):
        build("gsm8k", data=write(tmp_path / "a.jsonl", GSM8K[:1]))


def test_paths_are_anchored_and_hub_names_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert anchored({"data": "a.jsonl", "heldout_data": ["b/c.jsonl", "openai/gsm8k@test"], "limit": 3}) == {
        "data": str(tmp_path / "a.jsonl"),
        "heldout_data": [str(tmp_path / "b/c.jsonl"), "openai/gsm8k@test"],
        "limit": 3,
    }


# -- runs ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("model"), "Qwen2"))


def run(*words: str) -> int:
    return main(list(words))


def train(model: str, output: Path, task: str, steps: int, **args: Any) -> int:
    own = {"reward.function": "reward.py:varied"} if Path("reward.py").exists() else {}
    sets = {
        **own,
        "prompts_per_step": 3,
        "group_size": 2,
        "eval.every": "null",
        "eval.prompts": 2,
        "sampling.max_completion_length": 8,
        "budget.steps": steps,
        "checkpoint.every": 1,
        "log.rollouts": "true",
        "log.report": "false",
        **{f"task_args.{k}": json.dumps(v) for k, v in args.items()},
    }
    words = [w for k, v in sets.items() for w in ("--set", f"{k}={v}")]
    return run("train", "--quiet", "--task", task, "--model", model, "--output", str(output), *words)


# A random model gives no right answers; so that there is something to learn, what trains is how varied they are.
REWARD = "def varied(completions, **columns):\n    return [len(set(str(c))) / 10 for c in completions]\n"


def verl_rows() -> list[dict[str, Any]]:
    return [
        {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": f"What is {i} plus 2?"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(i + 2)},
            "extra_info": {"index": i, "split": "train"},
        }
        for i in range(40)
    ]


def mixed_rows() -> list[dict[str, Any]]:
    sources = [("openai/gsm8k", "3"), ("math_dapo", "\\frac{1}{2}"), ("Idavidrein/gpqa", "C")]
    return [
        {"data_source": s, "prompt": f"{s} {i}", "reward_model": {"ground_truth": g}}
        for i in range(15)
        for s, g in sources
    ]


@pytest.mark.parametrize("kind", ["gsm8k", "verl", "mixed"])
def test_a_run_on_rows_stops_and_resumes_from_any_folder(
    tmp_path: Path, model: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    file, task = "rows.jsonl", "gsm8k" if kind == "gsm8k" else "data"
    if kind == "verl":
        import pyarrow as pa
        import pyarrow.parquet as pq

        file = "rows.parquet"
        pq.write_table(pa.Table.from_pylist(verl_rows()), here / file)
    else:
        write(here / file, GSM8K if kind == "gsm8k" else mixed_rows())
    (here / "reward.py").write_text(REWARD)
    monkeypatch.chdir(here)
    assert train(model, tmp_path / "whole", task, 3, data=file) == 0
    assert train(model, tmp_path / "cut", task, 1, data=file) == 0
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    assert run("resume", str(tmp_path / "cut"), "--quiet", "--set", "budget.steps=3") == 0
    whole, cut = (_steps(tmp_path / name) for name in ("whole", "cut"))
    assert len(whole) == 3 and cut == whole and whole[-1]["updates"] == 3
    assert _weights(tmp_path / "cut") == _weights(tmp_path / "whole")
    groups = [json.loads(line) for line in (tmp_path / "cut" / "rollouts.jsonl").read_text().splitlines()]
    assert len(groups) == 9 and len({g["uid"] for g in groups}) == 9
    verdicts = [r["verdict"]["kind"] for g in groups for r in g["rollouts"]]
    assert "infra_error" not in verdicts


def _weights(folder: Path) -> bytes:
    return (folder / "checkpoints" / "step_3" / "model" / "model.safetensors").read_bytes()


def _steps(folder: Path) -> list[Any]:
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return [e for e in events if e["event"] == "step"]


def test_a_resumed_run_notices_rows_that_changed(
    tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write(tmp_path / "rows.jsonl", GSM8K)
    assert train(model, tmp_path / "run", "gsm8k", 1, data=data) == 0
    write(tmp_path / "rows.jsonl", [{**GSM8K[0], "question": "What is new?"}, *GSM8K[1:]])
    assert run("resume", str(tmp_path / "run"), "--quiet", "--set", "budget.steps=2") == 2
    assert "its data has changed since it began" in capsys.readouterr().err


MISTAKES: list[tuple[str, list[dict[str, Any]] | bytes, str]] = [
    ("null gold", [*GSM8K, {"question": "?", "answer": None}], "line 41: no gold (answer is null)"),
    ("no column", [{"foo": 1}], "no column for the prompt"),
    ("unknown source", [{**GSM8K[0], "data_source": "mine"}], "data_source 'mine' names no data set"),
    (
        "ambiguous",
        [{"problem": "?", "answer": "1", "solution": "\\boxed{2}"}],
        "line 1: the gold answer could be answer ('1') or solution ('2')",
    ),
    ("pointer", b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
    ("outside", [{**GSM8K[0], "image": "../../x.png"}], "outside the data's folder"),
    ("long line", b'{"a": "' + b"x" * (20 << 20) + b'"}', "a row has at most 16,777,216"),
    ("deep", b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", "nested"),
    ("encoding", '{"question": "\u00e9"}'.encode("latin-1"), "not UTF-8 text"),
    ("all golds bad", [{"question": f"q{i}", "answer": "#### many"} for i in range(40)], "check the gold column"),
]


@pytest.mark.parametrize(("rows", "says"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_mistakes_are_one_line_and_status_2(
    tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str], rows: list[dict[str, Any]] | bytes, says: str
) -> None:
    path = tmp_path / "rows.jsonl"
    if isinstance(rows, bytes):
        path.write_bytes(rows)
    else:
        write(path, rows)
    assert train(model, tmp_path / "run", "data", 1, data=str(path)) == 2
    error = capsys.readouterr().err
    assert error.startswith("rollwise: error: ") and error.count("\n") == 1 and says in error
    assert not (tmp_path / "run").exists()
