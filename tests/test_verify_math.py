"""The verifier for mathematics: every rule of docs/verifiers.md, the shapes of golds, and what holds for any text."""

from __future__ import annotations

import cmath
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.records import StopReason, Verdict, VerdictKind
from rollwise.verify import algebra
from rollwise.verify.extract import WINDOW, final_answer
from rollwise.verify.latex import DEFAULT, OverLimit, check, plain
from rollwise.verify.mathematics import Math, compare, read_gold
from rollwise.verify.reader import Scalar, readings
from tests.verifying import said, verdict

DOC = Path(__file__).parents[1] / "docs" / "verifiers.md"
MATH = Math()


def rules() -> list[tuple[str, str, str, str]]:
    """The rows of the document's tables: rule, gold, completion, verdict."""
    out = []
    for line in DOC.read_text(encoding="utf-8").splitlines():
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[0] not in ("rule", "---"):
            gold, text = (c[1:-1].replace("\\|", "|") for c in cells[1:3])
            text = text.replace(".\\nOr", ".\nOr")  # a cell has one line
            out.append((cells[0], gold, text, cells[3]))
    return out


@pytest.mark.parametrize(("rule", "gold", "text", "want"), rules(), ids=[r[0] for r in rules()])
def test_every_rule_of_the_document_holds(rule: str, gold: str, text: str, want: str) -> None:
    found = verdict(MATH, gold, text)
    assert (found.kind, found.score) == (want, float(want == "correct")), found.detail


def test_the_document_holds_all_rules() -> None:
    assert len(rules()) > 70


# -- where the answer stands -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("<think>\\boxed{1}</think>The answer is \\boxed{2}", "2"),
        ("<think>\\boxed{1} goes on", None),
        ("\\boxed{1}</think>\\boxed{2}", "2"),
        ("<think>a</think><answer>\\boxed{3}</answer>", "3"),
        ("<think>a</think><answer>3</answer> and more \\boxed{4}", "3"),
        ("<answer>3</answer> no, <answer>4", None),
        ("\\boxed{\\boxed{5}}", "5"),
        ("\\boxed{3+\\boxed{5}}", "3+\\boxed{5}"),
        ("\\boxed {7}", "7"),
        ("\\fbox{7}", "7"),
        ("\\boxed{\\{1,2\\}}", "\\{1,2\\}"),
        ("\\boxedfoo{7}", "\\boxedfoo{7}"),
        ("\\boxed{4}, \\boxed{5}, \\boxed{6}", "4, 5, 6"),
        ("Either \\boxed{4} or \\boxed{5}.", "4, 5"),
        ("\\boxed{4}\n\n\\boxed{5}", "4, 5"),
        ("We get \\boxed{4}. Wait, that is a mistake: \\boxed{5}", "5"),
        ("First \\boxed{4}, " + "and then a long way to go, " * 5 + "\\boxed{5}", "5"),
        ("So \\boxed{\\phantom{2}} + 1 = 5, and what goes there is \\boxed{4}", "4"),
        ("**Final Answer:** 42", "42"),
        ("The answer is: $\\frac{1}{2}$.", "$\\frac{1}{2}$."),
        ("The final answer is 4. I hope it is correct.", "4"),
        ("**Final Answer**\n\n4", "4"),
        ("The answer is therefore 4.", "4."),
        ("There is no doubt that the answer is 4", "4"),
        ("It is not hard to see that the answer is 4", "4"),
        ("The previous answer is wrong. \\boxed{4}", "4"),
        ("Not 5, but \\boxed{4}", "4"),
        ("This cannot be 5, so \\boxed{4}", "4"),
        ("The wrong way gives 5; the right way gives \\boxed{4}", "4"),
        ("$\\boxed{4}\\,\\pi$", None),
        ("\\boxed{4}\n\nNote that 7 would not work.", "4"),
        ("- \\boxed{4}", "4"),
        ("Answer \u2014 \\boxed{4}", "4"),
        ("\\boxed{13} times", "13"),
        ("$\\boxed{4}^\\circ$", "4"),
        ("\\boxed{4}\n\nThe final answer is 4.", "4"),
        ("\\boxed{4}\n#### 7", None),
        ("\\boxed{4}, but the correct answer is 7.", None),
        ("\\boxed{4} million", None),
        ("$3\\boxed{4}$", None),
        ("$\\boxed{4}\\pi$", None),
        ("- \\boxed{4} + 2", None),
        ("$\\sqrt{\\boxed{4}}$", None),
        ("The answer is 4. It could be 7", None),
        ("The answer is 3.5 metres", "3.5 metres"),
        ("#### 12", "12"),
        ("nothing of the kind was found in here", None),
        ("", None),
    ],
)
def test_the_final_answer(text: str, want: str | None) -> None:
    assert final_answer(text).text == want


@pytest.mark.parametrize(
    ("text", "want"),
    [("The answer is 12", None), ("The answer is 12\nand", "12"), ("\\boxed{12} and", "12"), ("12", None)],
)
def test_a_completion_that_was_cut_may_hold_half_an_answer(text: str, want: str | None) -> None:
    assert final_answer(text, StopReason.length).text == want


def test_an_answer_far_from_the_end_is_none() -> None:
    assert final_answer("\\boxed{4}" + "x " * WINDOW).text is None
    assert final_answer("\\boxed{4}" + "x " * (WINDOW // 4)).text == "4"


def test_what_a_reader_may_not_drop_is_not_dropped() -> None:
    """A wrong extractor would be seen: taking the first box, or the content up to the first brace, fails here."""
    assert final_answer("\\boxed{1} then \\boxed{\\frac{1}{2}}").text == "\\frac{1}{2}"


# -- golds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (27.0, "27"),
        (27, "27.0"),
        (0.75, "\\frac34"),
        (["$\\frac{1}{2 n+2}$"], "\\frac{1}{2(n+1)}"),
        ("Thus it is $\\boxed{12}$.", "12"),
        ("\\(\\sqrt{2}\\)", "\\sqrt2"),
        ("$3 \\sqrt{6}$.", "3\\sqrt6"),
        ("x < - 2", "(-\\infty, -2)"),
        ("2, 3, \\text{ and } 4", "2,3,4"),
        ("a=1, b=2", "1, 2"),
        ("$f(n)=n$, $g(n)=1$", "f(n)=n, g(n)=1"),
        ("No solution : $\\oslash$", "\\emptyset"),
        ("\\binom{2n}{n}", "\\frac{(2n)!}{n!n!}"),
        ("$13 \\mathrm{n}, 5 \\mathrm{~d}$", "13n, 5"),
        ("$-4.5 \\times 10^{3}$", "-4500"),
    ],
)
def test_golds_of_every_published_shape(gold: Any, answer: str) -> None:
    assert verdict(MATH, gold, f"\\boxed{{{answer}}}").kind is VerdictKind.correct
    restated = MATH.restated(said(gold, ""))
    assert restated is not None
    assert verdict(MATH, gold, restated).kind is VerdictKind.correct
    assert verdict(MATH, gold, "\\boxed{-77}").kind is VerdictKind.wrong


@pytest.mark.parametrize(
    "gold",
    [None, "", "  ", True, {"answer": 4}, [], ["4", "5"], "x" * 2000, "9^{9^{9}}", "It is the one in the middle"],
)
def test_a_gold_that_cannot_be_judged_says_nothing_of_the_answer(gold: Any) -> None:
    found = verdict(MATH, gold, "\\boxed{4}")
    assert found.kind is VerdictKind.infra_error
    assert found.detail.startswith("gold: ")
    assert MATH.restated(said(gold, "")) is None


def test_the_order_tells_where_names_are_left_out() -> None:
    assert verdict(MATH, "a=1, b=2", "\\boxed{2, 1}").kind is VerdictKind.wrong
    assert verdict(MATH, "a=1, b=2", "\\boxed{b=2, a=1}").kind is VerdictKind.correct


# -- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["1" * 51, "+".join("1" * 200), "(" * 21 + "1" + ")" * 21, "x^{1001}", "x**1001", "101!", "(9!)!", "2^{3^{4}}"],
)
def test_a_limit_is_a_limit(text: str) -> None:
    with pytest.raises(OverLimit):
        check(text, DEFAULT)
    assert verdict(MATH, "4", f"\\boxed{{{text}}}").kind is VerdictKind.invalid


@pytest.mark.parametrize("text", ["1" * 50, "(" * 20 + "1" + ")" * 20, "x^{1000}", "100!", "x^{2}+y^{3}", "e^{x^2}"])
def test_and_what_is_within_it_passes(text: str) -> None:
    check(text, DEFAULT)
    assert verdict(MATH, text, f"\\boxed{{{text} }}").kind is VerdictKind.correct


# -- for any text ----------------------------------------------------------------------------------------------------

GOLDS = ("4", "\\frac{1}{2}", "x^2+1", "(1,2)", "\\text{east}", "[0,3)", "x=5", "52_8")
PIECES = [
    "\\boxed{", "}", "{", "4", "5", "\\frac", "\\sqrt", "^", "!", "(", ")", "[", "]", ",", "=", "<", "\\le",
    "\\pm", "x", "\\text{", "and", "or", "%", "\\%", "_", "|", "\\{", "\\}", ".", "$", "&", ":", "i", "e",
    "\\\\", "\\ln", "\\infty", "\\cup", "\\begin{pmatrix}", "\\end{pmatrix}", "####", "<answer>", "</answer>",
    "</think>", " ", "\n", "answer is",
]  # fmt: skip


def cheap(gold: str, text: str) -> str:
    """The verdict by exact rules, or that the full parser would be asked."""
    found = MATH.cheap(said(gold, text))
    return "asked" if isinstance(found, tuple) else found.kind.value


@settings(max_examples=250, deadline=None)
@given(
    st.sampled_from(GOLDS), st.one_of(st.text(max_size=80), st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
)
def test_no_text_raises_and_white_space_at_the_end_changes_nothing(gold: str, text: str) -> None:
    first = cheap(gold, text)
    assert first != "infra_error"
    assert cheap(gold, text) == first
    assert cheap(gold, text + " \n\t\n") == first


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_taking_off_what_surrounds_an_answer_is_done_once_and_for_all(text: str) -> None:
    assert plain(plain(text)) == plain(text)


fractions = st.fractions(min_value=-10_000, max_value=10_000, max_denominator=400)


def spellings(value: Fraction) -> list[str]:
    p, q, sign = abs(value.numerator), value.denominator, "-" if value < 0 else ""
    out = [
        f"{value}",
        f"{sign}\\frac{{{p}}}{{{q}}}",
        f"\\dfrac{{{value.numerator}}}{{{q}}}",
        f"${value}$",
        f"({value})",
    ]
    out += [f"\\frac{{{2 * p}}}{{{2 * q}}}"] if value > 0 else []
    out += [f"{sign}{p // q}\\frac{{{p % q}}}{{{q}}}"] if p > q > 1 and p % q else []
    if q == 1:
        out += [
            f"{value.numerator:,}",
            f"{value.numerator}.0",
            f"x = {value}",
            f"{value}\\text{{ units}}",
            f"{sign}0{p}",
        ]
    if 10**6 % q == 0:
        out.append(f"{sign}{p * 10**6 // q // 10**6}.{p * 10**6 // q % 10**6:06d}")
    return out


@settings(max_examples=120, deadline=None)
@given(fractions, st.data())
def test_a_number_is_right_in_every_spelling_and_another_number_in_none(value: Fraction, data: st.DataObject) -> None:
    gold, answer = (data.draw(st.sampled_from(spellings(value))) for _ in range(2))
    assert cheap(gold, f"so it is \\boxed{{{answer}}}.") == "correct"
    other = data.draw(fractions.filter(lambda f: f != value and abs(f) != abs(value)))
    assert cheap(gold, f"\\boxed{{{data.draw(st.sampled_from(spellings(other)))}}}") in ("wrong", "invalid")


Both = tuple[str, complex]  # LaTeX, and a plain numerical value
LEAVES: list[Both] = [("\\sqrt{2}", 2**0.5), ("\\sqrt3", 3**0.5), ("x", 1.7390527), ("y", 0.3618034), ("i", 1j)]
NAN = float("nan")


def joined(parts: tuple[Both, Both, int]) -> Both:
    (a, p), (b, q), how = parts
    return [
        (f"{a}+({b})", p + q),
        (f"({a})-({b})", p - q),
        (f"({a})({b})", p * q),
        (f"({a})\\cdot ({b})", p * q),
        (f"\\frac{{{a}}}{{{b}}}", p / q if abs(q) > 1e-9 else NAN),
        (f"({a})^2", p * p),
    ][how]


leaves = st.one_of(st.sampled_from(LEAVES), st.integers(1, 9).map(lambda n: (str(n), complex(n))))
expressions = st.recursive(leaves, lambda e: st.tuples(e, e, st.integers(0, 5)).map(joined), max_leaves=4)


@settings(max_examples=100, deadline=None)
@given(expressions, expressions)
def test_algebra_agrees_with_numbers(first: Both, second: Both) -> None:
    (a, x), (b, y) = first, second
    try:
        left, right = readings(a, DEFAULT)[0].forms[0], readings(b, DEFAULT)[0].forms[0]
        assert isinstance(left, Scalar)
        assert isinstance(right, Scalar)
        same = algebra.equal(left.value, right.value)
    except algebra.Undefined:
        assert cmath.isnan(x) or cmath.isnan(y)
        return
    except algebra.TooHard:
        return
    if not (cmath.isnan(x) or cmath.isnan(y)):
        assert same is (abs(x - y) <= 1e-9 * max(1.0, abs(x)))


def test_equal_to_float_precision_is_not_equal() -> None:
    """A comparison by floats would accept these."""
    assert cheap("\\frac{1}{2006!}", "\\boxed{\\frac{1}{2005!}}") == "wrong"
    assert cheap("10^{20}", "\\boxed{10^{20}+1}") == "wrong"
    assert cheap("\\sqrt{10^{30}+1}", "\\boxed{10^{15}}") in ("wrong", "asked")


def test_a_long_answer_and_a_short_one() -> None:
    found = compare(read_gold("4"), "4" * 300)
    assert isinstance(found, Verdict)
    assert found.kind is VerdictKind.invalid


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("\\frac{\\sqrt{3}}{3}", "\\frac{1}{\\sqrt{3}}"),
        ("145^\\circ", "145 \\text{ degrees}"),
        ("\\$4813.24", "\\$4{,}813.24"),
        ("(3,4]", "3<x\\le4"),
        ("1 \\pm \\sqrt{19}", "1+\\sqrt{19} \\text{ and } 1-\\sqrt{19}"),
        ("5x - 7y + 11z + 4 = 0", "-5x+7y-11z-4=0"),
        (".0000672", "6.72 \\times 10^{-5}"),
        ("11,\\! 111,\\! 111,\\! 100", "11,111,111,100"),
        ("-80\\leq g(x)\\leq 82", "[-80, 82]"),
        ("\\frac{270}7\\text{ degrees}", "\\frac{270}{7}^\\circ"),
        ("1 - e^{-10}", "1-\\frac{1}{e^{10}}"),
        ("f(x) = x^2", "x^2"),
        ("200(1+x)^2=401", "(1+x)^2=\\frac{401}{200}"),
        ("$y=\\frac{e}{4}x+\\frac{e}{4}$", "y = \\frac{e(x+1)}{4}"),
        ("$(-\\infty, 0) \\cup\\{1\\}$.", "(-\\infty,0)\\cup \\{1\\}"),
        ("$4 \\frac{4}{9}$ days", "\\frac{40}{9}"),
        ("$\\sqrt[4]{4 x^{2} y^{3}}$", "(4x^2y^3)^{1/4}"),
        ("$f^{-1}(x)=\\frac{5+4 x}{5}$", "\\frac{4x}{5}+1"),
        ("$p=-7,-2$", "p = -7 \\text{ or } p = -2"),
        ("\\frac{100!}{2^{50}}", "100! \\cdot 2^{-50}"),
        ("(n-2) 2^{n}+1", "n2^n-2^{n+1}+1"),
        ("M=2^{N-2}+1", "1+\\frac{2^N}{4}"),
        ("\\log_2 8", "3"),
        ("\\left\\lfloor\\log _{2} n\\right\\rfloor+1", "\\lfloor \\log_2 n \\rfloor + 1"),
        ("\\frac{8}{\\sqrt[3]{7}}", "8 \\cdot 7^{-1/3}"),
        ("12", "12 \\mathrm{~cm}^{2}"),
        ("12", "12\\text{ miles per hour}"),
        ("12", "12\\text{ times}"),
        ("12", "12\u200b"),
        ("12", "P(A)=12"),
        ("12", "\\angle A=12"),
        ("12", "a_{10}=12"),
        ("\\cos B=\\frac12", "\\frac12"),
        ("\\sin^{-1} x", "\\arcsin x"),
        ("5\\text{ km/h}", "5\\text{ kilometers per hour}"),
        ("12", "\\textbf{12}"),
        ("12", "\\text{Area}=12"),
        ("12", "12\\ \\text{square units}"),
        ("1000000", "1\\,000\\,000"),
        ("x<2\\text{ or }x>3", "(-\\infty,2)\\cup(3,\\infty)"),
        ("4:30\\text{ p.m.}", "4:30 PM"),
        ("No", "no"),
        ("\\text{even}", "\\textbf{Even}"),
    ],
)
def test_what_models_write_for_public_golds(gold: str, answer: str) -> None:
    assert cheap(gold, f"so it is $\\boxed{{{answer}}}$") == "correct"


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("4:30", "2:15"),
        ("4", "4 thousand"),
        ("4", "4\\text{ and a half}"),
        ("4", "4\\text{k}"),
        ("4", "4\\text{!}"),
        ("4", "4\\text{ pi}"),
        ("4", "4 over seven"),
        ("4", "4 maybe five"),
        ("4", "4\\text{ below zero}"),
        ("4", "4\\text{ (not 7)}"),
        ("4", "n \\ne 4"),
        ("4", "\\text{minus }x=4"),
        ("4", "\\ln x=4"),
        ("4", "x^{-1}=4"),
        ("4", "\\pi r=4"),
        ("4", "e=4"),
        ("4", "\\infty=4"),
        ("P(A)=4", "P(B)=4"),
        ("x=4", "y=4"),
        ("5\\text{ lb}", "5\\text{ kg}"),
        ("5\\text{ ml}", "5\\text{ L}"),
        ("5\\text{ north}", "5\\text{ south}"),
        ("0", "0\\cdot\\infty"),
        ("1", "\\infty/\\infty"),
        ("\\sin^{-1}x", "\\csc x"),
        ("10", "10 x"),
        ("10", "10m"),
        ("4:30\\text{ p.m.}", "4:30 AM"),
        ("x+y", "xy"),
        ("2^n", "n^2"),
        ("f(2x)", "2f(x)"),
        ("e^{\\pi}", "\\pi^e"),
        ("x^2", "|x|^2"),
        ("\\sqrt{2}", "1.41421356"),
        ("(0,1]", "[0,1)"),
        ("1,2", "(1,2)"),
        ("1,2", "1,2,2"),
        ("y=-3x+8", "y=3x+8"),
        ("x=5", "x=5, x=6"),
        ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{pmatrix} 1 & 2 \\end{pmatrix}"),
        ("3<x<5", "3<y<5"),
        ("MN", "MNP"),
        ("12", "1\\text{ }2"),
        ("e^{i\\pi}", "2"),
    ],
)
def test_what_looks_alike_and_is_not(gold: str, answer: str) -> None:
    """Not correct by exact rules; some are for the full parser to tell."""
    assert cheap(gold, f"so it is $\\boxed{{{answer}}}$") in ("wrong", "invalid", "asked")
