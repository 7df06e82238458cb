"""`rollwise data clean` and `data grade`: every rule, nothing dropped in silence, and measured pass rates."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwise.cli.main import main
from rollwise.curate.clean import Decision, Unreadable, decide, tally
from rollwise.curate.grade import grade_of, measure
from rollwise.curate.rules import ALWAYS, BY_KIND, WHOLE, Item, first_broken, rule_names
from rollwise.evaluate import pass_at_k
from rollwise.records import Group, Prompt, Rollout, Sampling, StopReason, Verdict, VerdictKind
from tests.models import tiny_model

Tree = dict[str, Any]


def math(question: str, gold: Any = "4", **more: Any) -> Item:
    return Item(question=question, gold=gold, kind="math", **more)


def code(question: str, solution: str = "print(1)", **more: Any) -> Item:
    return Item(question=question, gold={"tests": ["assert f(1) == 2"]}, kind="code", solution=solution, **more)


DROPPED = [
    ("url", math("See https://example.org/p1 and find x.")),
    ("url", math("Taken from www.example.org. Find x.")),
    ("noise", math("<p>Find the value of x.</p>")),
    ("noise", math("Find&nbsp;the value of x.")),
    ("noise", math("Find the value of x.\x07")),
    ("noise", math("Find the angle of 30Â°.")),
    ("noise", math("Find \ufffd.")),
    ("noise", math("x" * 200_001)),
    ("missing", math("?")),
    ("missing", math("What is 2+2?", None)),
    ("missing", math("What is 2+2?", " ")),
    ("missing", math("What is 2+2?", [])),
    ("multi_part", math("Let f be a line. (a) Find its slope. (b) Find where it meets 0.")),
    ("multi_part", math("(i) What is x? (ii) What is y?")),
    ("multi_part", math("a) What is x? b) How large is y?")),
    ("multi_part", math("Find both roots.", "(a) 2 (b) 3")),
    ("proof", math("Prove that there are infinitely many primes.")),
    ("proof", math("Let n be odd. Show that n^2-1 is divisible by 8.")),
    ("proof", math("证明：素数有无穷多个。")),
    ("picture", math("What is the area of the triangle shown below?")),
    ("picture", math("In the diagram, find x.")),
    ("picture", math("Find x. [asy] draw((0,0)--(1,1)); [/asy]")),
    ("picture", math("![](figure.png) Find x.")),
    ("picture", math("<image> What is x?")),
    ("picture", math("如图，求x的值。")),
    ("picture", math("Use the data in the table below to find the mean.")),
    ("environment", code("Write a Django view that adds two numbers.")),
    ("environment", code("Add two numbers.", "import numpy\nimport subprocess as s\n")),
    ("file_io", code("Read the numbers from a file and print their sum.")),
    ("file_io", code("Print the sum.", "print(open('data.txt').read())")),
    ("file_io", code("Print the sum.", "from pathlib import Path\n")),
    ("network", code("Write a function that sends an HTTP request.")),
    ("network", code("Print the sum.", "  import urllib.request\n")),
]

KEPT = [
    math("If 3 < x and x > 4, find the least x with x^2 >= 20."),
    math("Points (a) and (b) are marked. How far apart are they?"),  # lettered, and each asks nothing
    math("Colour the board so that (i) no two meet and (ii) all are used. How many colours?"),
    math("Which is largest? (a) What is 2 (b) What is 3", "b"),  # options, since the gold is a letter
    math("Prove that f is even, and find f(2)."),
    math("Show your work. Evaluate 2+2."),
    math("The table below lists scores.\n| a | b |\n| 1 | 2 |\nWhat is the mean?"),
    math("<image> What is x?", pictures=("0f",)),
    math("A table has four legs. How many legs have two tables?"),
    math("What is 0?", 0),
    code("Given List<int> and a<b, return &amp; or not."),
    code("Read the numbers from standard input and print their sum.", "import sys\nprint(sum(map(int, open(0))))"),
    code("Define a function that draws the figure shown below in text."),  # pictures count for mathematics only
]


@pytest.mark.parametrize("rule,item", DROPPED)
def test_a_rule_drops_what_it_is_for(rule: str, item: Item) -> None:
    found = first_broken(item)
    assert found is not None and found[0] == rule and found[1]


@pytest.mark.parametrize("item", KEPT)
def test_no_rule_drops_what_is_fine(item: Item) -> None:
    assert first_broken(item) is None


def test_every_rule_is_tried_and_documented() -> None:
    rules = {**ALWAYS, **BY_KIND["math"], **BY_KIND["code"]}
    assert {rule for rule, _ in DROPPED} == set(rules)
    page = (Path(__file__).parents[1] / "docs" / "curation.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in rule_names())
    assert all(rule.__doc__ for rule in rules.values()) and set(rule_names()) == {*rules, *WHOLE}


def no_references(items: Sequence[Item]) -> list[str]:
    return [""] * len(items)


items = st.one_of(
    st.just(Unreadable(reason="not JSON")),
    st.builds(
        math,
        st.sampled_from(["2+2 = ?", "2+2 =", "Prove that 1 = 1.", "3+3 = ?", ""]),
        st.sampled_from(["4", None]),
    ),
)


@given(st.lists(items, max_size=12))
def test_kept_and_dropped_are_all_rows(rows: list[Item | Unreadable]) -> None:
    found = list(decide(rows, no_references))
    assert [d.row for d in found] == list(range(len(rows)))
    assert all(bool(d.rule) == bool(d.reason) for d in found)
    assert sum(n for _, n in tally(Counter(d.rule for d in found))) == len(rows)
    assert found == list(decide(rows, no_references))


def test_a_duplicate_of_a_dropped_row_is_kept() -> None:
    """The first copy's gold is wrong; the second is the first to be kept, and the third repeats it."""
    rows = [math("2+2?", "5"), math("2+2?", "4"), math(" 2+2 ", "4")]
    found = list(decide(rows, lambda items: ["wrong" if i.gold == "5" else "" for i in items]))
    assert found == [
        Decision(row=0, rule="reference", reason="wrong"),
        Decision(row=1),
        Decision(row=2, rule="duplicate", reason="the question of row 1"),
    ]


def clean(tmp_path: Path, file: Path | str, *more: str) -> tuple[int, bytes, list[Tree]]:
    kept, report = tmp_path / "kept.jsonl", tmp_path / "report.jsonl"
    status = main(["data", "clean", str(file), "--output", str(kept), "--report", str(report), *more])
    assert not list(tmp_path.glob("*.part"))
    return status, kept.read_bytes(), [json.loads(line) for line in report.read_text().splitlines()]


def test_the_kept_bytes_are_the_sources_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        b'{"problem":"What is 2+2?","answer":"4","extra":{"b":1,  "a":"\\u00e9"}}\r',
        b"not json",
        b'{"answer": "5", "problem": "What is 2+3?\xe2\x80\xa8"}',
        b'{"problem": "What is 2+4?", "answer": null}',
        b"",
        b'{"problem": "what is  2+2", "answer": "4"}',
        b'{"problem": "What is 2+5?", "answer": "seven is the one and only answer to that, if you ask me nicely"}',
        b'{"problem": "Prove that 1 = 1.", "answer": "1"}',
    ]
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b"\n".join(lines))
    status, kept, report = clean(tmp_path, file, "--verifier", "math")
    assert status == 0 and kept == lines[0] + b"\n" + lines[2] + b"\n"
    assert [r["rule"] for r in report] == [None, "unreadable", None, "missing", "duplicate", "reference", "proof"]
    assert [r["row"] for r in report] == list(range(7))
    assert report[1]["data"] == "not json" and report[3]["data"]["problem"] == "What is 2+4?"
    assert "data" not in report[0] and report[4]["reason"] == "the question of row 0"
    assert "gold: " in report[5]["reason"]
    out = capsys.readouterr().out
    assert "7 rows" in out and "kept" in out and "28.6 %" in out
    assert clean(tmp_path, file, "--verifier", "math")[1:] == (kept, report)


def test_columns_that_hold_different_golds_are_no_reference(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [
        {"problem": f"What is {i}+{i}?", "answer": str(2 * i), "solution": f"\\boxed{{{2 * i}}}"} for i in range(2, 6)
    ]
    rows[1]["solution"] = "It is \\boxed{7}."
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    _, _, report = clean(tmp_path, file)
    assert [r["rule"] for r in report] == [None, "reference", None, None]
    assert report[1]["reason"] == "answer says '6', solution says '7'"


def test_countdown_rows_must_be_solvable(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows: list[Tree] = [
        {"nums": [3, 4], "target": 12},
        {"nums": [4, 3], "target": 12},
        {"numbers": [3, 4], "target": 13},
        {"nums": [3, 4]},
        {"nums": [1, 2, 3, 4, 5, 6, 7], "target": 28},  # too many to search all ways
    ]
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    _, _, report = clean(tmp_path, file)
    assert [r["rule"] for r in report] == [None, "duplicate", "reference", "unreadable", None]


def test_a_reference_program_must_pass_its_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"prompt": "Write f that doubles a number.", "test_list": ["assert f(1) == 2"]}
    rows = [
        {**row, "code": "def f(x): return 2 * x"},
        {**row, "prompt": "Write f that doubles.", "code": "def f(x): return x"},
        {**row, "prompt": "Write f, which doubles."},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    argv = ["data", "clean", str(file), "--output", str(tmp_path / "o"), "--report", str(tmp_path / "r")]
    status, err = main(argv), capsys.readouterr().err
    if err.startswith("rollwise: error: code jail"):
        pytest.skip(f"no jail on this machine: {err}")
    assert status == 0
    report = [json.loads(line) for line in (tmp_path / "r").read_text().splitlines()]
    assert [r["rule"] for r in report] == [None, "reference", None]
    assert report[1]["reason"].startswith("by code, its own ")


GOLDENS: dict[str, dict[str, int]] = {
    "gsm8k/train.jsonl": {"kept": 200},
    "math/test.json": {"kept": 193, "picture": 7},
    "deepscaler/train_aime.json": {"kept": 86, "picture": 14},
    "deepscaler/train_math.json": {"kept": 193, "missing": 1, "picture": 7},
    "deepmath/math_deepmath_deal.jsonl": {"kept": 199, "proof": 1},
    "hmmt/compmath_test.jsonl": {"kept": 96, "reference": 2},
    "exams/aqua_test.jsonl": {"kept": 40},
    "countdown/test.parquet": {"kept": 200},
    "code_stdin/live_code_bench_v1.jsonl": {"kept": 0, "unreadable": 2},
}


@pytest.mark.parametrize("name", GOLDENS)
def test_public_files_by_rule(tmp_path: Path, public_data: Path, name: str) -> None:
    status, kept, report = clean(tmp_path, public_data / name)
    counts = Counter(r["rule"] or "kept" for r in report)
    assert status == 0
    assert dict(counts) == {k: v for k, v in GOLDENS[name].items() if v}
    assert kept.count(b"\n") == counts["kept"]
    if name == "gsm8k/train.jsonl":
        assert kept == (public_data / name).read_bytes()


@pytest.mark.parametrize(
    "argv,words",
    [
        (["clean", "none.jsonl", "--output", "o", "--report", "r"], "none.jsonl: cannot be read"),
        (["clean", "a.jsonl", "--output", "a.jsonl", "--report", "r"], "a.jsonl: the file that is read"),
        (["clean", "a.jsonl", "--output", "no/o", "--report", "r"], "no/o: cannot be written"),
        (["clean", "a.jsonl", "--output", "o"], "--report"),
        (["clean", "a.jsonl", "--output", "o", "--report", "r", "--verifier", "maths"], "did you mean 'math'?"),
        (["clean", "a.jsonl", "--output", "o", "--report", "r", "--map", "gold=x"], "no row has it"),
        (["grade", "a.jsonl", "--model", "starter", "--output", "o", "--easy", "2"], "2 is not between 0 and 1"),
        (["grade", "a.jsonl", "--model", "starter", "--output", "o", "--easy", "0.2"], "--hard 0.25: above --easy"),
        (["grade", "a.jsonl", "--model", "starter", "--output", "o", "--task", "math"], "no bundled model"),
        (["grade", "a.jsonl", "--model", "starter", "--output", "o"], "no 'nums' (or 'numbers')"),
        (["grade", "b.jsonl", "--model", "starter", "--output", "o"], "has a column 'measured' already"),
        (["grade", "a.jsonl", "--model", "./none", "--output", "o", "--task", "math"], "./none"),
    ],
)
def test_a_users_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text('{"problem": "What is 2+2?", "answer": "4"}\n')
    Path("b.jsonl").write_text('{"nums": [1, 2], "target": 3, "measured": 1}\n')
    assert main(["data", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == "" and words in err and err.count("\n") == 1, err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl"]


PROBLEMS = [
    {"nums": [3, 4], "target": 12, "note": "é"},
    {"nums": [99, 98, 97], "target": 11},
    {"nums": [5, 6], "target": 11},
    {"nums": [2, 3, 4], "target": 24},
]


def grade(file: Path, output: Path, *more: str) -> list[Tree]:
    assert main(["data", "grade", str(file), "--model", "starter", "--output", str(output), *more]) == 0
    return [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]


def test_a_starter_grades_countdown_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in PROBLEMS), encoding="utf-8")
    one = grade(file, tmp_path / "one")
    out, err = capsys.readouterr()
    assert "graded 4 of 4 rows" in err and "easy" in out and "not graded" not in out
    assert [{k: v for k, v in r.items() if k != "measured"} for r in one] == PROBLEMS
    for row in one:
        m = row["measured"]
        assert m["samples"] == m["scored"] == 8 and m["pass_rate"] == m["correct"] / 8
        assert m["pass@4"] == pass_at_k(8, m["correct"], 4) and set(m) >= {"pass@1", "pass@2", "pass@8"}
        assert m["grade"] == grade_of(m["pass_rate"], 0.75, 0.25)
        assert m["sampling"] == {"temperature": 1.0, "top_p": 1.0, "max_completion_length": 22} and m["seed"] == 0
    assert one[0]["measured"]["correct"] > one[1]["measured"]["correct"] == 0
    assert grade(file, tmp_path / "two", "--set", "sampling.max_rows=8") == one  # whatever is sampled beside
    more = ["--set", "sampling.temperature=0.5", "--seed", "1", "--samples", "2", "--easy", "1", "--hard", "0"]
    cold = [r["measured"] for r in grade(file, tmp_path / "cold", *more)]
    assert {m["grade"] for m in cold} == {"medium"}  # no rate is above 1 or below 0
    assert {(m["samples"], m["seed"], m["sampling"]["temperature"]) for m in cold} == {(2, 1, 0.5)}


def test_any_model_grades_rows_of_any_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A random model solves nothing. A row without gold, one whose gold no verifier reads and one that is too long are
    counted apart."""
    model = str(tiny_model(tmp_path / "model", "Qwen2"))
    rows = [{"problem": f"What is {i}+{i}?", "answer": str(2 * i)} for i in range(4)]
    rows[1]["answer"] = ""
    rows[2]["answer"] = "whatever the reader of this sentence holds for the most beautiful number of all"
    rows.append({"problem": "What is it? " * 100, "answer": "5"})
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    argv = ["data", "grade", str(file), "--model", model, "--output", str(tmp_path / "o"), "--samples", "2"]
    sizes = ["--set", "sampling.max_completion_length=4", "--set", "sampling.max_prompt_length=400"]
    assert main([*argv, "--task", "math", *sizes]) == 0
    found = [json.loads(line)["measured"] for line in (tmp_path / "o").read_text().splitlines()]
    assert [m["grade"] for m in found] == ["hard", None, None, "hard", None]
    assert "sampling.max_prompt_length allows 1 to 400" in found[4]["trouble"] and found[4]["samples"] == 0
    assert found[1]["trouble"].startswith("the row cannot be used: no gold")
    assert found[2]["trouble"].startswith("gold: ") and found[2]["samples"] == 2 and found[2]["scored"] == 0
    out, _ = capsys.readouterr()
    assert "not graded     3  60.0 %" in out and "not graded, 1: gold: " in out


def test_the_limits_are_medium() -> None:
    rates = [0.0, 0.24, 0.25, 0.5, 0.75, 0.76, 1.0]
    assert [grade_of(r, 0.75, 0.25) for r in rates] == ["hard", "hard", "medium", "medium", "medium", "easy", "easy"]


def rollout(kind: VerdictKind) -> Rollout:
    return Rollout(
        group_uid="g", member=0, prompt_ids=np.zeros(1, np.int32), completion_ids=np.zeros(3, np.int32),
        logprobs=np.zeros(3, np.float32), sampling=Sampling(), stop=StopReason.length, text="", birth_step=0,
        verdict=Verdict(kind=kind, score=0.0, detail=f"said {kind}"),
    )  # fmt: skip


def test_a_verifier_that_fails_grades_nothing() -> None:
    def measured(*kinds: VerdictKind) -> Tree:
        group = Group(uid="g", prompt=Prompt(uid="p", text=""), rollouts=tuple(map(rollout, kinds)))
        return measure(group, easy=0.75, hard=0.25).to_json()

    failed = measured(VerdictKind.infra_error, VerdictKind.infra_error)
    assert failed["grade"] is None and failed["pass_rate"] is None and failed["trouble"] == "said infra_error"
    half = measured(VerdictKind.infra_error, VerdictKind.correct, VerdictKind.invalid)
    assert half["grade"] == "medium" and (half["samples"], half["scored"], half["pass@2"]) == (3, 2, 1.0)
    assert half["truncated"] == 3 and half["mean_length"] == 3.0
