"""Evaluation on benchmark files from the command line: numbers, intervals, and comparison with a baseline."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollwise.cli.main import main
from rollwise.compare.statistics import Interval
from rollwise.errors import UserError
from rollwise.results.against import against, check_same, paired_by_prompt
from rollwise.results.record import Benchmark as Measured
from rollwise.results.record import Each, Pass, Results, over_benchmarks, over_prompts, read_results
from rollwise.results.tables import benchmark_table, print_table, reflection_table
from rollwise.scores import Efficiency
from rollwise.tasks.benchmark import Benchmark, named_source
from rollwise.tasks.data import DataArgs
from tests.models import tiny_model

SMALL = ["--samples", "2", "--set", "sampling.max_completion_length=6", "--set", "sampling.max_prompt_length=8192"]
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "max_completion_length": 6}
ROWS = {  # one file for each of the shapes that public benchmarks come in
    "minerva": {"problem": "How far?", "solution": "So it is \\boxed{4.5e33}.", "type": "physics", "idx": 0},
    "math500": {"problem": "What is 1/2+1/3?", "answer": "\\frac{5}{6}", "subject": "Algebra", "level": 1},
    "gpqa": {
        "Question": "Which is the lightest?",
        "Correct Answer": "Hydrogen",
        "Incorrect Answer 1": "Helium",
        "Incorrect Answer 2": "Lithium",
        "Incorrect Answer 3": "Beryllium",
    },
    "arc": {
        "id": "x1",
        "question": "What do plants need?",
        "choices": {"text": ["light", "sand", "salt", "noise"], "label": ["A", "B", "C", "D"]},
        "answerKey": "A",
    },
    "mmlu_pro": {
        "question": "2 + 2?",
        "options": ["1", "2", "4", "8"],
        "answer": "C",
        "answer_index": 2,
        "category": "math",
    },
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"), "Qwen3")


@pytest.fixture
def evaluated(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def go(*more: str, data: list[str], name: str = "out.json", status: int = 0) -> Any:
        flags = [word for source in data for word in ("--data", source)]
        capsys.readouterr()
        assert main(["eval", str(tiny), *SMALL, *flags, "--output", str(tmp_path / name), *more]) == status
        return json.loads((tmp_path / name).read_text()) if status == 0 else capsys.readouterr().err

    return go


def rows(path: Path, *given: Any) -> str:
    path.write_text("".join(json.dumps(r) + "\n" for r in given))
    return str(path)


PUBLIC = {
    "aime24": ("aime24/test.jsonl", "math"),
    "amc23": ("amc23/test.jsonl", "math"),
    "olympiad": ("olympiadbench/test.jsonl", "math"),
    "hmmt": ("hmmt/compmath_test.jsonl", "math"),
    "gsm8k": ("gsm8k/test.jsonl", "gsm8k"),
    "humaneval": ("humaneval/HumanEval.jsonl.gz", "code"),
}


def test_public_files_in_one_command(public_data: Path, evaluated: Callable[..., Any], capsys: Any) -> None:
    sources = [f"{name}={public_data / file}" for name, (file, _) in PUBLIC.items()]
    found = evaluated("--prompts", "2", "--no-greedy", data=sources)
    assert list(found["benchmarks"]) == list(PUBLIC)
    for entry in found["benchmarks"].values():
        assert [e["scored"] for e in entry["sampled"]["each"]] == [2, 2]  # every answer could be judged
        assert all(len(e["lengths"]) == 2 for e in entry["sampled"]["each"])
        assert entry["sampled"]["sampling"] == SAMPLING
    out, err = capsys.readouterr()
    for name, (_, verifier) in PUBLIC.items():
        assert f"\n  {name} " in out and any(f"note: {name}: " in x and f": {verifier} " in x for x in err.splitlines())
    assert "\n  mean " in out


def test_a_benchmark_s_own_verifier(tmp_path: Path, evaluated: Callable[..., Any], capsys: Any) -> None:
    word = {"question": "Which city?", "answer": "the one by the sea"}
    data = [rows(tmp_path / "words.jsonl", word), rows(tmp_path / "sums.jsonl", {"question": "1+1?", "answer": "2"})]
    assert "give --verifier, for example exact" in evaluated(data=data, status=2)
    evaluated("--verifier", "math", "--verifier", "words=exact", "--no-greedy", data=data)
    err = capsys.readouterr().err
    assert "rows by verifier: exact 1" in err and "rows by verifier: math 1" in err


def test_a_prompt_that_is_too_long_ends_it_before_anything_is_generated(
    tmp_path: Path, evaluated: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rollwise.sampling.torch_sampler import TorchSampler

    monkeypatch.setattr(TorchSampler, "generate", lambda *_, **__: pytest.fail("something was generated"))
    short, long = ({"question": q, "answer": "2"} for q in ("1+1?", "1+1? " * 500))
    data = [rows(tmp_path / "short.jsonl", short), rows(tmp_path / "long.jsonl", long)]
    err = evaluated("--set", "sampling.max_prompt_length=400", data=data, status=2)
    assert "sampling.max_prompt_length allows 1 to 400" in err


def test_other_published_shapes(tmp_path: Path, evaluated: Callable[..., Any]) -> None:
    sources = [rows(tmp_path / f"{name}.jsonl", row) for name, row in ROWS.items()]
    found = evaluated("--no-greedy", data=sources)
    assert {n: b["sampled"]["each"][0]["scored"] for n, b in found["benchmarks"].items()} == dict.fromkeys(ROWS, 2)


def test_one_seed_gives_the_same_numbers_and_another_gives_others(
    tmp_path: Path, evaluated: Callable[..., Any]
) -> None:
    data = [rows(tmp_path / "sums.jsonl", *({"question": f"{i}+1?", "answer": f"#### {i + 1}"} for i in range(6)))]
    long = ["--set", "sampling.max_completion_length=120"]  # for some completions to end by themselves
    one, two = evaluated(*long, data=data), evaluated(*long, data=data)
    assert one == two and one["benchmarks"]["sums"]["greedy"]["samples"] == 1
    other = evaluated(*long, "--seed", "1", data=data)
    assert other["benchmarks"]["sums"]["data"] == one["benchmarks"]["sums"]["data"]

    def lengths(tree: Any, how: str) -> Any:
        return [e["lengths"] for e in tree["benchmarks"]["sums"][how]["each"]]

    assert lengths(other, "sampled") != lengths(one, "sampled") and lengths(other, "greedy") == lengths(one, "greedy")


def test_against_a_baseline_from_the_command_line(
    tmp_path: Path, evaluated: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    data = [rows(tmp_path / "sums.jsonl", *({"question": f"{i}+1?", "answer": f"#### {i + 1}"} for i in range(3)))]
    base = evaluated(data=data, name="base.json")
    each = base["benchmarks"]["sums"]["sampled"]["each"]
    for entry, correct in zip(each, (1, 2, 0), strict=True):  # a better baseline than the tiny model, to divide by
        entry["correct"] = correct
    (tmp_path / "base.json").write_text(json.dumps(base))
    argv = ["--baseline", str(tmp_path / "base.json"), "--aes", "1,3,4"]
    found = evaluated(*argv, data=data)["baseline"]
    # The same lengths and no accuracy left: dL = 0, dA = -1. Differences -1/2, -1, 0: sd 1/2, t(2) = 4.3027.
    assert found["mean"]["aes"] == pytest.approx(-4.0)
    assert found["mean"]["difference"] == pytest.approx(-0.5)
    assert found["mean"]["half_width"] == pytest.approx(4.3027 * 0.5 / math.sqrt(3), abs=1e-3)
    assert found["aes_constants"] == {"alpha": 1.0, "beta": 3.0, "gamma": 4.0}
    out = " ".join(capsys.readouterr().out.split())
    assert "-0.500 ± 1.242 -4.000" in out
    assert "AES = 1 x relative saving in length + 3 x relative gain in accuracy, or - 4 x relative loss" in out
    refused = evaluated(*argv, "--prompts", "2", data=data, status=2)
    assert refused.count("rollwise: error:") == 1 and "asked other prompts" in refused


def test_held_out_prompts_of_a_task_have_results_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["eval", "starter", "--prompts", "30", "--samples", "2", "--output", str(tmp_path / "r.json")]
    assert main(argv) == 0
    out = capsys.readouterr().out
    found = read_results(tmp_path / "r.json")
    (task,) = found.benchmarks
    accuracy = task.passes["sampled"].accuracy
    assert f"avg@2    accuracy {accuracy.mean:.3f} ± {accuracy.half:.3f}   (30 held-out prompts" in out
    assert accuracy.mean == pytest.approx(task.passes["sampled"].results["accuracy"])
    assert main([*argv[:-1], str(tmp_path / "s.json"), "--baseline", str(tmp_path / "r.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["baseline"]["mean"] == {
        "difference": 0.0,
        "half_width": None,
        "aes": 0.0,
    }


@pytest.mark.parametrize(
    "more,words",
    [
        (["--data", "nowhere.jsonl"], "nowhere.jsonl: cannot be read"),
        (["--data", "a/x.jsonl", "--data", "b/x.jsonl"], "a second 'x'; give them names"),
        (["--verifier", "math"], "--verifier is for --data, which is not given"),
        (["--data", "a=x.jsonl", "--verifier", "b=math"], "--verifier b=math: no such --data; known: a"),
        (["--aes", "1,2"], "three numbers"),
        (["--baseline", "nowhere.json"], "nowhere.json: cannot be read"),
        (["--output", "no/such/folder/r.json"], "in a folder that exists"),
    ],
)
def test_refused_in_one_line_before_the_model_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "starter", *more]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and words in err


def test_results_that_cannot_be_read(tmp_path: Path) -> None:
    for text in ("{", "[]", '{"schema": 0}', '{"schema": 1, "benchmarks": {"a": 3}}'):
        (tmp_path / "r.json").write_text(text)
        with pytest.raises(UserError, match="rollwise eval --output"):
            read_results(tmp_path / "r.json")


def test_sources_and_their_names(tmp_path: Path) -> None:
    assert named_source("aime24.jsonl") == ("aime24", "aime24.jsonl")
    assert named_source("gsm8k/test.jsonl")[0] == named_source("gsm8k/test-00000-of-00001.parquet")[0] == "gsm8k"
    assert named_source("gsm8k_test.jsonl.gz")[0] == "gsm8k_test"
    assert named_source("openai/gsm8k:main@test") == ("gsm8k", "openai/gsm8k:main@test")
    assert named_source("mine=a=b.jsonl") == ("mine", "a=b.jsonl")
    with pytest.raises(UserError, match="give NAME="):
        named_source("what is this.jsonl")


def test_of_a_folder_the_test_rows_are_taken_and_all_of_them(tmp_path: Path) -> None:
    sums = [{"question": f"{i}+1?", "answer": str(i + 1)} for i in range(9)]
    (tmp_path / "both").mkdir()
    rows(tmp_path / "both" / "train.jsonl", *sums[:6])
    rows(tmp_path / "both" / "test.jsonl", *sums[6:])
    (tmp_path / "one").mkdir()
    rows(tmp_path / "one" / "train.jsonl", *sums)
    for folder, split, numbers in (
        ("both", None, [7, 8, 9]),
        ("both", "train", range(1, 7)),
        ("one", None, range(1, 10)),
    ):
        task = Benchmark(DataArgs(data=str(tmp_path / folder), split=split), name="b")
        assert [task.heldout[i].answer for i in range(len(task.heldout))] == [str(n) for n in numbers]
        assert task.heldout[0].uid == "b/heldout:0" and task.heldout[0].task == "b"


def entry(name: str, shares: list[tuple[int, int]], length: int, **sampling: Any) -> Measured:
    each = tuple(Each(uid=f"u{i}", correct=c, scored=n, lengths=(length,) * 4) for i, (c, n) in enumerate(shares))
    results = {"accuracy": 0.0, "mean_length": float(length), "truncated": 0.0, "infra_error": 0.0, "pass@4": 0.5}
    sampled = Pass(samples=4, sampling={**SAMPLING, **sampling}, results=results, each=each)
    return Measured(name=name, data="d", passes={"sampled": sampled})


def test_interval_over_prompts_by_hand() -> None:
    found = over_prompts([0.0, 0.5, 1.0, math.nan])
    assert (found.mean, found.n) == (0.5, 3) and found.half == pytest.approx(4.3027 * 0.5 / math.sqrt(3), abs=1e-3)
    assert math.isnan(over_prompts([1.0] * 30).half)  # all the same is not certainty
    assert math.isnan(over_prompts([]).mean) and math.isnan(over_prompts([0.5]).half)
    whole = over_benchmarks([Interval(mean=0.2, half=0.3, n=9), Interval(mean=0.6, half=0.4, n=5)])
    assert whole.mean == pytest.approx(0.4) and whole.half == pytest.approx(0.25) and whole.n == 2


def test_means_and_scores_of_two_benchmarks_by_hand() -> None:
    mine = Results(model="new", seed=0, benchmarks=(entry("a", [(4, 4), (2, 4)], 100), entry("b", [(1, 4)], 300)))
    base = Results(model="old", seed=0, benchmarks=(entry("b", [(2, 4)], 400), entry("a", [(2, 4), (2, 4)], 200)))
    versus = against(mine, base, Efficiency())
    # Means: accuracy (0.75 + 0.25) / 2 = 0.5 against (0.5 + 0.5) / 2, length 200 against 300.
    assert versus.mean.efficiency == pytest.approx(1 / 3)
    assert [g.efficiency for g in versus.gaps] == [pytest.approx(0.5 + 3 * 0.5), pytest.approx(0.25 - 5 * 0.5)]
    assert [g.difference.mean for g in versus.gaps] == [0.25, -0.25] and versus.mean.difference.mean == 0
    lines = benchmark_table(mine, versus).text()
    assert lines[3].split()[:4] == ["a", "2", "0.750", "±"] and lines[5].split()[:2] == ["mean", "0.500"]


def test_prompts_without_a_verdict_are_left_out_of_both() -> None:
    one, two = (entry("a", s, 10).passes["sampled"] for s in ([(1, 4), (0, 0), (3, 3)], [(1, 2), (2, 4), (0, 4)]))
    assert paired_by_prompt(one, two).mean == pytest.approx(((0.25 - 0.5) + (1.0 - 0.0)) / 2)


def test_what_is_not_comparable_is_said() -> None:
    base = Results(model="old", seed=0, benchmarks=(entry("a", [(1, 4)], 10, max_completion_length=9),))
    with pytest.raises(UserError, match=r"no benchmark 'b' \(it has a\)"):
        check_same({"b": "d"}, base, "f")
    with pytest.raises(UserError, match="asked other prompts"):
        check_same({"a": "e"}, base, "f")
    mine = Results(model="new", seed=0, benchmarks=(entry("a", [(1, 4)], 10),))
    assert against(mine, base, Efficiency()).notes == ("a: max_completion_length is 6 here and 9 in the baseline",)
    greedy = Results(model="old", seed=0, benchmarks=(Measured(name="a", data="d", passes={}),))
    with pytest.raises(UserError, match="evaluate both alike"):
        against(mine, greedy, Efficiency())


def test_tables_on_a_terminal_and_elsewhere() -> None:
    results = Results(model="x\x1b[2J", seed=0, benchmarks=(entry("a", [(1, 4), (2, 4)], 10),))
    results.benchmarks[0].passes["sampled"].results.update(
        {"reflection/recheck/share": 0.25, "reflection/recheck/mean_length": 12.0, "reflection/hesitation/share": 0.0}
    )
    signs = reflection_table(results)
    assert signs is not None and signs.text()[3].split() == ["a", "25.0", "%", "(12)", "0.0", "%"]

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream in (io.StringIO(), Terminal()):
        print_table(benchmark_table(results), stream)
        assert "0.375 ±" in stream.getvalue() and "\x1b[2J" not in stream.getvalue()
