"""GSM8K, choices, exact text, geometry and Countdown as verifiers, and what holds for all of them."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.errors import UserError
from rollwise.records import StopReason, VerdictKind
from rollwise.verify.choice import letters, options_of
from rollwise.verify.solve import solve
from rollwise.verify.table import make_verifier, verifier_names
from rollwise.verify.text import folded
from tests.verifying import kinds, said, verdict

GSM8K, CHOICE, EXACT = make_verifier("gsm8k"), make_verifier("choice"), make_verifier("exact")
GEOMETRY, COUNTDOWN = make_verifier("geometry"), make_verifier("countdown")
MINE = ("math", "gsm8k", "choice", "exact", "geometry", "countdown")


def test_the_table() -> None:
    assert set(MINE) <= set(verifier_names())
    assert [make_verifier(n).name for n in MINE] == list(MINE)
    with pytest.raises(UserError, match="unknown verifier 'maths'; did you mean 'math'"):
        make_verifier("maths")


# -- gsm8k -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "text", "want"),
    [
        ("18", "#### 18.", "correct"),
        ("18", "#### $18", "correct"),
        ("1,000", "#### 1000", "correct"),
        ("1000", "#### 1,000.00", "correct"),
        ("18", "#### 17\nwait\n#### 18", "correct"),
        ("18", "#### 18\n#### 17", "wrong"),
        ("18", "#### 18 dollars", "correct"),
        ("18", "#### 17 or 18", "wrong"),
        ("18", "#### ", "invalid"),
        ("-3", "#### -3", "correct"),
        ("-3", "#### −3", "correct"),
        ("3", "#### -3", "wrong"),
        ("0.5", "#### .5", "correct"),
        ("50", "#### 50%", "correct"),
        ("18", "so \\boxed{18}", "correct"),
        ("18", "so \\boxed{\\$18}", "correct"),
        ("18", "so \\boxed{18 \\text{ dollars}}", "correct"),
        ("1", "so \\boxed{\\frac{2}{2}}", "correct"),
        ("18", "so \\boxed{}", "wrong"),
        ("18", "so \\boxed{18", "invalid"),
        ("18", "The answer is 18.", "correct"),
        ("18", "He has 3 + 15 = 18 eggs\nA: 18", "correct"),
        ("18", "First 3, then 15.\nThat makes 18 eggs in all.", "correct"),
        ("18", "That makes 18 eggs.\nHe sells them in 3 days.", "wrong"),
        ("18", "<think>18</think>We really do not know", "invalid"),
        ("18", "<think>#### 18", "invalid"),
        ("18", "#### " + "1" * 60, "invalid"),
        ("16 - 3 = <<16-3=13>>13\n#### 13", "#### 13", "correct"),
        ("She makes 9 * 2 = 18\nA: 18", "#### 18", "correct"),
        (18, "#### 18", "correct"),
        (18.0, "#### 18", "correct"),
        ("eighteen", "#### 18", "infra_error"),
        (None, "#### 18", "infra_error"),
    ],
)
def test_gsm8k(gold: Any, text: str, want: str) -> None:
    found = verdict(GSM8K, gold, text)
    assert found.kind == want, found.detail
    if want == "infra_error":
        assert found.detail.startswith("gold: ")


@pytest.mark.parametrize(
    "text",
    [
        "- 18",
        "\u201418",
        "\u201218",
        "\u201118",
        "\ufe6318",
        "\u207b18",
        "- $18",
        "-**18**",
        "minus 18",
        "negative 18",
        "not 18",
        "18 million",
        "18k",
        "18 dozen",
        "18 and a half",
        "18 squared",
        "18\\pi",
        "18x",
        "18!",
        "18 * x",
        "18 + x",
        "sqrt(18)",
        "x18",
        ">18",
        "less than 18",
        "half of 18",
        "18 or seventeen",
        "1,8",
        ",18",
        "18, 17",
        "18. Or 17",
        "36:2",
        "~18",
    ],
)
def test_gsm8k_is_one_number_and_nothing_more(text: str) -> None:
    assert verdict(GSM8K, "18", f"#### {text}").kind is VerdictKind.wrong


@pytest.mark.parametrize(
    ("gold", "text"),
    [
        ("-18", "#### - 18"),
        ("-18", "#### \u2014$18"),
        ("18", "#### **$18**"),
        ("18", "#### 18 miles per hour"),
        ("18", "The answer is $18/day"),
        ("18", "The answer is **18 dollars**."),
        ("18", "I have 18"),
        ("1800", "#### $1,800.00"),
        ("18000000", "#### 18 million"),
    ],
)
def test_gsm8k_as_models_write_it(gold: str, text: str) -> None:
    assert verdict(GSM8K, gold, text).kind is VerdictKind.correct


def test_a_gsm8k_gold_over_a_limit_says_nothing_of_the_answer() -> None:
    found = verdict(GSM8K, 1e308, "#### 18")
    assert (found.kind, found.detail) == (VerdictKind.infra_error, "gold: over 50 digits in a number")


def test_gsm8k_cut_short() -> None:
    assert verdict(GSM8K, "18", "#### 18", stop=StopReason.length).kind is VerdictKind.invalid
    assert verdict(GSM8K, "18", "#### 18\nand", stop=StopReason.length).kind is VerdictKind.correct
    assert verdict(GSM8K, "18", "That makes 18", stop=StopReason.length).kind is VerdictKind.invalid


# -- choice ----------------------------------------------------------------------------------------------------------

FIVE = {"options": ["A)125", "B)150", "C)200", "D)250", "E)None of these"]}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("\\boxed{C}", "correct"),
        ("\\boxed{\\text{C}}", "correct"),
        ("\\boxed{\\textbf{(C)}}", "correct"),
        ("\\boxed{(C) 200}", "correct"),
        ("\\boxed{C: 200}", "correct"),
        ("\\boxed{200}", "correct"),
        ("\\boxed{c}", "correct"),
        ("\\boxed{C) 250}", "wrong"),
        ("\\boxed{(D) 200}", "wrong"),
        ("\\boxed{B}", "wrong"),
        ("\\boxed{(A),(C)}", "wrong"),
        ("\\boxed{A, C}", "wrong"),
        ("\\boxed{AC}", "wrong"),
        ("\\boxed{A} or \\boxed{C}", "wrong"),
        ("\\boxed{H}", "invalid"),
        ("\\boxed{perhaps}", "invalid"),
        ("\\boxed{}", "wrong"),
        ("Answer: C", "correct"),
        ("The correct answer is (C).", "correct"),
        ("The answer is option C", "correct"),
        ("**Answer:** C", "correct"),
        ("We add and find what we want.\nC", "correct"),
        ("We add and find what we want.\n(C)", "correct"),
        ("We can be sure that we have found what we want", "invalid"),
    ],
)
def test_choice(text: str, want: str) -> None:
    found = verdict(CHOICE, "C", text, FIVE)
    assert found.kind == want, found.detail


CITIES = {"options": ["Paris", "dog", "Rome", "London"]}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("Answer: C. dog", "wrong"),
        ("\\boxed{C: all}", "wrong"),
        ("\\boxed{C. dog and cat}", "wrong"),
        ("\\boxed{C. Madrid}", "wrong"),
        ("Answer: C: Rome or D: Berlin", "wrong"),
        ("The answer is C. No, D.", "wrong"),
        ("The answer is C. D", "wrong"),
        ("The answer is C. London is the capital of it", "wrong"),
        ("The wrong answer is C.", "wrong"),
        ("Not\nC", "invalid"),
        ("\\boxed{C. Rome}", "correct"),
        ("The answer is C, Rome.", "correct"),
        ("The answer is **C**: Rome", "correct"),
        ("The answer is C (Rome)", "correct"),
        ("The answer is C - Rome", "correct"),
        ("The answer is C because Rome is the capital.", "correct"),
        ("The answer is C. Rome is the capital of it.", "correct"),
        ("Option C is correct.", "correct"),
        ("The correct option is C.", "correct"),
    ],
)
def test_a_letter_with_text_must_have_that_options_text(text: str, want: str) -> None:
    found = verdict(CHOICE, "C", text, CITIES)
    assert found.kind == want, found.detail


def test_a_letter_with_an_option_that_is_a_number() -> None:
    numbers = {"options": ["1", "2", "4", "5"]}
    texts = ["\\boxed{C) 4}", "Answer: C. 4", "\\boxed{C) 5}", "Answer: C. 5"]
    assert kinds(CHOICE, "C", texts, numbers) == ["correct", "correct", "wrong", "wrong"]


@pytest.mark.parametrize(
    "options",
    [
        ["125", "150", "200"],
        ["A. 125", "B. 150", "C. 200"],
        [{"A": "125"}, {"B": "150"}, {"C": "200"}],
        {"A": "125", "B": "150", "C": "200"},
        {"label": ["A", "B", "C"], "text": ["125", "150", "200"]},
    ],
)
def test_options_in_every_published_shape(options: Any) -> None:
    assert options_of({"options": options}) == {"A": "125", "B": "150", "C": "200"}
    assert options_of({"choices": options}) == {"A": "125", "B": "150", "C": "200"}
    for gold in ("C", "(C)", 2, "200"):
        assert kinds(CHOICE, gold, ["\\boxed{C}", "\\boxed{200}", "\\boxed{B}"], {"options": options}) == [
            "correct",
            "correct",
            "wrong",
        ]


def test_ten_options_and_several_right_ones() -> None:
    assert kinds(CHOICE, "J", ["\\boxed{J}", "\\boxed{I}", "\\boxed{K}"]) == ["correct", "wrong", "invalid"]
    assert kinds(CHOICE, "ACD", ["\\boxed{A, C, D}", "\\boxed{DCA}", "\\boxed{A, C}"]) == [
        "correct",
        "correct",
        "wrong",
    ]
    assert letters("FACADE", {}) is None
    for gold in ("K", "", None, 7, "some text"):
        assert verdict(CHOICE, gold, "\\boxed{A}", FIVE).detail.startswith("gold: ")


# -- exact text ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "text", "want"),
    [
        ("Western blot", "<answer> western  Blot. </answer>", "correct"),
        ("Western blot", "\\boxed{Western blot}", "correct"),
        ("Western blot", "The answer is Western blot.", "correct"),
        ("Western blot", "Western blot", "correct"),
        ("Western blot", "<think>x</think>\nWestern blot\n", "correct"),
        ("Western blot", "It is a Western blot", "wrong"),
        ("Western blot", "<answer>Eastern blot</answer>", "wrong"),
        ("Western blot", "<answer>Western blot", "invalid"),
        ("①②③", "<answer>①②③</answer>", "correct"),
        ("①②③", "<answer>123</answer>", "wrong"),
        ("102", "<answer>10²</answer>", "wrong"),
        ("x2", "x²", "wrong"),
        ("Paris", "The answer is Paris. Or London.", "wrong"),
        ("3―4―1", "<answer>3―4―1</answer>", "correct"),
        ("caf\u00e9", "<answer>cafe\u0301</answer>", "correct"),
        ("Ｆｕｌｌ", "<answer>full</answer>", "correct"),
        ('"yes"', "<answer>Yes</answer>", "correct"),
        (7, "<answer>7</answer>", "correct"),
        (True, "<answer>true</answer>", "correct"),
        (["grey", "gray"], "<answer>gray</answer>", "correct"),
        ("x", "<answer>" + "x" * 5000 + "</answer>", "invalid"),
        ("", "<answer>x</answer>", "infra_error"),
        (None, "<answer>x</answer>", "infra_error"),
        ({"a": 1}, "<answer>x</answer>", "infra_error"),
    ],
)
def test_exact_text(gold: Any, text: str, want: str) -> None:
    assert verdict(EXACT, gold, text).kind == want


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=50))
def test_folding_text_is_done_once_and_for_all(text: str) -> None:
    once = folded(text)
    assert folded(unicodedata.normalize("NFC", once)) in (once, folded(once))
    assert folded(f"  {text} ") == once


@settings(max_examples=150, deadline=None)
@given(st.text(min_size=1, max_size=40))
def test_any_text_said_back_is_correct(gold: str) -> None:
    text = EXACT.restated(said(gold, ""))
    if text is not None:
        assert verdict(EXACT, gold, text).kind is VerdictKind.correct


# -- geometry --------------------------------------------------------------------------------------------------------


def test_geometry_reads_spaced_latex_and_degrees() -> None:
    texts = ["\\boxed{2\\sqrt{221}}", "\\boxed{\\sqrt{884}}", "\\boxed{221}", "29.73"]
    assert kinds(GEOMETRY, "2 \\sqrt { 221 }", texts) == ["correct", "correct", "wrong", "wrong"]
    assert kinds(GEOMETRY, "45", ["\\boxed{45^\\circ}", "\\boxed{45°}"]) == ["correct", "correct"]


def test_geometry_takes_the_letter_or_the_value() -> None:
    meta = {"choices": ["5", "5 \\sqrt { 2 }", "5 \\sqrt { 3 }", "10"]}
    texts = [
        "\\boxed{C}",
        "\\boxed{5\\sqrt3}",
        "\\boxed{(C) 5\\sqrt{3}}",
        "\\boxed{B}",
        "\\boxed{5\\sqrt2}",
        "\\boxed{7}",
    ]
    want = ["correct", "correct", "correct", "wrong", "wrong", "wrong"]
    assert kinds(GEOMETRY, "C", texts, meta) == want
    assert kinds(GEOMETRY, "5 \\sqrt { 3 }", texts, meta) == want


def test_geometry_is_exact_unless_the_row_says_otherwise() -> None:
    answer = "\\boxed{8.66}"
    assert verdict(GEOMETRY, "5\\sqrt{3}", answer).kind is VerdictKind.wrong
    assert verdict(GEOMETRY, "5\\sqrt{3}", answer, {"tolerance": 0.01}).kind is VerdictKind.correct
    assert verdict(GEOMETRY, "5\\sqrt{3}", answer, {"tolerance": 0.0001}).kind is VerdictKind.wrong
    assert verdict(GEOMETRY, "5\\sqrt{3}", answer, {"tolerance": "much"}).detail.startswith("gold: ")


# -- countdown -------------------------------------------------------------------------------------------------------


def test_countdown_gold_in_every_published_shape() -> None:
    for gold in ({"numbers": [3, 5, 7], "target": 26}, {"nums": [3, 5, 7.0], "target": "26"}):
        assert kinds(COUNTDOWN, gold, ["<answer>3*7+5</answer>", "<answer>3*7</answer>", "26"]) == [
            "correct",
            "wrong",
            "invalid",
        ]
    for bad in (None, 26, {"target": 26}, {"nums": [], "target": 26}, {"nums": [3.5], "target": 26}, {"nums": [3]}):
        assert verdict(COUNTDOWN, bad, "<answer>1</answer>").detail.startswith("gold: ")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), st.data())
def test_countdown_says_a_solution_back(numbers: list[int], data: st.DataObject) -> None:
    target = numbers[0]
    for n in numbers[1:]:
        target = data.draw(st.sampled_from([target + n, target - n, target * n]))
    gold = {"numbers": numbers, "target": target}
    text = COUNTDOWN.restated(said(gold, ""))
    assert text is not None
    assert verdict(COUNTDOWN, gold, text).kind is VerdictKind.correct


def test_a_question_without_a_solution_has_none_to_say() -> None:
    assert solve([2, 2], 7) is None
    assert solve(list(range(1, 9)), 36) is None  # too many to search
    assert COUNTDOWN.restated(said({"numbers": [2, 2], "target": 7}, "")) is None


# -- all of them -----------------------------------------------------------------------------------------------------

GOLDS: dict[str, Any] = {
    "gsm8k": "18",
    "choice": "C",
    "exact": "Western blot",
    "countdown": {"numbers": [3, 5, 7], "target": 26},
}
PIECES = [
    "\\boxed{",
    "}",
    "####",
    "18",
    "C",
    " ",
    "<answer>",
    "</answer>",
    "</think>",
    "answer is",
    "A:",
    "(",
    ")",
    "\n",
]


@settings(max_examples=250, deadline=None)
@given(
    st.sampled_from(sorted(GOLDS)),
    st.one_of(st.text(max_size=80), st.lists(st.sampled_from(PIECES), max_size=12).map("".join)),
)
def test_no_text_raises_and_white_space_at_the_end_changes_nothing(name: str, text: str) -> None:
    verifier = make_verifier(name)
    first, again, longer = verifier.judge([said(GOLDS[name], t) for t in (text, text, text + " \n\n\t")])
    assert first.kind is not VerdictKind.infra_error
    assert (first.kind, first.score) == (again.kind, again.score) == (longer.kind, longer.score)


@pytest.mark.parametrize("name", MINE)
def test_one_bad_gold_costs_only_its_own_verdict(name: str) -> None:
    verifier = make_verifier(name)
    gold = {**GOLDS, "math": "4", "geometry": "4"}[name]
    restated = verifier.restated(said(gold, ""))
    assert restated is not None
    found = verifier.judge([said(gold, restated), said(object(), restated), said(gold, restated)])
    assert [v.kind.value for v in found] == ["correct", "infra_error", "correct"]
    assert verifier.judge([]) == []
