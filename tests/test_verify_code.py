"""The code verifier: programs out of completions, verdicts by tests, and the ways a program may try to look right."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.errors import UserError
from rollwise.jail import launch, values
from rollwise.jail.canary import ATTEMPTS
from rollwise.jail.restrict import Kernel
from rollwise.records import Prompt, StopReason, Verdict, VerdictKind
from rollwise.verify import code, code_run
from rollwise.verify.code import Code, extract
from rollwise.verify.code_eval import same
from rollwise.verify.code_settings import CodeSettings
from rollwise.verify.scoring import Completion
from rollwise.verify.table import make_verifier

needs_jail = pytest.mark.skipif(
    sys.platform != "linux" or Kernel().abi() < 1, reason="this kernel has no Landlock for the default tier"
)

SUM = {"form": "stdio", "inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]}
LINES = {"form": "stdio", "inputs": ["", ""], "outputs": ["a\nb\n", "a\nb\n"]}
DOUBLE = {"form": "calls", "name": "double", "inputs": [[1], [[1, 2]]], "outputs": [2, [1, 2, 1, 2]]}
HALF = {"form": "asserts", "tests": ["assert half(3) == 1.5", "assert half(-1) == -0.5"], "setup": ""}


@pytest.fixture(scope="module")
def verifier() -> Iterator[Code]:
    made = make_verifier("code", {"workers": 1, "test_seconds": 10, "output_kb": 64, "memory_mb": 256})
    assert isinstance(made, Code)
    yield made
    made.close()


def fenced(program: str) -> str:
    return f"Here it is:\n```python\n{program}\n```\nDone."


def asked(answer: Any, text: str) -> Completion:
    return Completion(prompt=Prompt(uid="x", text="", answer=answer), text=text)


def judged(verifier: Code, answer: Any, program: str) -> Verdict:
    return verifier.judge([asked(answer, fenced(program))])[0]


TOO_DEEP = "test 1: a result too large or nested too deep"
F = "f = lambda: sum(map(int, input().split()))\n"

# Programs and the verdict that each must get. `wrong` comes with the detail.
CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("right", SUM, "print(sum(map(int, input().split())))", ""),
    ("reads everything", SUM, "import sys; a, b = map(int, sys.stdin.buffer.read().split()); print(a + b)", ""),
    ("by a main", SUM, F + "def main():\n    print(f())\nif __name__ == '__main__': main()", ""),
    ("buffer and exit", SUM, F + "import sys\nsys.stdout.buffer.write(b'%d' % f())\nexit()", ""),
    ("at exit", SUM, F + "import atexit\natexit.register(lambda: print(f()))", ""),
    ("in a thread", SUM, F + "import threading as t\nt.Thread(target=lambda: print(f())).start()", ""),
    ("trailing space", LINES, "print('a  \\nb\\n\\n')", ""),
    ("wrong answer", SUM, "print(3)", "test 2: wrong output"),
    ("first line only", LINES, "print('a')", "test 1: wrong output"),
    ("superset", LINES, "print('a\\nb\\nc')", "test 1: wrong output"),
    ("leading space", LINES, "print(' a\\nb')", "test 1: wrong output"),
    ("one line", LINES, "print('a b')", "test 1: wrong output"),
    ("not utf-8", LINES, "import sys; sys.stdout.buffer.write(b'a\\nb\\xff')", "test 1: wrong output"),
    ("forged verdict", SUM, "print('all tests passed')\nprint('{\"passed\": true}')", "test 1: wrong output"),
    ("exit 0", SUM, "import sys; sys.exit(0)", "test 1: wrong output"),
    ("_exit 0", SUM, "import os; os._exit(0)", "test 1: wrong output"),
    ("SystemExit", SUM, "raise SystemExit", "test 1: wrong output"),
    ("exit 3", SUM, "print(sum(map(int, input().split())))\nexit(3)", "test 1: exit status 3"),
    ("exception", SUM, "print(3)\n1 / 0", "test 1: ZeroDivisionError"),
    ("after output", SUM, "print(sum(map(int, input().split())))\nraise KeyError", "test 1: KeyError"),
    ("syntax", SUM, "print((", "test 1: SyntaxError"),
    ("nesting", SUM, "(" * 3000 + ")" * 3000, "test 1: SyntaxError"),
    ("memory", SUM, "x = [0] * 10**10", "test 1: over the memory limit"),
    ("killed", SUM, "import os; os.kill(os.getpid(), 9)", "test 1: killed by signal 9"),
    ("flood", SUM, "while True: print('x' * 999)", "test 1: over 64 KiB of output"),
    ("function", DOUBLE, "def double(x): return 2 * x", ""),
    ("tuple for a list", DOUBLE, "def double(x): return 2 * x if isinstance(x, int) else tuple(2 * x)", ""),
    ("method", DOUBLE, "class Solution:\n    def double(self, x): return 2 * x", ""),
    ("prints too", DOUBLE, "def double(x):\n    print('noise' * 10**5)\n    return x + x", ""),
    ("annotated", DOUBLE, "class Solution:\n    def double(self, x: List[int]) -> List[int]: return x + x", ""),
    ("future", DOUBLE, "from __future__ import annotations\ndef double(x: Unknown): return x + x", ""),
    ("no function", DOUBLE, "def twice(x): return 2 * x", "test 1: KeyError"),
    ("returns nothing", DOUBLE, "def double(x): print(2 * x)", "test 1: wrong output"),
    ("bool for int", DOUBLE, "def double(x): return True", "test 1: wrong output"),
    ("text for int", DOUBLE, "def double(x): return str(2 * x)", "test 1: wrong output"),
    ("exits", DOUBLE, "import sys; sys.exit(0)", "test 1: SystemExit"),
    ("exits later", DOUBLE, "import os\ndef double(x): os._exit(0)", "test 1: the process ended"),
    ("closes", DOUBLE, "import os\ndef double(x): os.close(3)", "test 1: the process ended"),
    ("too large", DOUBLE, "def double(x): return 'x' * 10**6", "test 1: over 64 KiB of output"),
    ("endless value", DOUBLE, "def double(x):\n    a = []\n    a.append(a)\n    return a", TOO_DEEP),
    ("wide value", DOUBLE, "def double(a):\n    for _ in range(50): a = [a, a]\n    return a", TOO_DEEP),
    ("large set", DOUBLE, "def double(x): return set(range(9000))", "test 1: wrong output"),
    (
        "collisions",
        DOUBLE,
        "def double(x): return {(2**61 - 1) * n for n in range(1, 2100)}",
        "test 1: too many members of sets and dicts",
    ),
    (
        "equal to everything",
        DOUBLE,
        "class Any(int):\n    def __eq__(self, o): return True\n    def __repr__(self): return '2'\n"
        "    __str__ = __repr__\n    __hash__ = int.__hash__\ndef double(x): return Any(7)",
        "test 1: wrong output",
    ),
    (
        "any object",
        DOUBLE,
        "class A:\n    def __eq__(self, o): return True\ndef double(x): return A()",
        "test 1: wrong output",
    ),
    ("nan", DOUBLE, "def double(x): return float('nan')", "test 1: wrong output"),
    (
        "forged frames",
        DOUBLE,
        "import os\nos.write(3, b'\\0\\0\\0\\x11{\"passed\": true }')\ndef double(x): return 0",
        "test 1: nothing that can be read",
    ),
    ("asserts", HALF, "def half(x): return x / 2", ""),
    ("asserts fail", HALF, "def half(x): return x // 2", "test 1: wrong output"),
    ("fraction", HALF, "from fractions import Fraction\ndef half(x): return Fraction(x, 2)", "test 1: wrong output"),
    (
        "looks for the answers",
        {"form": "calls", "name": "f", "inputs": [[1]], "outputs": [481516]},
        "import gc, sys\ndef f(x):\n    frame, seen = sys._getframe(), []\n    while frame:\n"
        "        seen += frame.f_locals.values()\n        frame = frame.f_back\n    seen += gc.get_objects()\n"
        "    for o in seen:\n        inside = list(o.values()) if isinstance(o, dict) else [o]\n"
        "        inside += o if isinstance(o, (list, tuple)) else []\n"
        "        if any(type(v) is int and v == 481515 + x for v in inside): return 481515 + x\n"
        "    return 'not found'",
        "test 1: wrong output",
    ),
]  # fmt: skip


@needs_jail
def test_verdicts(verifier: Code) -> None:
    found = verifier.judge([asked(answer, fenced(program)) for _, answer, program, _ in CASES])
    got = {name: v.detail for (name, *_), v in zip(CASES, found, strict=True)}
    assert got == {name: detail for name, *_, detail in CASES}
    kinds = {VerdictKind.wrong if detail else VerdictKind.correct for *_, detail in CASES}
    assert {v.kind for v in found} == kinds
    assert all((v.score == 1.0) is (v.kind is VerdictKind.correct) for v in found)


@needs_jail
def test_no_detail_tells_an_expected_value(verifier: Code) -> None:
    answer = {"form": "calls", "name": "f", "inputs": [[1]], "outputs": [987654321]}
    program = "def f(x):\n    class E987654322(Exception): pass\n    raise E987654322('987654321')"
    assert "987654321" not in judged(verifier, answer, program).detail


@needs_jail
def test_a_test_apart_from_the_program(verifier: Code) -> None:
    """Loops and helpers run in a jail of their own, which alone knows the expectations."""
    test = "import random\ndef check(c):\n    for i in range(20):\n        n = random.randint(0, 99)\n"
    test += "        assert c(n) == square(n), n"
    prompt = "def square(n): return n * n\ndef mine(n):\n    ''\n"
    answer = {"form": "check", "tests": [test], "entry": "mine", "prompt": prompt}
    assert judged(verifier, answer, "def mine(n): return n * n").kind is VerdictKind.correct
    assert judged(verifier, answer, "def mine(n): return n").detail == "tests: AssertionError"
    for cheat in (
        "def square(n): return 0\ndef mine(n): return 0",  # the helper is the test's own
        "import builtins, random\nrandom.randint = lambda a, b: 0\nbuiltins.AssertionError = 0\ndef mine(n): return 0",
        "class A:\n    def __eq__(self, o): return True\ndef mine(n): return A()",
        "import os\nos.write(3, b'\\0\\0\\0\\x10{\"passed\": true}')\ndef mine(n): return 0",
        "import sys\nsys.modules['test'] = None\ndef mine(n): sys.exit(0)",
    ):
        assert judged(verifier, answer, cheat).kind is VerdictKind.wrong, cheat


@needs_jail
def test_a_program_that_goes_on_or_starts_anew(verifier: Code) -> None:
    prompt = "import math\n\ndef root(x):\n    'The root.'\n"
    answer = {"form": "check", "tests": ["def check(c): assert c(4) == 2"], "entry": "root", "prompt": prompt}
    for program in (
        "    return math.sqrt(x)",
        "def root(x): return math.sqrt(x)",
        "from __future__ import annotations\ndef root(x: No): return x ** 0.5",
    ):
        assert judged(verifier, answer, program).kind is VerdictKind.correct, program
    assert judged(verifier, answer, "root = 3").kind is VerdictKind.wrong


@needs_jail
def test_installed_packages_only_where_it_was_asked_for(verifier: Code) -> None:
    answer = {"form": "stdio", "inputs": [""], "outputs": ["[0 1 2]"]}
    program = "import numpy\nprint(numpy.arange(3))"
    assert judged(verifier, answer, program).detail == "test 1: ModuleNotFoundError"
    apart = {"form": "asserts", "tests": ["import numpy\nfor n in numpy.arange(3): assert f(int(n)) == n"], "setup": ""}
    assert "imports numpy, which the jail does not have" in judged(verifier, apart, "def f(n): return n").detail
    rich = Code({"packages": "installed", "workers": 1, "test_seconds": 60, "program_seconds": 60, "memory_mb": 2048})
    try:
        assert judged(rich, answer, program).kind is VerdictKind.correct
        assert judged(rich, apart, "def f(n): return n").kind is VerdictKind.correct
        assert judged(rich, apart, "def f(n): return 0").kind is VerdictKind.wrong
    finally:
        rich.close()


@needs_jail
def test_time_limits(verifier: Code) -> None:
    fast = Code({"workers": 2, "test_seconds": 1, "program_seconds": 2})
    try:
        endless = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ndef double(x):\n    while True: pass\n"
        slow = {"form": "stdio", "inputs": ["1"] * 50, "outputs": ["1"] * 50}
        found = fast.judge(
            [
                asked(SUM, fenced("while True: pass")),
                asked(DOUBLE, fenced(endless)),
                asked(slow, fenced("import time; time.sleep(0.6); print(1)")),
            ]
        )
        assert [v.kind for v in found] == [VerdictKind.wrong] * 3
        assert [v.detail for v in found[:2]] == ["test 1: over 1 s"] * 2
        assert " over " in found[2].detail
    finally:
        fast.close()


@needs_jail
def test_a_failing_launcher_says_nothing_of_the_answer(verifier: Code, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> int:
        raise launch.LauncherError("gone")

    good = asked(SUM, fenced("print(sum(map(int, input().split())))"))
    with monkeypatch.context() as patch:
        patch.setattr(launch.Launcher, "spawn", gone)
        found = verifier.judge([good, asked(SUM, fenced("print(1)"))])
    assert [(v.kind, v.detail) for v in found] == [(VerdictKind.infra_error, "gone")] * 2
    with monkeypatch.context() as patch:
        patch.setattr(code_run, "_printed", lambda *_: 1 / 0)  # a bug of our own costs its verdict only
        assert verifier.judge([good])[0].kind is VerdictKind.infra_error
    assert verifier.judge([good])[0].kind is VerdictKind.correct


@needs_jail
def test_rows_that_cannot_be_used(verifier: Code) -> None:
    for answer, reason in (
        (None, "not tests in a form"),
        ("assert f(1) == 2", "not tests in a form"),
        ({"form": "stdio", "inputs": [], "outputs": []}, "at least one"),
        ({"form": "stdio", "inputs": [""]}, "lack outputs"),
        ({"form": "asserts", "tests": ["x = 1"], "setup": ""}, "asserts nothing"),
        ({"form": "asserts", "tests": ["import sys\nassert f(sys)"], "setup": ""}, "uses sys"),
        ({"form": "asserts", "tests": [3], "setup": ""}, ""),
    ):
        (found,) = verifier.judge([asked(answer, fenced("print(1)"))])
        assert found.kind is VerdictKind.infra_error and found.detail.startswith("gold: "), answer
        assert reason in found.detail


@needs_jail
def test_a_jail_that_does_not_hold_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def lax(name: Any, *, installed: bool) -> launch.Tier:
        return launch.Tier("landlock", ())

    monkeypatch.setattr(code, "make_tier", lax)
    with pytest.raises(UserError, match="does NOT hold"):
        make_verifier("code")


@needs_jail
def test_no_jail_only_where_it_was_asked_for() -> None:
    assert make_verifier("code", {"workers": 1}).settings.tier == "landlock"  # type: ignore[attr-defined]
    bare = Code({"tier": "none", "workers": 1})
    try:
        assert "unprotected" in bare.notes[0]
        assert judged(bare, SUM, "print(sum(map(int, input().split())))").kind is VerdictKind.correct
        assert judged(bare, SUM, "print(0)").kind is VerdictKind.wrong
    finally:
        bare.close()


def test_settings_that_are_wrong() -> None:
    for given_settings, said in (
        ({"tier": "firejail"}, "code.tier is 'firejail'; it must be one of landlock, bwrap, none"),
        ({"test_second": 1}, "did you mean 'test_seconds'"),
        ({"test_seconds": 0}, "from 1 to 600"),
        ({"memory_mb": True}, "whole number"),
    ):
        with pytest.raises(UserError, match=said):
            make_verifier("code", given_settings)
    with pytest.raises(UserError, match="no settings"):
        make_verifier("countdown", {"tier": "none"})


EXTRACTION = [
    ("```python\na\n```", "a\n"),
    ("```\na\n```", "a\n"),
    ("```py\na\n```\ntext\n```python\nb\n```", "b\n"),
    ("```python\na\n```\nIt prints\n```\nYES\n```", "a\n"),
    ("```python\na\n```\n```bash\nrm\n```", "a\n"),
    ("<think>\n```python\na\n```\n</think>\n```python\nb\n```", "b\n"),
    ("  ```Python\n  a\n  ```", "a\n"),
    ("1. So:\n\n   ```python\n   if a:\n       b\n\n   ```\n2. Done", "if a:\n    b\n\n"),
    ("- ```python\n  a\n  ```", "a\n"),
    ("  ```python\n a\n    b\n  ```", "a\n  b\n"),
    ("```python\n    return a\n```", "    return a\n"),
    ('```python title="a.py"\na\n```', "a\n"),
    ("``` python {1,3}\na\n```", "a\n"),
    ("```{.python .numberLines}\na\n```", "a\n"),
    ("```python:src/a.py\na\n```", "a\n"),
    ("```py3\na\n```", "a\n"),
    ("````python\nx\n```\n````", "x\n```\n"),
    ("```" + "." * 100_000 + "`\n```python\na\n```", "a\n"),
    ("~~~python\na\n~~~", "a\n"),
    ("~~~\n```\na\n~~~", "```\na\n"),
    ("```python\na\n````", "a\n"),
    ("````python\na\n```", None),
    ("```python\na\n~~~", None),
    ("```print(1)``` is it", None),
    ("```pycon\n>>> a\n```", None),
    ("```python\r\na\r\n```", "a\n"),
    ("```python\na\n```\n```python\nb", None),
    ("<think>\n```python\na\n```", None),
    ("```cpp\na\n```", None),
    ("```python\n\n```", None),
    ("no code", None),
    ("", None),
    ("```python\n" + "a" * (1 << 18) + "\n```", None),
]


@pytest.mark.parametrize(("text", "program"), EXTRACTION)
def test_the_program_in_a_completion(text: str, program: str | None) -> None:
    assert extract(text)[0] == program
    assert (extract(text)[1] == "") is (program is not None)


def test_a_text_without_a_block() -> None:
    assert extract("print(1)", whole=True)[0] == "print(1)"
    assert extract("print(1)", StopReason.length, whole=True) == (None, "truncated")
    assert extract("```cpp\nx\n```", whole=True)[0] is None


@settings(deadline=None)
@given(st.text(alphabet="`\n apython<>/think", max_size=300))
def test_extraction_never_raises(text: str) -> None:
    program, reason = extract(text)
    assert (program is None) is bool(reason)


ATOMS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
VALUES = st.recursive(
    ATOMS | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.frozensets(st.integers())
    ),
    max_leaves=12,
)


@settings(max_examples=50, deadline=None)
@given(VALUES)
def test_values_come_back_as_they_were(value: Any) -> None:
    back = values.decode(values.encode(value))
    assert back == value and type(back) is type(value)
    assert same(back, value)


@settings(deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda s: st.lists(s, max_size=4)))
def test_decoding_raises_nothing_else(data: Any) -> None:
    with contextlib.suppress(values.ValueLimit):
        values.decode(data)


def test_the_documented_settings_are_the_settings() -> None:
    page = (Path(__file__).parents[1] / "docs" / "code.md").read_text().split("## Settings")[1]
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `")]
    written = {name.strip(" `"): default.strip(" `") for name, default in rows}
    assert written == {f.name: str(f.default) for f in dataclasses.fields(CodeSettings)}
    tried = len(ATTEMPTS) + 1
    assert f"makes {tried} attempts" in (Path(__file__).parents[1] / "docs" / "code.md").read_text()
