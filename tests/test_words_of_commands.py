"""What errors recommend is what the command understands, and `--set task_args.*` is heard wherever `--set` is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollwise.cli.main import main, parser
from rollwise.data.wording import in_flags


def written(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    file = folder / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(file)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    sums = [{"question": f"What is {i}+{i}?", "answer": str(2 * i)} for i in range(40)]
    return {
        "rival": written(tmp_path, "rival.jsonl", [{**r, "final_answer": "-1"} for r in sums]),
        "words": written(tmp_path, "words.jsonl", [{**r, "answer": "a town called Rome"} for r in sums]),
        "source": written(tmp_path, "source.jsonl", [{**r, "data_source": "my/own"} for r in sums]),
        "bad": written(tmp_path, "bad.jsonl", [*sums[:5], {**sums[5], "answer": ""}, *sums[6:]]),
    }


EVAL = ("eval", "starter", "--task", "chain_sum", "--samples", "1", "--data")


@pytest.mark.parametrize(
    ("command", "file", "hint"),
    [
        (("check", "--data"), "rival", "for example --map gold=answer"),
        (("check", "--data"), "words", "give --task, for example exact"),
        (("check", "--data"), "source", "for example --task math"),
        (EVAL, "rival", "for example --map gold=answer"),
        (EVAL, "source", "for example --verifier math"),
        (EVAL, "bad", "--set task_args.bad_rows=skip leaves them out"),
        (("data", "grade", "--model", "x", "--output", "o", "FILE"), "source", "for example --task math"),
        (("data", "clean", "--output", "o", "--report", "r", "FILE"), "source", "for example --verifier math"),
        (("train", "--model", "x", "--data"), "source", "for example task_args.verifier=math"),
    ],
)
def test_hints_are_in_the_words_of_the_command(
    command: tuple[str, ...],
    file: str,
    hint: str,
    files: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [files[file] if a == "FILE" else a for a in command]
    assert main(given if "FILE" in command else [*given, files[file]]) == 2
    assert hint in capsys.readouterr().err


def checked(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    main(["check", "--json", *args])
    captured = capsys.readouterr()
    assert captured.out, captured.err
    found: dict[str, Any] = json.loads(captured.out)
    return found


def test_check_hears_task_args(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(capsys, "--data", files["rival"], "--set", "task_args.map.gold=answer")["ok"]
    assert checked(capsys, "--data", files["words"], "--set", "task_args.verifier=exact")["ok"]
    few = checked(capsys, "--data", files["bad"], "--set", "task_args.limit=5")
    assert few["ok"] and few["data"][files["bad"]]["rows"]["rows"]["rows"] == 5
    assert not checked(capsys, "--data", files["bad"])["ok"]
    assert checked(capsys, "--data", files["bad"], "--set", "task_args.bad_rows=skip")["ok"]
    assert checked(capsys, "--data", files["bad"], "--task", "math")["findings"]


def test_other_settings_of_files_alone_are_heard_or_refused(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    long = checked(capsys, "--data", files["words"], "--task", "exact", "--set", "sampling.max_prompt_length=1")
    assert "40 rows are over sampling.max_prompt_length" in long["findings"][0]
    for typed, said in (
        ("task_args.limt=3", "unknown key 'task_args.limt'; did you mean 'limit'?"),
        ("task_args.heldout_data=x", "here the rows are all those of"),
        ("task_args.verifier=maths", "did you mean 'math'?"),
    ):
        assert main(["check", "--data", files["words"], "--set", typed]) == 2
        assert said in capsys.readouterr().err


def test_eval_leaves_bad_rows_out_on_request_and_counts_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"question": f"{i}+2=", "answer": str(i + 2) if i != 3 else None} for i in range(6)]
    data = written(tmp_path, "sums.jsonl", rows)
    how = [*EVAL, data, "--template", "none", "--verifier", "exact", "--no-greedy", "--json"]
    assert main(how) == 2
    assert "line 4: no gold" in capsys.readouterr().err
    assert main([*how, "--set", "task_args.bad_rows=skip"]) == 0
    captured = capsys.readouterr()
    assert "1 of 6 rows left out" in captured.err
    assert "5 prompts x 1" in captured.err and json.loads(captured.out)["benchmarks"]["sums"]
    assert main([*how, "--set", "task_args.data=x"]) == 2
    assert "--data names the rows" in capsys.readouterr().err


def test_train_takes_data_and_map() -> None:
    from rollwise.cli.layers import layers

    args = parser().parse_args(["train", "--data", "a.jsonl", "--map", "gold=final answer", "--model", "m"])
    assert layers(args)[-1][1] == {
        "model": "m", "task": "data", "task_args": {"data": "a.jsonl", "map": {"gold": "final answer"}},
    }  # fmt: skip
    args = parser().parse_args(["train", "--data", "a", "--data", "b", "--task", "math"])
    assert layers(args)[-1][1] == {"task": "math", "task_args": {"data": ["a", "b"]}}
    args = parser().parse_args(["train", "--data", "a", "--set", "task=gsm8k"])
    assert "task" not in layers(args)[-1][1]


def test_train_with_data_for_a_task_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--data", "a.jsonl", "--task", "sort_digits"]) == 2
    assert "task sort_digits makes up its questions; for the rows of a file set task=data" in capsys.readouterr().err


def test_unrecognized_values_stay_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "r.yaml", "my file.yaml", "--colour", "dark red"]) == 2
    assert "unrecognized arguments: 'my file.yaml' --colour 'dark red'" in capsys.readouterr().err


def test_hints_of_a_named_data_set_name_its_settings(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    sets = ["--set", f"tasks.mine={{task: data, args: {{data: {files['source']}}}}}", "--set", "tasks.sort_digits=1"]
    assert main(["check", *sets, "--model", "m"]) == 2
    assert "for example tasks.mine.args.verifier=math" in capsys.readouterr().err


def test_in_flags() -> None:
    assert in_flags("task_args.verifier_args is 3") == "task_args.verifier_args is 3"
    assert in_flags("--set task_args.bad_rows=skip") == "--set task_args.bad_rows=skip"
