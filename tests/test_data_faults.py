"""Faults of rows: which row, what is wrong with it, and what would be right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollwise.cli.main import main
from rollwise.config import expand_aliases
from rollwise.data import Reading, load_examples
from rollwise.data.load import held
from rollwise.errors import UserError
from rollwise.tasks import make_task

SUMS = [{"question": f"What is {i}+{i}?", "answer": str(2 * i)} for i in range(40)]


def written(folder: Path, rows: list[dict[str, Any]], name: str = "rows.jsonl") -> str:
    file = folder / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(file)


def worked(stray: str, at: int = 5) -> list[dict[str, Any]]:
    return [
        {**r, "answer": stray if i == at else f"Twice {i}.\n#### {r['answer']}"} for i, r in enumerate(SUMS)
    ]  # fmt: skip


@pytest.mark.parametrize("verifier", [None, "gsm8k", "math"])
@pytest.mark.parametrize("stray", ["It is ten.", "She has 10 apples."])
def test_one_gold_without_its_mark_is_a_fault_of_its_row(tmp_path: Path, verifier: str | None, stray: str) -> None:
    file = written(tmp_path, worked(stray))
    said = "rows.jsonl line 6: 39 of 40 rows end in ####, this one does not; 1 of 40 rows cannot be used"
    with pytest.raises(UserError, match=said):
        load_examples(file, Reading(verifier=verifier))
    left = load_examples(file, Reading(verifier=verifier, bad_rows="skip"))
    assert len(left) == 39 and 5 not in left.numbers and len(left.keys) == 39 and left.bare_text == 39
    assert left.verifiers == {verifier or "gsm8k": 39}
    assert any("1 of 40 rows left out, the first" in note and "line 6" in note for note in left.notes)
    assert [e.row for e in left] == [*range(5), *range(6, 40)]


def test_faults_stay_in_the_order_of_the_rows(tmp_path: Path) -> None:
    rows = worked("It is ten.")
    rows[2] = {**rows[2], "answer": None}
    rows[9] = {**rows[9], "question": ""}
    left = load_examples(written(tmp_path, rows), Reading(bad_rows="skip"))
    assert [where.rpartition(" ")[2] for where, _ in left.faults] == ["3", "6", "10"]
    assert left.faults[2][1] == "no prompt (question is empty)"


def test_plain_numbers_and_boxes_among_marked_golds_are_golds(tmp_path: Path) -> None:
    for gold in ("10", "So it is \\boxed{10} apples in all."):
        assert len(load_examples(written(tmp_path, worked(gold)), Reading())) == 40


def test_words_by_themselves_are_told_of_the_verifier(tmp_path: Path) -> None:
    rows = [{**r, "answer": "It is ten."} for r in SUMS]
    with pytest.raises(UserError, match="40 golds of 40 are no numbers or formulas"):
        load_examples(written(tmp_path, rows), Reading())


def test_few_rows_are_told_what_to_hold_out(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"held-out eighth of 6 rows; give more rows, or .* task_args.heldout_data=FILE"
    ):
        make_task("data", {"data": written(tmp_path, SUMS[:6])}, starter=False)


def test_rows_that_nothing_judges_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, SUMS)
    functions = tmp_path / "r.py"
    functions.write_text("def ok(completions, **kw):\n    return [0.0 for _ in completions]\n")
    own = ["--data", file, "--set", "task_args.verifier=none", "--model", "m"]
    run = ["--set", "task=data", "--set", f"task_args.data={file}", "--set", "task_args.verifier=none", "--model", "m"]
    named = ["--set", f"tasks.mine={{task: data, task_args: {{data: {file}, verifier: none}}}}", "--model", "m"]
    budget = ["--set", "budget.steps=1"]
    for command in (
        ["train", *own],
        ["check", *own[:-2]],
        ["check", *run],
        ["check", *named, *budget],
        ["check", "--data", file, "--task", "none"],
        ["eval", "starter", "--task", "chain_sum", "--data", file, "--verifier", "none"],
    ):
        assert main(command) == 2, command
        err = capsys.readouterr().err
        assert "nothing judges these rows (verifier none); give reward=file.py:function, or a verifier" in err, command
    for command in (["check", *run], ["check", *own[:-2]]):
        assert main([*command, "--set", f"reward={functions}:ok"]) in (0, 1)


def test_check_says_who_judged_and_what_was_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    functions = tmp_path / "r.py"
    functions.write_text("def fails(completions, **kw):\n    raise ValueError('boom')\n")
    assert main(["check", "--data", written(tmp_path, SUMS), "--set", f"reward={functions}:fails"]) == 1
    out = capsys.readouterr().out
    assert f"golds: 0 of 40 are right by the reward function {functions}:fails" in out and "boom" in out
    assert "shortest / median / longest" in out and "kB held" in out
    attack = next(line for line in out.splitlines() if line.startswith(" empty think"))
    assert attack.rstrip().endswith("not judged")
    assert " ok" not in out
    main(["check", "--data", written(tmp_path, SUMS)])
    out = capsys.readouterr().out
    assert "not judged" not in out and "right by their own verifier" in out


def test_memory_in_words() -> None:
    assert [held(n) for n in (3_400, 99_000, 1_250_000)] == ["3.4 kB", "99.0 kB", "1.2 MB"]


def test_task_args_is_another_name_of_args() -> None:
    tree = {"tasks": {"gsm8k": {"task_args": {"data": "a"}, "weight": 2}}}
    assert expand_aliases(tree, "r") == {"tasks": {"gsm8k": {"args": {"data": "a"}, "weight": 2}}}
    with pytest.raises(UserError, match=r"'tasks.x.args' is given twice, also as task_args"):
        expand_aliases({"tasks": {"x": {"args": {}, "task_args": {}}}}, "r")
    with pytest.raises(UserError, match=r"tasks is a list; it is a mapping of names, for example \{gsm8k: \{args:"):
        expand_aliases({"tasks": ["gsm8k"]}, "r")


DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_on_the_ledger_names_every_outcome_in_the_words_of_the_table() -> None:
    from rollwise.report.summary import OUTCOMES

    page = (DOCS / "ledger.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ") and "`" in line][1:]
    assert {row[1].strip("`"): row[0].removeprefix("| ") for row in rows} == OUTCOMES


def test_the_recipe_of_several_data_sets_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rollwise.assemble import load_tasks, resolve
    from rollwise.config import read_yaml

    monkeypatch.chdir(tmp_path)
    page = (DOCS / "tasks.md").read_text(encoding="utf-8")
    (tmp_path / "mixed.yaml").write_text(page.split("```yaml\n")[1].split("```")[0], encoding="utf-8")
    (tmp_path / "mine.py").write_text("def score(completion: str, answer, prompt, meta):\n    return 0.0\n")
    for name, rows in (("contest.jsonl", SUMS[:30]), ("aime24.jsonl", SUMS[30:]), ("open.jsonl", SUMS)):
        written(tmp_path, rows, name)
    written(tmp_path, worked("Ten.\n#### 10"), "gsm8k.jsonl")
    config = resolve([("mixed.yaml", read_yaml(tmp_path / "mixed.yaml"))])
    assert sorted(load_tasks(config)) == ["contest", "gsm8k", "mine"]
    config.reward.function = None
    with pytest.raises(UserError, match="mine: nothing judges these rows"):
        load_tasks(config)
