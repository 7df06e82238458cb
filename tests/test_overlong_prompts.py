"""Rows that are longer than a model may be asked: an error that says how many, or left out and counted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rollwise.cli.main import main
from rollwise.config import expand_aliases
from rollwise.errors import PromptTooLong, UserError
from rollwise.lengths import check_lengths, fitting
from rollwise.records import Prompt
from rollwise.starters import starter_path

SKIP = ["--set", "sampling.overlong_prompts=skip"]


@pytest.fixture
def sums(tmp_path: Path) -> str:
    """Every fourth of forty sums has three terms, which is eight characters."""
    rows = [{"question": f"{i % 9}+{i // 9 + 1}{'+1' * (i % 4 == 0)}=", "answer": "7"} for i in range(40)]
    file = tmp_path / "sums.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return str(file)


def plain_model(folder: Path) -> Path:
    """The bundled model as a model of the user's."""
    model = folder / "model"
    if not model.exists():
        shutil.copytree(starter_path("chain_sum"), model)
        config = json.loads((model / "config.json").read_text())
        config.pop("rollwise_starter")
        (model / "config.json").write_text(json.dumps(config))
    return model


def train(sums: str, output: Path, *more: str) -> int:
    settings = {
        "task_args.template": "none",
        "task_args.verifier": "exact",
        "budget.steps": 1,
        "prompts_per_step": 2,
        "group_size": 2,
        "sampling.max_completion_length": 3,
        "sampling.max_prompt_length": 5,
        "eval.samples": 1,
        "eval.prompts": 3,
        "log.report": "false",
    }
    flags = [part for k, v in settings.items() for part in ("--set", f"{k}={v}")]
    model = str(plain_model(output.parent))
    return main(["train", "--data", sums, "--method", "grpo", "--model", model, "--output", str(output), *flags, *more])


def test_a_run_leaves_them_out_and_resumes_on_the_same_rows(
    sums: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "run"
    assert train(sums, output) == 2
    err = capfd.readouterr().err
    assert "prompts looked at are too long, the longest is prompt data/" in err
    assert "allows 1 to 5: set it to" in err and "or leave such rows out with sampling.overlong_prompts=skip" in err
    assert "starter's recipe" not in err and not output.exists()
    assert train(sums, output, *SKIP) == 0
    assert "training rows left out as too long; the longest has" in capfd.readouterr().out
    assert main(["resume", str(output), "--set", "budget.steps=2"]) == 0
    assert "training rows left out as too long" in capfd.readouterr().out
    assert main(["resume", str(output), "--set", "budget.steps=3", "--set", "sampling.overlong_prompts=error"]) == 2


def test_eval_leaves_them_out_on_request(sums: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["eval", "starter", "--task", "chain_sum", "--data", sums, "--template", "none", "--verifier", "exact"]
    command += ["--samples", "1", "--no-greedy", "--json", "--set", "sampling.max_prompt_length=5"]
    assert main(command) == 2
    assert "sums: 10 of 40 prompts looked at are too long" in capsys.readouterr().err
    assert main([*command, *SKIP]) == 0
    captured = capsys.readouterr()
    assert "sums: 10 of 40 held-out rows left out as too long" in captured.err
    assert "note: sums: 30 prompts x 1" in captured.err


def test_check_says_which_and_with_skip_finds_no_fault(sums: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["check", "--json", "--data", sums, "--task", "exact", "--set", "sampling.max_prompt_length=1"]
    for more, wanted in (([], True), (SKIP, False)):
        main([*command, *more])
        findings = json.loads(capsys.readouterr().out)["findings"]
        assert any("over sampling.max_prompt_length" in line for line in findings) is wanted


class Lengths:
    """Prompts with so many tokens each."""

    generated = False

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = lengths
        self.name, self.notes, self.train, self.heldout = "t", (), self, self

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Prompt:
        return Prompt(uid=f"p{index}", text="x" * self.lengths[index])


def encode(prompt: Prompt) -> None:
    if len(str(prompt.text)) > 5:
        raise PromptTooLong(f"prompt {prompt.uid} has {len(str(prompt.text))} tokens", len(str(prompt.text)))


def test_the_error_counts_them_and_names_the_longest() -> None:
    source = Lengths([1, 6, 9, 7, 5])
    with pytest.raises(
        UserError, match=r"^t: 3 of 5 prompts looked at are too long, the longest is prompt p2 has 9 tokens!$"
    ):
        check_lengths("t", (source[i] for i in range(5)), encode, "!")
    check_lengths("t", [source[0], source[4]], encode)


def test_rows_that_fit_keep_their_uids_and_order() -> None:
    task: Any = Lengths([1, 6, 2, 9, 3, 8])
    tasks, notes = fitting({"t": task}, encode, heldout=2)
    assert [tasks["t"].train[i].uid for i in range(len(tasks["t"].train))] == ["p0", "p2", "p4"]
    assert [tasks["t"].heldout[i].uid for i in range(len(tasks["t"].heldout))] == ["p0", "p2"]
    assert notes == [
        "t: 3 of 6 training rows left out as too long; the longest has 9 tokens",
        "t: 1 of 3 held-out rows left out as too long; the longest has 6 tokens",
    ]
    with pytest.raises(IndexError):
        tasks["t"].train[3]
    assert len(task.train) == 6, "the task itself stays whole"
    with pytest.raises(UserError, match="t: all 2 training prompts are too long"):
        fitting({"t": Lengths([6, 7])}, encode, heldout=1)  # type: ignore[dict-item]


def test_verls_name_for_it() -> None:
    assert expand_aliases({"data": {"filter_overlong_prompts": True}}, "r") == {
        "sampling": {"overlong_prompts": "skip"}
    }
    assert expand_aliases({"data.filter_overlong_prompts": False}, "r") == {"sampling": {"overlong_prompts": "error"}}
    with pytest.raises(UserError, match="understood are true, false"):
        expand_aliases({"data.filter_overlong_prompts": "some"}, "r")
