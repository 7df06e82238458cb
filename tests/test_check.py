"""`rollwise check`: what it finds in data, golds and rewards, and that a broken judge is caught."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rollwise.audit.attacks import ATTACKS
from rollwise.audit.given import says_gold, stands_in
from rollwise.audit.reward import audit_reward
from rollwise.audit.rows import audit_rows, overlap, question_key
from rollwise.cli.main import main
from rollwise.records import Image, Prompt, Verdict, VerdictKind
from rollwise.tasks import make_task
from rollwise.verify.scoring import Completion
from rollwise.verify.table import make_verifier

Tree = dict[str, Any]


def write(path: Path, rows: Sequence[Any]) -> str:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return str(path)


def check(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, Tree]:
    status = main(["check", *argv, "--json"])
    out, err = capsys.readouterr()
    return status, json.loads(out) if out else {"error": err}


def asked(answer: Any, text: str = "How many?", **meta: Any) -> Prompt:
    return Prompt(uid="t:0", messages=[{"role": "user", "content": text}], answer=answer, meta=meta)


def paid(judge: Callable[[Completion], bool], *prompts: Prompt) -> set[str]:
    """Names of the attacks that a judge of this opinion pays for."""

    def verdicts(completions: Sequence[Completion]) -> list[Verdict]:
        return [
            Verdict(kind=VerdictKind.correct if judge(c) else VerdictKind.wrong, score=float(judge(c)))
            for c in completions
        ]

    return {t.attack for t in audit_reward(verdicts, prompts) if t.paid}


EVERYTHING = asked("A", "Which one? The answer: A", options=["one", "two"])
PLAIN = asked("42", "It is 42 or 43. How many?")


def test_a_judge_that_always_agrees_falls_to_every_attack() -> None:
    tests = {"form": "asserts", "tests": ["assert f(1) == 2"], "setup": ""}
    assert paid(lambda c: True, EVERYTHING, PLAIN, asked(tests)) == {a.name for a in ATTACKS}


def test_a_judge_that_looks_for_the_gold_in_the_text_is_caught() -> None:
    found = paid(lambda c: str(c.prompt.answer) in c.text, PLAIN)
    assert {"gold in thinking", "hedging", "many boxes", "unclosed tags", "prompt copied", "echo"} <= found
    assert not found & {"empty", "empty think", "only think", "tags without content", "forged verdict"}


@pytest.mark.parametrize(
    "judge,attack",
    [
        (lambda c: "<think>" in c.text and "</think>" in c.text, "empty think"),
        (lambda c: "<answer>" in c.text and "</answer>" in c.text, "tags without content"),
        (lambda c: "\\boxed{42}" in c.text, "many boxes"),
        (lambda c: "passed" in c.text, "forged verdict"),
        (lambda c: len(c.text) > 10_000, "very long"),
        (lambda c: not c.text.strip(), "empty"),
        (lambda c: c.text.rstrip().endswith(c.prompt.answer), "unclosed tags"),
    ],
)
def test_each_weakness_is_named(judge: Callable[[Completion], bool], attack: str) -> None:
    assert attack in paid(judge, PLAIN)


def test_every_letter_is_no_answer() -> None:
    assert "all options" in paid(lambda c: "A" in c.text.split(",")[0], asked("A", options={"A": "one", "B": "two"}))


def test_a_score_without_a_verdict_is_payment_too() -> None:
    def shaped(completions: Sequence[Completion]) -> list[Verdict]:
        return [Verdict(kind=VerdictKind.wrong, score=0.6 if "<think>" in c.text else 0.1) for c in completions]

    assert "empty think" in {t.attack for t in audit_reward(shaped, [PLAIN]) if t.paid}
    assert not any(t.paid for t in audit_reward(shaped, [PLAIN], full=2.0))
    assert {t.highest for t in audit_reward(shaped, [PLAIN])} >= {0.1, 0.6}


@pytest.mark.parametrize(
    "name,prompt",
    [
        ("math", PLAIN),
        ("math", asked("\\frac{1}{2}")),
        ("gsm8k", PLAIN),
        ("exact", asked("Evelyn", "Evelyn, Tom or Ann?")),
        ("geometry", asked("2 \\sqrt { 221 }")),
        ("choice", asked("A", "Which one?", choices={"A": "one", "B": "two"})),
        ("countdown", asked({"numbers": [3, 4], "target": 12})),
    ],
)
def test_our_own_judges_pay_for_none(name: str, prompt: Prompt) -> None:
    assert [t.attack for t in audit_reward(make_verifier(name).judge, [prompt]) if t.paid] == []


@pytest.mark.parametrize("starter", [True, False])
@pytest.mark.parametrize("name", ["sort_digits", "chain_sum", "countdown"])
def test_our_own_tasks_pay_for_none(name: str, starter: bool) -> None:
    """Their prompts show an example of an answer, which must not be one."""
    task = make_task(name, {}, starter=starter)
    assert [t.attack for t in audit_reward(task.judge, [task.train[i] for i in range(40)]) if t.paid] == []


def test_the_main_job_has_no_finding(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = check(capsys)
    assert status == 0 and out["ok"] and out["findings"] == []
    rows = out["data"]["sort_digits"]["rows"]
    assert rows["train"]["looked_at"] == 1000 and rows["train"]["rows"] == 1_000_000
    assert rows["train"]["tokens"]["longest"] == 21  # a token for each character, by the bundled tokenizer
    assert {a["attack"] for a in out["data"]["sort_digits"]["attacks"]} == {a.name for a in ATTACKS}
    assert out["config"]["method"] == "popo"


def test_the_console_says_it_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", [{"problem": "[red]2+2[/red]?", "answer": "4"}] * 2)
    assert main(["check", "--data", file]) == 1
    out, _ = capsys.readouterr()
    assert "golds: 2 of 2 are right" in out and "hedging" in out
    assert "1 finding" in out and "ask what a row before asks, 1 of them word by word" in out


ROWS = [
    {"problem": "What is 2+2?", "answer": "4"},
    {"problem": "What is  2+2", "answer": "4"},  # the same in other words
    {"problem": "What is 2+2?", "answer": "4"},  # word by word
    {"problem": "Which town? The answer is 17.", "answer": "17"},
    {"problem": "Explain.", "answer": "if and only if $n$ is a prime number that divides every other number here"},
    {"problem": "What is 3+3?", "answer": None},
    {"problem": "long " * 5000, "answer": "5"},
]


def test_what_is_wrong_with_a_file_is_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", ROWS)
    heldout = write(
        tmp_path / "test.jsonl", [{"problem": "what is 2+2 ?", "answer": "4"}, {"problem": "1?", "answer": "1"}]
    )
    status, out = check(capsys, "--data", train, "--data", heldout, "--task", "math")
    findings = "\n".join(out["findings"])
    assert status == 1
    assert "1 rows cannot be used" in findings and "line 6" in findings
    assert "2 rows ask what a row before asks, 1 of them word by word" in findings
    assert "1 rows state their own answer (math/train:3)" in findings
    assert "1 of 6 golds are not right by their own verifier; the first is math/train:4: gold: " in findings
    assert "1 rows are over sampling.max_prompt_length (math/train:6)" in findings
    assert "1 questions stand both in" in findings
    assert out["shared"][0]["count"] == 1 and out["shared"][0]["between"] == [f"{train} (rows)", f"{heldout} (rows)"]
    assert [f["uid"] for f in out["data"][train]["golds"]["failed"]] == ["math/train:4"]
    assert any("prompt <- problem, gold <- answer" in note for note in out["data"][train]["notes"])


def test_a_recipe_is_checked_without_its_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A user's reward that looks for the gold in the text is caught before anything is spent."""
    (tmp_path / "reward.py").write_text(
        "def found(prompts, completions, answer, **columns):\n"
        "    said = [c if isinstance(c, str) else c[-1]['content'] for c in completions]\n"
        "    return [float(str(a) in text) for text, a in zip(said, answer)]\n"
    )
    rows = [{"problem": f"What is {i}+{i}?", "answer": str(2 * i)} for i in range(10, 50)]
    recipe = tmp_path / "recipe.yaml"
    file = write(tmp_path / "a.jsonl", rows)
    recipe.write_text(f"task: math\ntask_args: {{data: {file}}}\nmodel: some/model\nbudget: {{steps: 1}}\n")
    assert check(capsys, str(recipe))[0] == 0
    status, out = check(capsys, str(recipe), "--set", f"reward.function={tmp_path / 'reward.py'}:found")
    assert status == 1
    assert {"gold in thinking", "hedging"} <= {a["attack"] for a in out["data"]["math"]["attacks"] if a["found"]}


def test_the_jail_is_proved_where_programs_are_judged(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    row = {"prompt": "Write f that doubles.", "test_list": ["assert f(1) == 2"], "code": "def f(x): return 2 * x"}
    rows = [{**row, "prompt": f"{row['prompt']} ({i})"} for i in range(40)]
    file = write(tmp_path / "a.jsonl", rows)
    status, out = check(capsys, "--data", file, "--prompts", "2")
    if out.get("error", "").startswith("rollwise: error: code jail"):
        pytest.skip("no jail on this machine: " + out["error"])
    assert status == 0, out["findings"]
    assert out["sandbox"]["holds"] and out["data"][file]["golds"]["checked"] == 40
    none = ["--set", f"task_args.data={file}", "--set", "task_args.verifier_args.tier=none", "--model", "some/model"]
    status, out = check(capsys, "--task", "code", *none, "--prompts", "1")
    assert status == 1 and not out["sandbox"]["holds"]
    assert out["findings"][-1].startswith("code jail none: does NOT hold")


@pytest.mark.parametrize(
    "argv,words",
    [
        (["--set", "learner.lrate=3"], "unknown key 'learner.lrate'"),
        (["none.yaml"], "none.yaml: cannot be read"),
        (["--data", "none.jsonl"], "none.jsonl: cannot be read"),
        (["--data", "a.jsonl", "--task", "maths"], "--task maths: no task for rows of a file; did you mean 'math'?"),
        (["--data", "a.jsonl", "--map", "gold=nothing"], "no row has it"),
        (["--data", "a.jsonl", "--map", "gold"], "--map gold: give it as part=column"),
        (["--rows", "0"], "0 is not at least 1"),
    ],
)
def test_a_users_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.jsonl", ROWS[:1])
    assert main(["check", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == "" and words in err and err.count("\n") == 1


def test_public_rows_have_right_golds_and_unpaid_attacks(capsys: pytest.CaptureFixture[str], public_data: Path) -> None:
    train, test = (str(public_data / "gsm8k" / f"{side}.jsonl") for side in ("train", "test"))
    status, out = check(capsys, "--data", train, "--data", test)
    assert (status, out["findings"]) == (0, [])
    assert out["data"][train]["golds"] == {"checked": 200, "silent": 0, "failed": []}


def test_prose_golds_of_public_rows_are_listed(capsys: pytest.CaptureFixture[str], public_data: Path) -> None:
    file = str(public_data / "hmmt" / "compmath_test.jsonl")
    status, out = check(capsys, "--data", file)
    assert status == 1
    assert [f["uid"] for f in out["data"][file]["golds"]["failed"]] == ["data/train:65", "data/train:67"]


def test_one_question_is_told_from_another() -> None:
    def key(text: str, *images: bytes) -> bytes:
        return question_key(
            Prompt(uid="", messages=[{"role": "user", "content": text}], images=tuple(map(Image, images)))
        )

    assert key("What  is\n2+2 ?") == key("what is 2+2")
    assert key("２+2") == key("2+2")
    assert key("2-2") != key("2+2")
    assert key("What is 5!") != key("What is 5")
    assert key("How many?", b"a") != key("How many?", b"b")


def test_overlap_names_rows_of_both_sides() -> None:
    def side(*texts: str) -> Any:
        prompts = [Prompt(uid=f"{i}:{t}", text=t, answer="") for i, t in enumerate(texts)]
        return audit_rows(prompts, rows=len(prompts), generated=False, max_prompt_length=10)

    assert overlap(side("a b", "c", "d"), side("D", "A  b.")) == [("0:a b", "1:A  b."), ("2:d", "0:D")]
    found = side("", "x" * 81, "y")
    assert found.empty == ("0:",) and found.oversized == ("1:" + "x" * 81,)


@pytest.mark.parametrize(
    "text,gold,tells",
    [
        ("The answer is 4.", "4", True),
        ("The answer is 42.", "4", False),
        ("Put it in \\boxed{}. Is it 4?", "4", False),
        ("So \\boxed{4} it is", "4", True),
        ("Answer: $x+1$", "x+1", True),
        ("#### 17", "17", True),
        ("There are 4 apples", "4", False),
    ],
)
def test_a_prompt_that_states_its_answer(text: str, gold: str, tells: bool) -> None:
    assert says_gold(asked(gold, text)) is tells


def test_a_number_inside_another_does_not_stand_there() -> None:
    assert stands_in("4", "it is 4, or 5") and stands_in("4", "4")
    assert not any(stands_in("4", text) for text in ("42", "1.4", "-4", "4.5", "4,000", "x4"))
