"""Rows of every published shape, taking their test code apart, and public rows with the verdicts published for them."""

from __future__ import annotations

import ast
import base64
import collections
import contextlib
import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.jail.restrict import Kernel
from rollwise.jail.values import Opaque
from rollwise.records import Prompt, Verdict, VerdictKind
from rollwise.verify import code_tests
from rollwise.verify.code import Code
from rollwise.verify.code_eval import evaluate, same, supported
from rollwise.verify.code_plan import plan
from rollwise.verify.scoring import Completion

STDIO = {"form": "stdio", "inputs": ["1\n"], "outputs": ["2\n"]}
CALLS = {"form": "calls", "name": "f", "inputs": [[1, [2]]], "outputs": [3]}
PAIR = {"inputs": ["1\n"], "outputs": ["2\n"]}
SHAPES: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    ({"input_output": json.dumps(PAIR)}, STDIO),
    ({"input_output": {"inputs": [["1", ""]], "outputs": [["2", ""]]}}, STDIO),
    ({"input_output": json.dumps({"fn_name": "f", "inputs": [[1, [2]]], "outputs": [3]})}, CALLS),
    ({"verifier_metadata": {"unit_tests": PAIR}}, STDIO),
    ({"reward_model": {"style": "rule", "ground_truth": json.dumps(PAIR)}}, STDIO),
    ({"test": json.dumps([{"input": {"stdin": "1\n"}, "output": {"stdout": "2\n"}}])}, STDIO),
    ({"public_test_cases": json.dumps([{"input": "1\n", "output": "2\n", "testtype": "stdin"}])}, STDIO),
    (
        {
            "public_test_cases": json.dumps([{"input": "1\n[2]", "output": "3", "testtype": "functional"}]),
            "metadata": json.dumps({"func_name": "f"}),
        },
        CALLS,
    ),
    ({"tests": json.dumps([{"input": "1\n", "output": "2\n", "type": "stdin_stdout"}])}, STDIO),
    (
        {
            "verification_info": {
                "test_cases": [{"type": "function_call", "fn_name": "f", "input": "1\n[2]", "output": "3"}]
            }
        },
        CALLS,
    ),
    (
        {
            "public_tests": {"input": ["1\n"], "output": ["2\n"]},
            "private_tests": {"input": [], "output": []},
            "solutions": {"language": [2, 3], "solution": ["c++", "print(2)"]},
        },
        {**STDIO, "reference": "print(2)"},
    ),
    (
        {"test_list": ["assert f(1) == 2"], "challenge_test_list": ["assert f(2) == 3"], "code": "def f(x):\r\n  pass"},
        {
            "form": "asserts",
            "tests": ["assert f(1) == 2", "assert f(2) == 3"],
            "setup": "",
            "reference": "def f(x):\n  pass",
        },
    ),
    ({"test_cases": ["assert f(1) == 2"]}, {"form": "asserts", "tests": ["assert f(1) == 2"], "setup": ""}),
    (
        {"prompt": "def f(x):\n", "entry_point": "f", "test": "def check(c):\n    assert c(1)"},
        {"form": "check", "tests": ["def check(c):\n    assert c(1)"], "entry": "f", "prompt": "def f(x):\n"},
    ),
    ({"question": "2 + 2", "answer": "4"}, None),
    ({"ground_truth": "They assert that it is so."}, None),
    ({"test": "some text", "tests": [], "test_list": None}, None),
]


@pytest.mark.parametrize(("row", "tests"), SHAPES)
def test_shapes(row: dict[str, Any], tests: dict[str, Any] | None) -> None:
    assert code_tests.tests_of(row) == tests
    assert tests is None or json.loads(json.dumps(tests)) == tests


class Trap:
    """Unpickling this would create a file."""

    def __reduce__(self) -> Any:
        return (open, ("unpickled", "w"))


def test_a_pickle_is_refused_and_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    monkeypatch.chdir(tmp_path)
    packed = base64.b64encode(zlib.compress(pickle.dumps(Trap()))).decode()
    for column in ("private_test_cases", "test"):
        with pytest.raises(ValueError, match="Python pickle"):
            code_tests.tests_of({column: packed, "public_test_cases": json.dumps([{"input": "1", "output": "2"}])})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"input_output": {"inputs": ["1"], "outputs": []}}, "1 inputs and 0 outputs"),
        ({"input_output": {"inputs": [], "outputs": []}}, "0 inputs and 0 outputs"),
        ({"input_output": {"inputs": [1], "outputs": ["2"]}}, "is not text"),
        ({"input_output": {"fn_name": "f", "inputs": ["[1"], "outputs": ["2"]}}, "is not JSON"),
        ({"tests": [{"input": "1", "output": "2", "type": "function_call"}]}, "no column names it"),
        ({"test_list": ["assert f(1"]}, "is not Python"),
        ({"test_list": ["assert f(1) == 2", "f(3)", "[f(x) for x in y]"]}, "effects or objects"),
        ({"test_list": ["x = f(1).name\nassert x"]}, "effects or objects"),
        ({"test_list": ["assert f(P(1))"], "test_setup_code": "class P:\n  pass"}, "own class P"),
        ({"test": "import io\nassert f(io)", "entry_point": "f"}, "defines no check"),
        ({"test": "import io\nimport sys\nassert f(1)"}, "uses io"),
        (
            {"test": "from solution import f\n\ndef test_f():\n    assert f(1) == 2\n"},
            "defines test_f and never uses it",
        ),
        ({"test_list": ["assert True", "assert 1 + 1 == 2"]}, "never call the program"),
    ],
)
def test_rows_that_are_refused(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        code_tests.tests_of(row)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["", "1", "[1", "eJ", "assert f(1) == 1", "assert 1", "f"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["inputs", "outputs", "input", "output", "stdin", "type", "fn_name", "func_name", "test_cases"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
COLUMNS = [
    "test", "tests", "test_list", "test_cases", "input_output", "metadata", "public_test_cases", "private_tests",
    "verifier_metadata", "reward_model", "entry_point", "prompt", "solutions", "ground_truth", "verification_info",
]  # fmt: skip


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(COLUMNS), JSON, max_size=3))
def test_rows_of_any_kind_are_read_or_refused(row: dict[str, Any]) -> None:
    with contextlib.suppress(ValueError):
        tests = code_tests.tests_of(row)
        assert tests is None or json.loads(json.dumps(tests)) == tests


def test_very_deep_test_code() -> None:
    chain = "assert f(1) == " + "+".join(["1"] * 300)
    assert plan({"form": "asserts", "tests": [chain], "setup": ""}).split is None  # left to Python, in a jail
    for code in ("assert f(1) == " + "[" * 5000 + "]" * 5000, "assert f(1) == " + "-" * 100_000 + "1"):
        with pytest.raises(ValueError, match="not Python"):
            code_tests.tests_of({"test_list": [code]})


def test_which_tests_are_split() -> None:
    def split(code: str, setup: str = "") -> bool:
        return plan({"form": "asserts", "tests": [code], "setup": setup}).split is not None

    for code in (
        "assert f(1, x=[2]) == {'a': (1, None)}",
        "assert(abs(f() - 1.5708) < 0.001)",
        "assert not f('a') and f('b')",
        "assert f(*[10]) in (4, 5), 'message'",
        "assert f(1) is None",
        "import math\nassert math.isclose(f(2), math.sqrt(2), rel_tol=1e-9)",
        "assert sorted(f(g(1))) == [1] * 3",
        "assert isinstance(f(1), (int, float))",
        "assert sum(1, 2) == 3",
        "'text'\nassert f(1)[0] != -2",
    ):
        assert split(code), code
    for code in (
        "for i in range(3): assert f(i) == i",
        "x = f(1)\nassert x == 2",
        "assert [f(i) for i in range(3)] == [0, 1, 2]",
        "assert f(1).__class__ == int",
        "assert (lambda: f(1))() == 2",
        "from math import pi\nassert f(1) == pi",
    ):
        try:
            assert not split(code), code
        except ValueError as error:
            assert "effects or objects" in str(error)


def holds(code: str, answers: dict[str, Any]) -> bool:
    expression = ast.parse(code, mode="eval").body
    functions = frozenset(answers)
    assert supported(expression, functions), code
    return bool(evaluate(expression, lambda name, args, kwargs: answers[name], functions))


@pytest.mark.parametrize(
    ("code", "value", "wanted"),
    [
        ("f(1) == 2", 2, True),
        ("f(1) == 2", 2.0, True),
        ("f(1) == 1", True, False),
        ("f(1) == True", 1, False),
        ("f(1) == [1, (2,)]", [1, (2,)], True),
        ("f(1) == [1, (2,)]", [1, [2]], False),
        ("f(1) == [True]", [1], False),
        ("f(1) == {1: 0}", {1: False}, False),
        ("f(1) == {1}", {True}, False),
        ("f(1) == float('nan')", float("nan"), False),
        ("f(1) == None", Opaque("A"), False),
        ("f(1) != 2", Opaque("A"), False),
        ("f(1) is None", None, True),
        ("f(1) in [1, 2]", True, False),
        ("'a' in f(1)", "bar", True),
        ("abs(f(1) - 0.3) < 1e-6", 0.1 + 0.2, True),
        ("f(1) == 0.3", 0.1 + 0.2, False),
        ("1 < f(1) <= 3 and not f(1) == 2", 3, True),
        ("len(f(1)) == 2 or f(1) == 1", 1, None),
        ("f(1) * 10 ** 9 == 1", "x", None),
        ("2 ** f(1) == 0", 10**9, None),
        ("f(1) ** 3 == 0", 10**9000, None),
        ("f(1) % 3 == 0", "%999999999d", None),
        ("round(7, f(1)) == 0", -(10**9), None),
        ("set(f(1)) == {1}", [(2**61 - 1) * n for n in range(1, 40_000)], None),
        ("set(f(1)) == {1}", [1] * 40_000, True),
        ("dict(f(1)) == {'a': 1}", [("a", 1)], True),
        ("dict(a=1) == f(1)", {"a": 1}, True),
        ("{True} == f(1)", {1}, False),
    ],
    ids=lambda value: type(value).__name__,  # the value itself may be too long to write
)
def test_evaluation(code: str, value: Any, wanted: bool | None) -> None:
    if wanted is None:  # what does not fit is an error, which a verdict reads as wrong; none of it takes long
        with pytest.raises((TypeError, ValueError)):
            holds(code, {"f": value})
    else:
        assert holds(code, {"f": value}) is wanted


def test_equality_is_symmetric() -> None:
    values = [
        0,
        1,
        2,
        True,
        False,
        1.0,
        None,
        "1",
        [],
        [1],
        [True],
        (1,),
        {1: 1},
        {True: 1},
        {1},
        {True},
        frozenset({1}),
    ]
    assert all(same(a, b) == same(b, a) for a in values for b in values)
    assert all(same(a, a) for a in values)


needs_jail = pytest.mark.skipif(
    sys.platform != "linux" or Kernel().abi() < 1, reason="this kernel has no Landlock for the default tier"
)


@pytest.fixture(scope="module")
def verifier() -> Iterator[Code]:
    made = Code({"test_seconds": 30, "program_seconds": 120})
    yield made
    made.close()


def read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [json.loads(line) for line in file]


def asked(tests: Any, text: str = "") -> Completion:
    return Completion(prompt=Prompt(uid="x", text="", answer=tests), text=text)


def programs(verifier: Code, pairs: list[tuple[Any, str]]) -> list[Verdict]:
    return verifier.judge([asked(tests, f"```python\n{program}\n```") for tests, program in pairs])


def kinds(verdicts: list[Verdict]) -> dict[str, int]:
    return dict(collections.Counter(v.kind.value for v in verdicts))


def test_forms_of_the_public_rows(public_data: Path) -> None:
    files = [
        "humaneval/HumanEval.jsonl.gz",
        "mbpp/mbpp.jsonl",
        "mbpp/mbpp_test.jsonl",
        "code_asserts/mhpp.jsonl",
        "code_asserts/rl_train_oj_0328_1707.jsonl",
        "code_asserts/acecode_sample.jsonl",
        "code_stdin/code_contests.jsonl",
        "code_stdin/nemo_code_gen_example.jsonl",
        "code_stdin/live_code_bench_v1.jsonl",
    ]
    found: collections.Counter[str] = collections.Counter()
    for row in (row for name in files for row in read(public_data / name)):
        try:
            tests = code_tests.tests_of(row)
        except ValueError as error:
            found["pickle" if "pickle" in str(error) else "refused"] += 1
            continue
        assert tests is not None
        planned = plan(tests) if "tests" in tests else None
        found[tests["form"] if planned is None else "split" if planned.split else "apart"] += 1
    assert found == {"split": 208, "apart": 2, "stdio": 11, "refused": 2, "pickle": 2}


@needs_jail
def test_published_solutions_pass_their_own_tests(public_data: Path, verifier: Code) -> None:
    for name in ("humaneval/HumanEval.jsonl.gz", "mbpp/mbpp.jsonl"):
        rows = [asked(code_tests.tests_of(row)) for row in read(public_data / name)]
        restated = [asked(c.prompt.answer, verifier.restated(c) or "") for c in rows]
        assert kinds(verifier.judge(restated)) == {"correct": len(rows)}


@needs_jail
def test_empty_bodies_and_empty_answers(public_data: Path, verifier: Code) -> None:
    rows = [code_tests.tests_of(row) for row in read(public_data / "humaneval/HumanEval.jsonl.gz")]
    assert kinds(programs(verifier, [(tests, "    pass") for tests in rows])) == {"wrong": 41}
    assert kinds(verifier.judge([asked(tests) for tests in rows])) == {"invalid": 41}


@needs_jail
def test_published_verdicts_on_humaneval(public_data: Path, verifier: Code) -> None:
    rows = read(public_data / "verdicts_humaneval/samples_humaneval_nanochat.jsonl")
    found = programs(verifier, [(code_tests.tests_of(row["doc"]), row["filtered_resps"][0][0]) for row in rows])
    assert [v.kind is VerdictKind.correct for v in found] == [row["pass@1"] == 1.0 for row in rows]
    assert kinds(found) == {"correct": 5, "wrong": 36}
    replies = read(public_data / "nemo_gym/evalplus/example_rollouts.jsonl")
    tests = {row["doc"]["task_id"]: code_tests.tests_of(row["doc"]) for row in rows}
    answers = [asked(tests[r["verifier_metadata"]["task_id"]], r["extracted_model_output"]) for r in replies]
    assert kinds(verifier.judge(answers)) == {"correct": sum(r["reward"] == 1.0 for r in replies)}


@needs_jail
def test_published_pass_rates_of_acecode(public_data: Path, verifier: Code) -> None:
    """Three of the 80 differ: those programs import pytest, which a bare interpreter does not have."""
    (row,) = read(public_data / "code_asserts/acecode_sample.jsonl")
    tests = code_tests.tests_of(row)
    found = programs(verifier, [(tests, i["completion"]) for i in row["inferences"]])
    differ = [
        (v.detail, "import pytest" in i["completion"])
        for v, i in zip(found, row["inferences"], strict=True)
        if (v.kind is VerdictKind.correct) != (i["pass_rate"] == 1.0)
    ]
    assert differ == [("test 1: ModuleNotFoundError", True)] * 3


@needs_jail
def test_published_rewards_of_whole_programs(public_data: Path, verifier: Code) -> None:
    rows = read(public_data / "code_stdin/nemo_code_gen_example.jsonl")
    tests = {r["responses_create_params"]["input"][-1]["content"]: code_tests.tests_of(r) for r in rows}
    for rollout in read(public_data / "code_stdin/nemo_code_gen_example_rollouts.jsonl"):
        question = rollout["responses_create_params"]["input"][-1]["content"]
        (found,) = programs(verifier, [(tests[question], rollout["extracted_model_code"])])
        first = rollout["result"].index(-2) + 1
        assert (found.kind, found.detail) == (VerdictKind.wrong, f"test {first}: wrong output")
        assert rollout["reward"] == 0.0
