"""Texts made to break a verifier: each ends at once, or at the full parser's deadline, and never as correct."""

from __future__ import annotations

import time
from typing import Any

import pytest

from rollwise.records import VerdictKind
from rollwise.verify import workers
from rollwise.verify.extract import final_answer
from rollwise.verify.mathematics import Math
from rollwise.verify.table import make_verifier
from tests.verifying import kinds, said, verdict

GOLDS: dict[str, Any] = {
    "math": "4",
    "gsm8k": "4",
    "choice": "C",
    "exact": "four",
    "geometry": "2\\sqrt{3}",
    "countdown": {"numbers": [1, 3], "target": 4},
}
SECONDS = 2.0  # of processor time, some fifty times what any of these takes: tells a bomb from a near-match

IN_A_BOX = [
    "9**9**9**9",
    "10^{10^{10}}",
    "9^{9}^{9}^{9}",
    "(9^{1000})^{1000}",
    "9^{999}" * 30,
    "99999999!",
    "((((9!)!)!)!)",
    "100!!!!",
    "99!^{99!}",
    "\\binom{99999}{50000}",
    "9" * 20_000,
    "(" * 3_000 + "1" + ")" * 3_000,
    "\\sqrt{" * 60 + "2" + "}" * 60,
    "__import__('os').system('true')",
    "().__class__.__bases__[0].__subclasses__()",
    "５＝４",
    "5=4",
    "x=1=2=3=4",
    "4 or 5 or 6",
    "4, 5, 6",
    "5 4",
    "1e999999999",
    "1e9999",
    "\\{4,5\\}",
    "4\\pm 1",
    "4:5",
    "0/0",
    "\\frac{4}{0}",
    "a" * 250,
    "{" * 250,
    "1" + "+1" * 120,
    "x^{" * 10 + "2" + "}" * 10,
    "(x+y)^{30}",
    ",".join("1" * 120),
    "(1,2)," * 40,
    "\\pm" * 50,
    "\\text{" * 40,
    "4" + "\\!" * 100 + "2",
]


@pytest.mark.parametrize("name", sorted(GOLDS))
def test_a_hostile_answer_is_not_correct_and_starts_no_process(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def ask(pairs: list[tuple[str, str]], deadline: float) -> list[workers.Answer]:
        asked.extend(pairs)
        return [workers.Answer("unread")] * len(pairs)

    monkeypatch.setattr(workers, "ask", ask)
    verifier = make_verifier(name)
    texts = [f"\\boxed{{{t}}}" for t in IN_A_BOX] + IN_A_BOX + ["\\boxed{}", "\\boxed{" * 3_000 + "4" + "}" * 3_000]
    for text in texts:
        start = time.thread_time()
        found = verdict(verifier, GOLDS[name], text)
        assert found.kind in (VerdictKind.wrong, VerdictKind.invalid), text[:80]
        assert time.thread_time() - start < SECONDS, text[:80]
    for_the_parser = {"(x+y)^{30}", "\\pm" * 50, "4" + "\\!" * 100 + "2"}  # short, without powers of powers
    assert {answer for _, answer in asked} <= (for_the_parser if name in ("math", "geometry") else set())


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("9**9**9**9", "invalid"),
        ("10^{10^{10}}", "invalid"),
        ("99999999!", "invalid"),
        ("9" * 20_000, "invalid"),
        ("(" * 3_000 + "1" + ")" * 3_000, "invalid"),
        ("__import__('os').system('true')", "invalid"),
        ("().__class__.__bases__", "invalid"),
        ("5=4", "wrong"),
        ("x=1=2=3=4", "wrong"),
        ("4 or 5 or 6", "wrong"),
        ("", "wrong"),
        ("5 4", "invalid"),
    ],
)
def test_the_verdicts_that_are_promised(text: str, want: str) -> None:
    found = Math().cheap(said("4", f"\\boxed{{{text}}}"))
    assert not isinstance(found, tuple)
    assert found.kind == want


PIECES = [
    "\\boxed{", "\\boxed{4", "\\boxed", "{", "}", "\\", "\\fbox {", "answer is ", "answer:", "####", "####\n",
    "<answer>", "</answer>", "<answer></answer>", "<think>", "</think>", "\nA:", "5 ", "5,", "1", "-$", ".5",
    "0.", "B) ", "(B", ". ", "** ", "'", ".", " ", "\n", "\\boxed{4} or \\boxed{5} or ",
    "\\boxed{4}, but \\boxed{5} ", "the answer is B\n", "İ", "=", "and ", "3*", "(", "\\text{", "$",
]  # fmt: skip


@pytest.mark.parametrize("name", sorted(GOLDS))
def test_two_hundred_kilobytes_of_near_matches(name: str) -> None:
    verifier = make_verifier(name)
    for piece in PIECES:
        text = piece * (200_000 // len(piece))
        start = time.thread_time()
        found = verdict(verifier, GOLDS[name], text)
        assert found.kind in (VerdictKind.wrong, VerdictKind.invalid), piece
        assert time.thread_time() - start < SECONDS, piece


def test_finding_the_answer_takes_time_linear_in_the_text() -> None:
    """Twenty times the text may not take two hundred times as long."""
    for piece in ("\\boxed{", "\\boxed{4} or ", "{", "answer is", "</answer>", "<think>"):

        def seconds(size: int, piece: str = piece) -> float:
            text = piece * (size // len(piece))
            start = time.thread_time()
            final_answer(text)
            return time.thread_time() - start

        assert min(seconds(400_000) for _ in range(3)) < 200 * max(min(seconds(20_000) for _ in range(3)), 1e-4), piece


def test_a_group_of_hostile_answers_leaves_the_good_ones_alone() -> None:
    texts = ["\\boxed{4}", *(f"\\boxed{{{t}}}" for t in IN_A_BOX[:12]), "\\boxed{5}", "\\boxed{\\frac{8}{2}}"]
    found = kinds(Math(), "4", texts)
    assert (found[0], found[-2], found[-1]) == ("correct", "wrong", "correct")
    assert set(found[1:13]) <= {"invalid", "wrong"}
