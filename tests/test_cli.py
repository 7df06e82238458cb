"""The command line: real commands, and one line with status 2 for everything a user can put right."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from rollwise.cli.main import main
from rollwise.config import read_yaml
from rollwise.methods import method_names
from rollwise.starters import starter_path
from tests.models import tiny_model

SMALL = ["--set", "prompts_per_step=4", "--set", "group_size=4", "--set", "eval.prompts=8", "--set", "eval.samples=1",
         "--set", "budget.steps=2", "--set", "task_args.max_digits=6"]  # fmt: skip


def refused(capsys: pytest.CaptureFixture[str], argv: list[str], words: str) -> None:
    status = main(argv)
    out, err = capsys.readouterr()
    assert status == 2, (out, err)
    assert err.count("\n") == 1 and err.startswith("rollwise: error: "), err
    assert words in err, err


def snapshot(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_help_is_quick_and_light() -> None:
    code = """
import sys
from rollwise.cli import main
try:
    main(["--help"])
except SystemExit:
    print([m for m in ("torch", "transformers", "numpy", "yaml") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip().endswith("[]"), done.stderr
    for command in ("train", "resume", "eval", "verify", "check", "data", "compare", "report", "methods"):
        assert command in done.stdout


@pytest.mark.parametrize(
    "more,words",
    [
        (["--set", "learner.lrate=3"], "--set: unknown key 'learner.lrate'; did you mean 'learner.lr'?"),
        (["--set", "group_size=many"], "--set: group_size is 'many'; it is a whole number"),
        (["--set", "group_size"], "give it as key=value"),
        (["--method", "pop"], "unknown method 'pop'; did you mean 'popo'?"),
        (["--task", "sort"], "unknown task 'sort'"),
        (["--set", "budget.rollouts=0"], "budget.rollouts is 0; it must be above 0"),
        (["--set", "budget.steps=0"], "budget.steps is 0; it must be above 0"),
        (["--seed", "one"], "--seed one: give a whole number"),
        (["--set", "task_args.max_digit=3"], "task_args.max_digit"),
        (["--set", "task_args.max_digits=lots"], "task_args.max_digits"),
        (["--model", "./no/such/folder"], "./no/such/folder is not a folder"),
        (["--set", "lr=3"], "unknown key 'lr'; did you mean 'critic.lr' or 'learner.lr'?"),
        (["--set", "sampling.max_prompt_length=2"], "sampling.max_prompt_length allows 1 to 2"),
        (["--set", "device=warp9"], "device"),
        (["nowhere.yaml"], "nowhere.yaml: cannot be read (No such file or directory)"),
        (["--bogus"], "unrecognized arguments: --bogus"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(capsys, ["train", *SMALL, *more], words)
    assert snapshot(tmp_path) == []


def test_a_recipe_with_a_mistake_names_file_and_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("method: popo\nbudget: {steps: 2}\nreplay: {max_ag: 4}\n")
    refused(capsys, ["train", str(recipe)], f"{recipe}: unknown key 'replay.max_ag'; did you mean 'replay.max_age'?")
    recipe.write_text("method: popo\n")
    refused(capsys, ["train", str(recipe)], "no budget; give one of")


BROKEN = ["no config", "bad config", "no weights", "cut weights", "pickled", "no tokenizer", "a weight missing",
          "a weight not finite", "too few token ids"]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
def test_an_unreadable_model_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(starter_path("sort_digits"), folder)
    weights = folder / "model.safetensors"
    if broken == "no config":
        (folder / "config.json").unlink()
    elif broken == "bad config":
        (folder / "config.json").write_text("{")
    elif broken == "no weights":
        weights.unlink()
    elif broken == "cut weights":
        weights.write_bytes(weights.read_bytes()[:1000])
    elif broken == "pickled":
        weights.rename(folder / "pytorch_model.bin")
    elif broken == "a weight missing":
        tensors = load_file(weights)
        del tensors["model.layers.0.self_attn.q_proj.weight"]
        save_file(tensors, weights, metadata={"format": "pt"})
    elif broken == "a weight not finite":
        tensors = load_file(weights)
        tensors["model.norm.weight"][3] = float("nan")
        save_file(tensors, weights, metadata={"format": "pt"})
    elif broken == "too few token ids":
        tensors = load_file(weights)
        tensors["model.embed_tokens.weight"] = tensors["model.embed_tokens.weight"][:8]
        save_file(tensors, weights, metadata={"format": "pt"})
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 8}))
    else:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name).unlink()
    output = tmp_path / "out"
    words = "its tokenizer is not this model's" if broken == "too few token ids" else "model: "
    refused(capsys, ["train", *SMALL, "--model", str(folder), "--output", str(output)], words)
    assert not output.exists()


@pytest.mark.parametrize(
    "rows,words",
    [
        ('{"nums": [3, 5], "target": 8}\n{"nums": [3, 5]}\n', "line 2"),
        ('{"nums": [3, 5], "target": 8}\n{"nums": [3, 5\n', "line 2"),
        ('{"nums": "3 5", "target": 8}\n', "line 1"),
        ("", "no"),
    ],
)
def test_data_rows_without_an_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: str, words: str) -> None:
    data = tmp_path / "d.jsonl"
    data.write_text(rows)
    argv = ["train", *SMALL[:-2], "--task", "countdown", "--output", str(tmp_path / "out")]
    refused(capsys, [*argv, "--set", f"task_args.data={data}"], words)
    refused(capsys, [*argv, "--set", f"task_args.data={data}x"], f"{data}x")
    assert not (tmp_path / "out").exists()


def test_an_output_folder_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    refused(capsys, ["train", *SMALL, "--output", str(tmp_path)], "is in use")
    refused(capsys, ["train", *SMALL, "--output", str(tmp_path / "precious.txt")], "is in use")
    assert snapshot(tmp_path) == ["precious.txt"]


def test_output_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    refused(capsys, ["train", *SMALL, "--output", str(tmp_path / "file" / "run")], "cannot be written")


@pytest.mark.parametrize(
    "argv,words",
    [
        ([], "required: COMMAND"),
        (["tarin"], "invalid choice: 'tarin'"),
        (["resume", "/nowhere"], "not a run folder"),
        (["report", "/nowhere"], "/nowhere"),
        (["eval", "nowhere"], "neither a folder nor a hub name"),
        (["train", "--threads", "100000"], "threads is 100000; this machine has"),
        (["eval", "./nowhere"], "not a folder"),
        (["eval", "starter", "--samples", "0"], "not at least 1"),
        (["eval", "starter", "--task", "sort"], "unknown task"),
        (["eval", "starter", "--temperature", "-1"], "at least 0.001"),
        (["eval", "starter", "--temperature", "1e-320"], "at least 0.001"),
        (["train", "--output", "a\0b"], "zero byte"),
        (["train", "--output", "a\ud800b"], "no path can"),
        (["train", "--output", "x" * 300], "File name too long"),
        (["train", "--method", "po\npo"], "unknown method"),
        (["train", "--set", "device=meta"], "device: meta is not usable here"),
        (["train", "--task", "countdown", "--set", "task_args={data: /dev/null}"], "not a file"),
        (["train", "--set", "task_args.train_size=1000000000000"], "task_args.train_size"),
        (["compare", "--methods", "grpo", "--rollouts", "300", "--seeds", "99999999999"], "at most 1,000 seeds"),
        (["methods", "pop"], "did you mean 'popo'?"),
        (["compare", "--methods", "grpo,pop", "--rollouts", "300"], "unknown method 'pop'"),
        (["compare", "--methods", "grpo,grpo", "--rollouts", "300"], "different names"),
        (["compare", "--methods", "grpo", "--rollouts", "10"], "the first step needs 256"),
        (["compare", "--methods", "grpo", "--rollouts", "300", "--seeds", "x"], "--seeds x"),
        (["compare", "--methods", "grpo", "--rollouts", "300", "--more", "dapo=2"], "--more dapo=2"),
        (["compare", "--methods", "grpo", "--rollouts", "300", "--set", "a.b=1"], "unknown key 'a'"),
        (["compare", "--methods", "grpo", "--rollouts", "300", "--targets", "60"], "between 0 and 1"),
    ],
)
def test_other_commands_refuse_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argv: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(capsys, argv, words)
    assert snapshot(tmp_path) == []


def test_train_resume_eval_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert main(["train", *SMALL, "--output", str(run)]) == 0
    out = capsys.readouterr().out
    for words in ("held-out accuracy", "Where the generated rollouts went", "Stopped by budget.steps", "report.html"):
        assert words in out
    assert "\x1b" not in out, "no control characters where there is no terminal"
    assert main(["resume", str(run), "--set", "budget.steps=3", "--quiet"]) == 0
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [e["step"] for e in events if e["event"] == "step"] == [1, 2, 3]
    assert [e["changed"] for e in events if e["event"] == "config"] == [{"budget.steps": [2, 3]}]
    assert (run / "report.html").read_text().lower().startswith("<!doctype html>")
    capsys.readouterr()
    assert main(["eval", str(run), "--prompts", "20", "--samples", "4", "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert result["sampled"]["samples"] == 4 and set(result["sampled"]["results"]) >= {"pass@1", "pass@2", "pass@4"}
    assert result["greedy"]["sampling"]["temperature"] == 0
    model = run / "checkpoints" / "step_3" / "model"
    small = ["--prompts", "20", "--samples", "4", "--json", "--set", "task_args={max_digits: 6, template: bare}",
             "--set", "sampling.max_completion_length=22"]  # fmt: skip
    assert main(["eval", str(model), *small]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["sampled"]["results"] == result["sampled"]["results"], "a saved model is an ordinary folder"
    assert main(["report", str(run), "--output", str(tmp_path / "r.html")]) == 0
    assert (tmp_path / "r.html").is_file()


def test_the_default_name_moves_on_and_an_explicit_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["train", *SMALL, "--quiet"]) == 0
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == [
        "sort_digits-popo-seed0",
        "sort_digits-popo-seed0-2",
    ]
    refused(capsys, ["train", *SMALL, "--output", "runs/sort_digits-popo-seed0"], "in use")


@pytest.mark.parametrize("kind", ["Qwen2", "Qwen3", "Llama"])
@pytest.mark.parametrize("task", ["sort_digits", "chain_sum", "countdown"])
def test_a_users_own_model_by_path(tmp_path: Path, kind: str, task: str) -> None:
    """With the template a chat model gets, and the one for base models where there is no chat template."""
    for template, chat in (("auto", True), ("base", False)):
        folder = tiny_model(tmp_path / f"{kind}-{template}", kind, chat=chat)
        run = tmp_path / f"run-{template}"
        argv = ["train", "--model", str(folder), "--task", task, "--method", "popo", "--output", str(run), "--quiet"]
        small = "prompts_per_step=2 group_size=2 budget.steps=1 eval.prompts=2 log.rollouts=true"
        for setting in (*small.split(), "sampling.max_completion_length=8", f"task_args.template={template}"):
            argv += ["--set", setting]
        assert main(argv) == 0
        group = json.loads((run / "rollouts.jsonl").read_text().splitlines()[0])
        assert (group["prompt"]["messages"] is not None) == chat
        assert len(group["rollouts"][0]["prompt_ids"]) > 60, "the question in words, byte by byte"


def test_a_base_model_without_chat_template_says_what_to_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_model(tmp_path / "base", "Qwen2", chat=False)
    refused(
        capsys, ["train", *SMALL, "--model", str(folder), "--output", str(tmp_path / "r")], "task_args.template=base"
    )


def test_a_trained_starter_goes_on_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model folder of a run on a bundled model takes its prompts and settings, by path, without being told."""
    assert main(["train", *SMALL, "--quiet", "--output", str(tmp_path / "one")]) == 0
    model = tmp_path / "one" / "checkpoints" / "step_2" / "model"
    assert main(["train", *SMALL, "--quiet", "--model", str(model), "--output", str(tmp_path / "two")]) == 0
    settings = read_yaml(tmp_path / "two" / "config.yaml")
    assert (settings["learner"]["lr"], settings["sampling"]["max_completion_length"]) == (2e-4, 22)
    assert main(["eval", str(model), "--prompts", "5", "--samples", "1"]) == 0
    assert "at most 22 tokens" in capsys.readouterr().out


def test_a_small_file_is_evaluated_whole_and_found_again_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"nums": [a, b, a + b], "target": a * b + a + b} for a in range(2, 9) for b in range(2, 9)]
    Path("mine.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    argv = ["train", "--task", "countdown", "--output", "run", "--set", "prompts_per_step=2", "--set", "group_size=2",
            "--set", "budget.steps=1", "--set", "task_args={data: mine.jsonl}"]  # fmt: skip
    assert main(argv) == 0
    assert "held-out rows, all used (eval.prompts is" in capsys.readouterr().out
    argv = ["eval", "starter", "--task", "countdown", "--samples", "1", "--json", "--no-greedy"]
    assert main([*argv, "--set", "task_args={data: mine.jsonl}"]) == 0
    assert 0 < json.loads(capsys.readouterr().out)["sampled"]["prompts"] < 49
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["resume", str(tmp_path / "run"), "--set", "budget.steps=2", "--quiet"]) == 0


def test_characters_the_model_cannot_encode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["train", *SMALL, "--set", "task_args.template=instruct", "--output", str(tmp_path / "r")]
    refused(capsys, argv, "this model's tokenizer cannot encode it")
    assert not (tmp_path / "r").exists()


def test_methods_are_listed_with_paper_parts_and_differences(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [m["name"] for m in listed] == method_names()
    for m in listed:
        assert m["paper"].startswith("arXiv ") and m["summary"] and m["differs"]
    assert main(["methods"]) == 0
    assert "popo-behaviour" in capsys.readouterr().out
    assert main(["methods", "popo"]) == 0
    assert "objective.kind" in capsys.readouterr().out


def test_comparison_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "cmp"
    argv = [
        "compare",
        "--methods",
        "grpo,popo",
        "--seeds",
        "2",
        "--rollouts",
        "48",
        "--output",
        str(out),
        "--jobs",
        "2",
    ]
    for setting in ("prompts_per_step=4", "group_size=4", "eval.prompts=8", "task_args.max_digits=6", "eval.every=1"):
        argv += ["--set", setting]
    assert main(argv) == 0
    printed = capsys.readouterr().out
    assert "popo" in printed and "Difference: to grpo" in printed
    table = json.loads((out / "comparison.json").read_text())
    assert table["seeds"] == [0, 1]
    assert (out / "comparison.html").is_file() and (out / "comparison.md").is_file()
    for name in ("grpo-seed0", "popo-seed1"):
        last = json.loads((out / name / "events.jsonl").read_text().splitlines()[-1])
        assert last["ledger"]["generated"]["rollouts"] == 48
    started = time.monotonic()
    assert main(argv) == 0, "finished runs are used again"
    assert time.monotonic() - started < 60


def test_ctrl_c_of_a_comparison_ends_its_children(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "rollwise", "compare", "--methods", "grpo", "--seeds", "1", "--rollouts", "400000",
            "--output", str(tmp_path / "cmp"), "--set", "eval.prompts=8", "--jobs", "1"]  # fmt: skip
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=dict(os.environ)
    )
    events = tmp_path / "cmp" / "grpo-seed0" / "events.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (events.exists() and '"event":"step"' in events.read_text()):
        time.sleep(0.05)
    os.kill(process.pid, 2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err
    left = subprocess.run(["pgrep", "-f", str(tmp_path / "cmp")], capture_output=True, text=True)
    assert left.stdout == ""
