"""The expression parser and the verdicts built on it: exact, bounded, and never anything but a verdict."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwise.records import StopReason, VerdictKind
from rollwise.verify.answers import answer_block
from rollwise.verify.arithmetic import Limits, ParseError, last_integer, parse, tokenize
from rollwise.verify.countdown import countdown
from rollwise.verify.exact import digits_verdict, last_number_verdict

SHARED = Path(__file__).resolve().parents[2] / "shared"
EOS, CUT = StopReason.eos, StopReason.length
WIDE = Limits(characters=10**6, digits=12, tokens=10**6, nesting=20)

GOLD = {"numbers": [3, 5, 7], "target": 26}


# -- the parser ------------------------------------------------------------------------------------------------------

Tree = tuple[str, Fraction, Counter[int]]  # a fully parenthesised text, its value, its numbers


def _join(pair: tuple[Tree, str, Tree]) -> Tree:
    (a, x, used_a), sign, (b, y, used_b) = pair
    if sign in "/÷" and y == 0:
        sign = "+"
    value = {"+": x + y, "-": x - y, "−": x - y, "*": x * y, "×": x * y, "·": x * y}.get(sign)
    return f"({a} {sign}{b})", x / y if value is None else value, used_a + used_b


def _leaf(n: int) -> Tree:
    return str(n), Fraction(n), Counter([n])


trees: st.SearchStrategy[Tree] = st.recursive(
    st.integers(0, 10**6).map(_leaf),
    lambda inner: st.tuples(inner, st.sampled_from("+-*/×·÷−"), inner).map(_join),
    max_leaves=8,
)


@given(trees)
def test_parser_agrees_with_exact_arithmetic(tree: Tree) -> None:
    text, value, used = tree
    parsed = parse(text)
    assert parsed.value == value
    assert parsed.used == used


@given(trees, st.text(" \t\r\n", max_size=10), st.text(" \t\r\n", max_size=10))
def test_space_around_changes_nothing(tree: Tree, before: str, after: str) -> None:
    assert parse(before + tree[0] + after) == parse(tree[0])


@given(st.text("0123456789+-*/() ", max_size=40))
def test_parser_agrees_with_fraction_on_flat_text(text: str) -> None:
    """Text made of the grammar's characters either is an expression whose value Fraction's own arithmetic gives, or an
    error; a second reading of the same tokens gives the same."""
    try:
        parsed = parse(text)
    except ParseError:
        return
    assert parse("".join(tokenize(text))) == parsed
    assert parse(f"({text})").value == parsed.value


@given(st.text())
def test_parser_raises_only_its_own_error(text: str) -> None:
    for act in (parse, last_integer):
        try:
            act(text)
        except ParseError as error:
            assert str(error)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1/3*3", 1), ("2-3-4", -5), ("8/4/2", 1), ("2+3*4", 14), ("(2+3)*4", 20), ("7", 7), ("0", 0), ("3 × 4 − 2", 10)],
)
def test_precedence_and_order(text: str, value: int) -> None:
    assert parse(text).value == value


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "()", "1.5", "1,5", "1_0", "0x10", "1e2", "007", "00", "-3", "+3", "3*-4", "(-3)", "2**3", "7//2",
        "1 5", "3(4)", "(3)(4)", "3+", "*3", "((3)", "3)", "٣+٤", "3²", "３", "3+4;", "x+1", "3=3", "$3", "1/0",
        "1/(2-2)", "5%3", "__import__('os')", "().__class__", "9" * 13, "9" * 257, "9" * 20_000, "1+" * 200 + "1",
        "(" * 21 + "1" + ")" * 21, "(" * 3000 + "1" + ")" * 3000, "9**9**9**9", "3\x0b+4", "3\u00a0+4", "3\x00",
    ],
)  # fmt: skip
def test_parser_refuses(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)


def test_limits_are_inclusive() -> None:
    assert parse("9" * 12).value == 10**12 - 1
    assert parse("(" * 20 + "1" + ")" * 20).value == 1
    assert parse("1" + " " * 255).value == 1
    assert parse("+".join("1" * 64)).value == 64  # 127 tokens


def test_parser_needs_no_recursion_limit() -> None:
    """The deepest text the limits allow fits in few frames, and a long one in no more."""
    depth = sys.getrecursionlimit()
    assert parse("+".join(["1"] * 50_000), WIDE).value == 50_000
    assert sys.getrecursionlimit() == depth


# -- time ------------------------------------------------------------------------------------------------------------


def _seconds(act: Callable[[str], Any], text: str) -> float:
    best = 1e9
    for _ in range(3):
        start = time.perf_counter()
        with contextlib.suppress(ParseError):
            act(text)
        best = min(best, time.perf_counter() - start)
    return best


HOSTILE = ["1+", "(", "9", "<answer>", "</answer>", "<answer>1", "<think>", "</think>", "<", "=", " ", ",", "1,", "٣"]


@pytest.mark.parametrize("unit", HOSTILE)
def test_time_is_linear_in_the_text(unit: str) -> None:
    """Eight times the text takes far less than the 64 times of a quadratic scan; a floor keeps noise out."""
    small, large = unit * (25_000 // len(unit)), unit * (200_000 // len(unit))

    def everything(text: str) -> None:
        for stop in (EOS, CUT):
            countdown(text, GOLD, stop)
            countdown(text, GOLD, stop, form="bare")
            digits_verdict(text, "12", stop, tagged=True)
            last_number_verdict(text, 7, stop, tagged=True)
        parse(text, WIDE)

    floor = 2e-3
    assert _seconds(everything, large) < 24 * max(_seconds(everything, small), floor)


# -- countdown -------------------------------------------------------------------------------------------------------


def _cases() -> list[dict[str, Any]]:
    path = SHARED / "cases" / "verifier.jsonl"
    if not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [r for r in rows if r["task"] == "countdown"]


def test_shared_countdown_cases() -> None:
    cases = _cases()
    if not cases:
        pytest.skip("the shared verifier cases are not here")
    for case in cases:
        verdict = countdown(case["completion"], case["gold"], EOS)
        assert verdict.kind == case["want"], case


def test_published_solutions_are_correct_for_their_own_row_only() -> None:
    path = SHARED / "data" / "countdown" / "test.parquet"
    if not path.exists():
        pytest.skip("the shared Countdown rows are not here")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    rows = parquet.read_table(path, columns=["nums", "target", "answer"]).to_pylist()
    assert rows
    for row, other in zip(rows, rows[1:] + rows[:1], strict=True):
        gold = {"numbers": row["nums"], "target": row["target"]}
        assert countdown(row["answer"], gold, EOS).kind is VerdictKind.correct, row
        assert countdown(other["answer"], gold, EOS).kind is VerdictKind.wrong, row


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("<answer>3*7+5</answer>", "correct"),
        ("<think>3+5 <answer>1</answer></think> so <answer> 5 + 3*7 \n</answer> done", "correct"),
        ("thoughts</think><answer>(3*7)+5 = 26</answer>", "correct"),
        ("<answer>3*7-5</answer>", "wrong"),
        ("<answer>26</answer>", "wrong"),
        ("<answer>3*7+5+3-3</answer>", "wrong"),
        ("<answer>5*5+3-7+5</answer>", "wrong"),
        ("<answer>3*7+5=27</answer>", "wrong"),
        ("<answer>3*7+5=26=26</answer>", "invalid"),
        ("<answer>3*7+5=</answer>", "invalid"),
        ("<answer>3*7+5=20+6</answer>", "invalid"),
        ("<answer>3*7+5=(26)</answer>", "invalid"),
        ("<answer>26=3*7+5</answer>", "invalid"),
        ("<answer></answer>", "invalid"),
        ("<answer>3*7+5", "invalid"),
        ("3*7+5</answer>", "invalid"),
        ("3*7+5", "invalid"),
        ("<think><answer>3*7+5</answer>", "invalid"),
        ("<answer>3*7+5</answer></think>", "invalid"),
        ("<answer>3*7+5</answer> or <answer>3", "invalid"),
        ("<answer>5.7*3</answer>", "invalid"),
        ("<answer>" + " " * 250 + "3*7+5  </answer>", "invalid"),
        ("", "invalid"),
    ],
)
def test_answer_tag_form(text: str, want: str) -> None:
    verdict = countdown(text, GOLD, EOS)
    assert verdict.kind == want
    assert verdict.score == (1.0 if want == "correct" else 0.0)
    assert bool(verdict.detail) == (want != "correct")


def test_negative_target_may_be_claimed() -> None:
    assert countdown("3-5=-2", {"numbers": [3, 5], "target": -2}, EOS, form="bare").kind is VerdictKind.correct


def test_a_cut_completion() -> None:
    """Cut after a complete block it counts, cut inside or before it does not; the bare form needs its end."""
    assert countdown("<answer>3*7+5</answer> and", GOLD, CUT).kind is VerdictKind.correct
    assert countdown("<answer>3*7+5", GOLD, CUT).kind is VerdictKind.invalid
    assert countdown("3*7+5", GOLD, EOS, form="bare").kind is VerdictKind.correct
    assert countdown("3*7+5", GOLD, CUT, form="bare").kind is VerdictKind.invalid


@pytest.mark.parametrize(
    ("text", "kind", "score"),
    [
        ("<answer>3*7+5</answer>", "correct", 1.0),
        ("<answer>3*7-5</answer>", "wrong", 0.1),
        ("<answer>nonsense</answer>", "invalid", 0.1),
        ("nonsense", "invalid", 0.0),
    ],
)
def test_shaped_reward_is_apart_from_the_kind(text: str, kind: str, score: float) -> None:
    verdict = countdown(text, GOLD, EOS, reward="shaped")
    assert (verdict.kind, verdict.score) == (kind, score)


def test_shaped_reward_in_the_bare_form() -> None:
    assert countdown("3*7-5", GOLD, EOS, form="bare", reward="shaped").score == 0.1
    assert countdown("3*7-", GOLD, EOS, form="bare", reward="shaped").score == 0.0
    assert countdown("3*7-5", GOLD, CUT, form="bare", reward="shaped").score == 0.0


@given(st.text(), st.sampled_from(["answer_tag", "bare"]), st.sampled_from([EOS, CUT]))
def test_countdown_never_raises_and_never_rewards_noise(text: str, form: Any, stop: StopReason) -> None:
    verdict = countdown(text, {"numbers": [971, 883, 797, 661], "target": 104729}, stop, form=form)
    assert verdict.kind is not VerdictKind.correct
    assert countdown(f"<answer>{text}</answer>", GOLD, stop).kind in set(VerdictKind) - {VerdictKind.infra_error}


@given(st.permutations([2, 3, 5, 7]), st.integers(0, 10**6))
def test_wrong_numbers_are_rejected(numbers: list[int], other: int) -> None:
    """The right value does not help where a number is missing, extra or used twice."""
    text = "+".join(map(str, numbers))
    gold = {"numbers": [7, 5, 3, 2], "target": 17}
    assert countdown(text, gold, EOS, form="bare").kind is VerdictKind.correct
    assert countdown(f"{text}+{other}-{other}", gold, EOS, form="bare").kind is VerdictKind.wrong
    assert countdown(text, {**gold, "target": 18}, EOS, form="bare").kind is VerdictKind.wrong


# -- digits and numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "value"), [("10", 10), ("11,10", 10), ("1,2,3,0", 0)])
def test_last_integer(text: str, value: int) -> None:
    assert last_integer(text) == value


@pytest.mark.parametrize("text", ["", ",", "1,", ",1", "1,,2", "-1", "+1", "1 ,2", "01", "1;2", "٣", "1.0", "9" * 13])
def test_last_integer_refuses(text: str) -> None:
    with pytest.raises(ParseError):
        last_integer(text)


@pytest.mark.parametrize(
    ("text", "stop", "tagged", "want"),
    [
        ("1259", EOS, False, "correct"),
        (" 1259\n", EOS, False, "correct"),
        ("1295", EOS, False, "wrong"),
        ("12599", EOS, False, "wrong"),
        ("", EOS, False, "invalid"),
        ("1259.", EOS, False, "invalid"),
        ("1259", CUT, False, "invalid"),
        ("١٢٥٩", EOS, False, "invalid"),
        ("<answer>1259</answer>", EOS, False, "invalid"),
        ("<answer>1259</answer>", EOS, True, "correct"),
        ("<think>hm</think>1259", EOS, True, "correct"),
        ("<think>1259", EOS, True, "invalid"),
        ("<answer>1259", EOS, True, "invalid"),
        ("<answer>1259</answer> hm", CUT, True, "correct"),
        ("<answer>1259</answer><answer>9521</answer>", EOS, True, "wrong"),
    ],
)
def test_digit_strings(text: str, stop: StopReason, tagged: bool, want: str) -> None:
    assert digits_verdict(text, "1259", stop, tagged=tagged).kind == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("10", "correct"),
        ("11,10", "correct"),
        ("99,10", "correct"),
        ("10,11", "wrong"),
        ("10=10", "invalid"),
        ("", "invalid"),
    ],
)
def test_chain_sums(text: str, want: str) -> None:
    assert last_number_verdict(text, 10, EOS).kind == want
    assert last_number_verdict(text, 10, CUT).kind is VerdictKind.invalid
    assert last_number_verdict(f"so <answer>{text}</answer>", 10, EOS, tagged=True).kind == want


def test_answer_block_reasons_differ() -> None:
    texts = ["", "<answer>", "</answer>", "<think>", "<answer>1</answer><answer>"]
    assert len({answer_block(t)[1] for t in texts}) == len(texts)
