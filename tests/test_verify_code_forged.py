"""Programs that would be judged right without doing anything, or not be judged at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rollwise.records import VerdictKind
from rollwise.verify.code import Code
from tests.test_verify_code import asked, fenced, judged, needs_jail


@pytest.fixture(scope="module")
def verifier() -> Iterator[Code]:
    made = Code({"workers": 1, "test_seconds": 10, "output_kb": 64, "memory_mb": 256})
    yield made
    made.close()


COUNT = 10**400
BOTH = {"form": "asserts", "tests": ["assert abs(f(1) - 2) < 1"], "setup": ""}
FRAME = (
    "import os, struct\ndef f(x):\n    body = {}\n    os.write(3, struct.pack('>I', len(body)) + body)\n    os._exit(0)"
)
HUGE = '["c", ["i", "0x' + "f" * 400 + '"], 0]'


def sends(frame: str) -> str:
    """A program whose function answers with a frame of its own making."""
    return FRAME.replace("{}", repr(frame.encode()))


# What a program may return or write in place of a result: never a way to be left unjudged.
ODD = [
    f"class Z(complex):\n    real = {COUNT}\ndef f(x): return Z(1)",
    "class Z(complex):\n    @property\n    def imag(self): raise OverflowError\ndef f(x): return Z(5)",
    "class N(int):\n    def __add__(self, o): return 'x'\n    def __lt__(self, o): return None\ndef f(x): return N(7)",
    "class L(list):\n    def __iter__(self): raise MemoryError\ndef f(x): return L([1])",
    "class M(type):\n    __name__ = property(lambda c: 1 / 0)\nclass A(metaclass=M): pass\ndef f(x): return A()",
    "class A:\n    __class__ = int\ndef f(x): return A()",
    f"def f(x): return {COUNT}",
    f"def f(x): return complex(1, 1), {COUNT}",
    "def f(x): return 1e308j",
    "def f(x): raise type('E\\ud800', (Exception,), {})()",
    sends('{"value": ' + HUGE + "}"),
    sends('{"value": ["c", "a", "b"]}'),
    sends('{"value": ["i", 3]}'),
    sends('{"value": ["f", ["l"]]}'),
    sends('{"value": ["d", [["l"], 1]]}'),
    sends('{"value": ["s", []]}'),
    sends('{"value": ["b", {"a": 1}]}'),
    sends('{"value": ' + "[" * 900 + "]" * 900 + "}"),
    sends('{"value": ' + "9" * 5000 + "}"),
    sends('{"value": NaN}'),
    sends('{"value": {"a": 1}}'),
    sends('{"error": ' + "[" * 900 + "]" * 900 + "}"),
    sends('{"error": null}'),
    sends("[]"),
    sends("null"),
    sends("{"),
]


@needs_jail
@pytest.mark.parametrize(
    "tests", [{"form": "calls", "name": "f", "inputs": [[1]], "outputs": [2]}, BOTH], ids=["calls", "asserts"]
)
def test_nothing_that_a_program_sends_leaves_it_unjudged(verifier: Code, tests: dict[str, Any]) -> None:
    for program, found in zip(ODD, verifier.judge([asked(tests, fenced(p)) for p in ODD]), strict=True):
        assert found.kind is VerdictKind.wrong, (program, found)


@needs_jail
def test_nothing_that_a_program_sends_to_a_test_apart_leaves_it_unjudged(verifier: Code) -> None:
    tests = {"form": "asserts", "tests": ["for n in range(3):\n    assert abs(f(n) - 2) < 1"], "setup": ""}
    for program, found in zip(ODD, verifier.judge([asked(tests, fenced(p)) for p in ODD]), strict=True):
        assert found.kind is VerdictKind.wrong, (program, found)


def calls(name: str, given: Any, wanted: Any) -> dict[str, Any]:
    return {"form": "calls", "name": name, "inputs": [given], "outputs": [wanted]}


NOTHING = '"""Nothing: what the imports of the judge bring is none of the program\'s."""'
GCD = {"form": "asserts", "tests": ["assert gcd(12, 18) == 6"], "setup": "from math import gcd"}
STUB = {
    "form": "check",
    "tests": ["def check(c): assert c(4) is None"],
    "entry": "act",
    "prompt": "def act(x):\n    ''\n",
}
WITH_HELPER = "from math import gcd\ndef helper(x): return gcd(x, 6)\ndef mine(x):\n    ''\n"
BY_HELPER = {"form": "check", "tests": ["def check(c): assert c(4) == 2"], "entry": "mine", "prompt": WITH_HELPER}
OWN = [
    (calls("gcd", [12, 18], 6), "x = 1", "from math import gcd"),
    (calls("gcd", [12, 18], 6), "import math", "def gcd(a, b): return a if not b else gcd(b, a % b)"),
    (calls("gcd", [12, 18], 6), "gcd(1, 2)", "class Solution:\n    def gcd(self, a, b): return gcd(a, b)"),
    (calls("factorial", [4], 24), "f = factorial", "factorial = lambda n: n * factorial(n - 1) if n else 1"),
    (calls("sorted", [[2, 1]], [1, 2]), "x = sorted([2])", "sorted = sorted"),
    (calls("sum", [[2, 1]], 3), NOTHING, "def sum(xs): return math.fsum(xs)"),
    (calls("capwords", ["a b"], "A B"), "def caps(s): return capwords(s)", "def capwords(s): return s.title()"),
    (GCD, "x = 1", "from math import gcd"),
    (GCD, "", "def lcm(a, b): return a * b // gcd(a, b)\ndef gcd(a, b): return a * b // math.lcm(a, b)\nimport math"),
    (STUB, "x = 1", "def act(x): pass"),
    (STUB, "# nothing", "    return None"),
    (BY_HELPER, "def other(x): return helper(x)", "def mine(x): return helper(x)"),
    (BY_HELPER, "mine", "    return helper(x)"),
]  # fmt: skip


@needs_jail
def test_the_function_is_one_that_the_program_binds(verifier: Code) -> None:
    """With what others bring into its names a program that defines nothing would be right."""
    for tests, without, own in OWN:
        assert judged(verifier, tests, without or "pass").kind is VerdictKind.wrong, without
        assert judged(verifier, tests, own).kind is VerdictKind.correct, own
