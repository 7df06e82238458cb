"""Columns, golds, options, pictures and routing: rows prepared for other trainers load as they are."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.data import Examples, Reading, load_examples, parse_map
from rollwise.data.columns import CHOICES as CHOICE_NAMES
from rollwise.data.columns import GOLD, IMAGES, PROMPT, SOURCE
from rollwise.data.reduction import boxed, reduced, same
from rollwise.data.routing import known_source
from rollwise.errors import UserError
from rollwise.verify.table import verifier_names

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 24
USER = [{"role": "user", "content": "What is 1 + 2?"}]


def load(tmp_path: Path, *rows: dict[str, Any], **reading: Any) -> Examples:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in rows), encoding="utf-8")
    return load_examples(str(path), Reading(**reading))


def refused(tmp_path: Path, *rows: dict[str, Any], **reading: Any) -> str:
    with pytest.raises(UserError) as error:
        load(tmp_path, *rows, **reading)
    assert "\n" not in str(error.value)
    return str(error.value)


# -- shapes of other trainers ----------------------------------------------------------------------------------------

SHAPES: dict[str, tuple[dict[str, Any], str, str, Any]] = {
    "TRL text": ({"prompt": "What is 1 + 2?", "solution": "$\\boxed{3}$"}, "What is 1 + 2?", "math", "3"),
    "TRL messages": ({"prompt": USER, "solution": "3"}, "What is 1 + 2?", "math", "3"),
    "verl": (
        {
            "data_source": "openai/gsm8k",
            "prompt": USER,
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": "3"},
            "extra_info": {"index": 0},
        },
        "What is 1 + 2?",
        "gsm8k",
        "3",
    ),
    "verl code": (
        {
            "data_source": "codecontests",
            "prompt": USER,
            "reward_model": {"ground_truth": json.dumps({"inputs": ["1\n"], "outputs": ["2\n"]})},
        },
        "What is 1 + 2?",
        "code",
        {"form": "stdio", "inputs": ["1\n"], "outputs": ["2\n"]},
    ),
    "SkyRL": (
        {"prompt": USER, "env_class": "gsm8k", "reward_spec": {"method": "rule", "ground_truth": "3"}},
        "What is 1 + 2?",
        "gsm8k",
        "3",
    ),
    "OpenRLHF": ({"input": "What is 1 + 2?", "label": "3", "datasource": "math"}, "What is 1 + 2?", "math", "3"),
    "verifiers": (
        {"question": "What is 1 + 2?", "answer": "3", "info": {}, "task": "default"},
        "What is 1 + 2?",
        "math",
        "3",
    ),
    "open-instruct": ({"messages": USER, "ground_truth": ["3"], "dataset": ["gsm8k"]}, "What is 1 + 2?", "gsm8k", "3"),
    "AReaL": ({"messages": USER, "answer": "\\boxed{3}"}, "What is 1 + 2?", "math", "3"),
    "slime": (
        {"prompt": USER, "label": "3", "metadata": {"rm_type": "math"}},
        "What is 1 + 2?",
        "math",
        "3",
    ),
    "ROLL": (
        {"prompt": "system", "messages": json.dumps(USER), "ground_truth": "3", "tag": "deepmath_103k"},
        "What is 1 + 2?",
        "math",
        "3",
    ),
    "JSON that is the question": ({"prompt": '[{"a": 1}]', "answer": "3"}, '[{"a": 1}]', "math", "3"),
    "ShareGPT": (
        {"messages": [{"from": "human", "value": "What is 1 + 2?"}], "answer": 3},
        "What is 1 + 2?",
        "math",
        "3",
    ),
    "Alpaca": ({"instruction": "Add.", "input": "1 and 2", "answer": "3"}, "Add.\n\n1 and 2", "math", "3"),
    "capitals": ({"ID": "1", "Problem": "What is 1 + 2?", "Answer": 3.0}, "What is 1 + 2?", "math", "3"),
    "GSM8K": ({"question": "What is 1 + 2?", "answer": "1+2=3\n#### 3"}, "What is 1 + 2?", "gsm8k", "3"),
    "MATH": ({"problem": "What is 1 + 2?", "solution": "It\nis $\\boxed{3}$."}, "What is 1 + 2?", "math", "3"),
    "Countdown": (
        {"nums": [1, 2], "target": 3},
        "Make 3 out of the numbers 1, 2.",
        "countdown",
        {"numbers": [1, 2], "target": 3},
    ),
    "APPS": (
        {"question": "Add.", "solutions": '["print(3)"]', "input_output": '{"inputs": ["1 2"], "outputs": ["3"]}'},
        "Add.",
        "code",
        {"form": "stdio", "inputs": ["1 2"], "outputs": ["3"], "reference": "print(3)"},
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_of_another_trainer(tmp_path: Path, shape: str) -> None:
    row, question, verifier, gold = SHAPES[shape]
    (example,) = load(tmp_path, row)
    assert example.question.shown().startswith(question)
    assert (example.verifier, example.gold.answer) == (verifier, gold)


CHOICES: dict[str, tuple[dict[str, Any], str, str]] = {
    "ARC": (
        {"question": "?", "choices": {"text": ["red", "blue"], "label": ["A", "B"]}, "answerKey": "B"},
        "B",
        "blue",
    ),
    "ARC by number": (
        {"question": "?", "choices": {"text": ["red", "blue"], "label": ["1", "2"]}, "answerKey": "2"},
        "B",
        "blue",
    ),
    "MMLU": ({"question": "?", "choices": ["red", "blue", "green", "grey"], "answer": 2}, "C", "green"),
    "MMLU-Pro": ({"question": "?", "options": ["red", "blue"], "answer": "B", "answer_index": 1}, "B", "blue"),
    "AQuA": ({"question": "?", "options": ["A)red", "B)blue"], "correct": "B"}, "B", "blue"),
    "pairs": ({"question": "?", "options": [{"A": "red"}, {"B": "blue"}], "expected_answer": "A"}, "A", "red"),
    "columns": (
        {"question": "?", "A": "red", "B": "blue", "C": "green", "D": "grey", "answer": "D"},
        "D",
        "grey",
    ),
    "several": ({"question": "?", "choices": ["red", "blue", "grey"], "answer": ["A", "C"]}, "A, C", "red"),
    "by its text": ({"question": "?", "choices": ["red", "blue"], "answer": "blue"}, "B", "blue"),
    "JSON text": ({"question": "?", "choices": '["red", "blue"]', "answer": "A"}, "A", "red"),
}


@pytest.mark.parametrize("shape", CHOICES)
def test_choices(tmp_path: Path, shape: str) -> None:
    row, letter, text = CHOICES[shape]
    (example,) = load(tmp_path, row)
    assert (example.verifier, example.gold.answer) == ("choice", letter)
    assert example.options[letter[0]] == text == example.meta["choices"][letter[0]]


def test_gpqa_places_the_right_answer_by_its_own_text(tmp_path: Path) -> None:
    rows = [
        {
            "Question": f"q{i}",
            "Correct Answer": f"right {i}\n",
            **{f"Incorrect Answer {n}": f"wrong {i} {n}" for n in (1, 2, 3)},
        }
        for i in range(40)
    ]
    examples = load(tmp_path, *rows)
    letters = [e.gold.answer for e in examples]
    assert set(letters) == set("ABCD")
    assert all(e.options[e.gold.answer] == f"right {e.row}" for e in examples)
    assert letters == [e.gold.answer for e in load(tmp_path, *rows)]


# -- choosing columns ------------------------------------------------------------------------------------------------


def test_the_mapping_prints_in_a_line(tmp_path: Path) -> None:
    examples = load(tmp_path, {"problem": "1 + 2", "answer": "3", "image": None, "data_source": "math_dapo"})
    assert str(examples.columns) == "prompt <- problem, gold <- answer, source <- data_source"


def test_map_overrides(tmp_path: Path) -> None:
    row = {"prompt": "p", "q": "1 + 2", "answer": "4", "extra": {"gold": "3"}, "task": "no such"}
    given = parse_map(["prompt=q", "gold=extra.gold", "source="])
    (example,) = load(tmp_path, row, map=given)
    assert (example.question.text, example.gold.answer) == ("1 + 2", "3")


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        (["prompt"], "--map prompt: give it as part=column"),
        (["promt=q"], "--map promt: no such part of a row; did you mean 'prompt'"),
        (["gold="], "--map gold: names no column; only source, images, choices can do without"),
    ],
)
def test_a_wrong_map_is_named(pairs: list[str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        parse_map(pairs)


def test_missing_columns_are_named(tmp_path: Path) -> None:
    row = {"foo": "1 + 2", "bar": "3"}
    assert "no column for the prompt" in refused(tmp_path, row) and "it has bar, foo" in refused(tmp_path, row)
    assert "no column for the gold answer" in refused(tmp_path, row, map={"prompt": "foo"})
    assert "task_args.map gives prompt <- baz, and no row has it" in refused(tmp_path, row, map={"prompt": "baz"})
    assert "gives gold <- baz" in refused(tmp_path, row, map={"prompt": "foo", "gold": "baz"})
    assert len(load(tmp_path, row, map={"prompt": "foo", "gold": "bar"})) == 1


def test_rivals_that_differ_are_an_error_that_names_both(tmp_path: Path) -> None:
    rows = [
        {"problem": "1 + 2", "answer": "3", "solution": "so $\\boxed{3}$"},
        {"problem": "1 + 3", "answer": "4", "solution": "so $\\boxed{5}$"},
    ]
    text = refused(tmp_path, *rows)
    assert "rows.jsonl line 2: the gold answer could be answer ('4') or solution ('5')" in text
    assert "task_args.map.gold=answer" in text
    assert load(tmp_path, *rows, map={"gold": "answer"})[1].gold.answer == "4"
    assert load(tmp_path, *rows, map={"gold": "solution"})[1].gold.answer == "5"


@pytest.mark.parametrize(
    ("answer", "solution"),
    [
        ("3", "so $\\boxed{3}$"),
        ("025", "so $\\boxed{25}$"),
        (27.0, "\\boxed{27}"),
        ("\\frac{1}{2}", "\\boxed{\\dfrac12}"),
        ("0.5", "\\boxed{\\frac{1}{2}}"),
        ("540", "first \\boxed{\\textbf{(540)}}, or \\boxed{541}"),
        ("3", "a proof in words,\nwithout a final answer"),
        ("3", None),
        ("3", ["a", "b"]),
    ],
)
def test_rivals_that_agree_or_say_nothing(tmp_path: Path, answer: Any, solution: Any) -> None:
    assert len(load(tmp_path, {"problem": "?", "answer": answer, "solution": solution})) == 1


def test_a_structured_gold_has_no_rivals(tmp_path: Path) -> None:
    row = {
        "prompt": USER,
        "answer": "work </think>",
        "reward_model": {"ground_truth": {"question": "?", "target": "3"}},
    }
    assert load(tmp_path, row)[0].gold.answer == "3"


# -- rows that cannot be used ----------------------------------------------------------------------------------------

GOOD = {"question": "1 + 2", "answer": "3"}
FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"question": "1 + 2", "answer": None}, "no gold (answer is null)"),
    ({"question": "1 + 2"}, "no gold (answer is null)"),
    ({"question": "1 + 2", "answer": " "}, "no gold (answer is empty)"),
    ({"question": "1 + 2", "answer": float("nan")}, "no gold"),
    ({"question": None, "answer": "3"}, "no prompt (question is null)"),
    ({"question": "", "answer": "3"}, "no prompt"),
    ({"question": 5, "answer": "3"}, "neither text nor a list"),
    ({"question": [{"role": "king", "content": "x"}], "answer": "3"}, "without a known role"),
    ({"question": [{"role": "assistant", "content": "x"}], "answer": "3"}, "no message of a user"),
    ({"question": [{"role": "user", "content": [{"type": "audio"}]}], "answer": "3"}, "part of type audio"),
    ({"question": "half a pair \ud800", "answer": "3"}, "half a surrogate pair"),
    ({"question": "1 + 2", "answer": "3\ud800"}, "half a surrogate pair"),
    ({"question": "1 + 2", "answer": {"a": "b"}}, "answer is an object without target"),
]


@pytest.mark.parametrize(("row", "reason"), FAULTS, ids=[f[1][:30] + str(i) for i, f in enumerate(FAULTS)])
def test_a_bad_row_ends_the_reading_or_is_left_out(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    text = refused(tmp_path, GOOD, row)
    assert "rows.jsonl line 2: " in text and reason in text
    assert "1 of 2 rows cannot be used; task_args.bad_rows=skip leaves them out" in text
    examples = load(tmp_path, GOOD, row, bad_rows="skip")
    assert list(examples.numbers) == [0] and any("1 of 2 rows left out, the first" in n for n in examples.notes)


def test_nothing_but_bad_rows_is_an_error_even_when_they_may_be_skipped(tmp_path: Path) -> None:
    row = {"question": "1 + 2", "answer": "3", "image": "none.png"}
    assert "1 of 1 rows cannot be used" in refused(tmp_path, row, bad_rows="skip")


def test_an_answer_at_the_end_of_messages_is_taken_off(tmp_path: Path) -> None:
    row = {"messages": [*USER, {"role": "assistant", "content": "3"}], "ground_truth": "3"}
    examples = load(tmp_path, row)
    assert examples[0].question.messages == USER
    assert any("1 prompts ended in an assistant's turn" in n for n in examples.notes)


# -- routing ---------------------------------------------------------------------------------------------------------


def test_an_unknown_data_source_is_an_error(tmp_path: Path) -> None:
    rows = [{**GOOD, "data_source": "openai/gsm8k"}, {**GOOD, "data_source": "my/own"}]
    for bad_rows in ("error", "skip"):
        text = refused(tmp_path, *rows, bad_rows=bad_rows)
        assert "line 2: data_source 'my/own' names no data set" in text and "task_args.verifier=math" in text
    assert dict(load(tmp_path, *rows, verifier="math").verifiers) == {"math": 2}


def test_mixed_sources_are_routed_by_row(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"data_source": "openai/gsm8k", "prompt": "a", "reward_model": {"ground_truth": "3"}},
        {"data_source": "lighteval/MATH", "prompt": "b", "reward_model": {"ground_truth": "\\frac12"}},
        {"data_source": "countdown", "prompt": "c", "reward_model": {"ground_truth": {"numbers": [1], "target": 1}}},
        {"prompt": "d", "reward_model": {"ground_truth": "4"}},
    ]
    assert [e.verifier for e in load(tmp_path, *rows)] == ["gsm8k", "math", "countdown", "math"]


@pytest.mark.parametrize(
    ("name", "verifier"),
    [
        ("openai/gsm8k", "gsm8k"),
        ("lighteval/MATH", "math"),
        ("DigitalLearningGmbH/MATH-lighteval", "math"),
        ("math_dapo", "math"),
        ("aime2025", "math"),
        ("aime_2024", "math"),
        ("hiyouga/geometry3k", "geometry"),
        ("codecontests", "code"),
        ("apps", "code"),
        ("taco", "code"),
        ("codeforces", "code"),
        ("countdown", "countdown"),
        ("MATH", "math"),
        ("numina_olympiads", "math"),
        ("Idavidrein/gpqa", "choice"),
        ("kk_logic", None),
        ("ifeval", None),
        ("mathematics of my own", None),
    ],
)
def test_known_names(name: str, verifier: str | None) -> None:
    assert known_source(name) == verifier


def test_the_table_names_only_verifiers() -> None:
    from rollwise.data.routing import KNOWN

    assert set(KNOWN.values()) <= set(verifier_names())


def test_words_are_not_guessed_to_be_mathematics(tmp_path: Path) -> None:
    rows = [{"question": "who?", "answer": "Zoey is a fool"}, {"question": "where?", "answer": "Paris"}]
    assert "2 golds of 2 are no numbers or formulas; give task_args.verifier" in refused(tmp_path, *rows)
    assert dict(load(tmp_path, *rows, verifier="exact").verifiers) == {"exact": 2}


# -- identity --------------------------------------------------------------------------------------------------------


def test_equal_questions_share_a_key_and_stay_two_rows(tmp_path: Path) -> None:
    rows = [
        {"question": "What is  1 + 2?", "answer": "3"},
        {"question": "what is 1 + 2?\n", "answer": "3"},
        {"question": "What is 1 + 3?", "answer": "4"},
    ]
    examples = load(tmp_path, *rows)
    assert list(examples.numbers) == [0, 1, 2]
    assert examples.keys[0] == examples.keys[1] != examples.keys[2]


def test_several_sources_have_each_their_mapping(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"question": "a", "answer": "1 #### 1"}))
    (tmp_path / "b.jsonl").write_text("\n".join(json.dumps({"prompt": p, "solution": "2"}) for p in "bc"))
    files = [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]
    both = load_examples(files, Reading())
    assert [(e.row, e.question.text, e.verifier) for e in both] == [
        (0, "a", "gsm8k"),
        (1, "b", "math"),
        (2, "c", "math"),
    ]
    assert list(both.numbers) == [0, 1, 2] and dict(both.verifiers) == {"gsm8k": 1, "math": 2}
    assert len(load_examples(files, Reading(limit=2))) == 2


# -- pictures --------------------------------------------------------------------------------------------------------


def seen(tmp_path: Path, **row: Any) -> list[str]:
    (tmp_path / "x.png").write_bytes(PNG)
    (example,) = load(tmp_path, {"question": "Find x.", "answer": "3", **row})
    content = example.question.parts or [p for m in example.question.messages or [] for p in m["content"]]
    assert sum(p["type"] == "image" for p in content) == len(example.question.pictures)
    return [p["type"] for p in content]


URL = "data:image/png;base64," + base64.b64encode(PNG).decode()


@pytest.mark.parametrize(
    ("row", "parts"),
    [
        ({"image": "x.png"}, ["image", "text"]),
        ({"images": ["x.png", "x.png"]}, ["image", "image", "text"]),
        ({"images": [{"bytes": None, "path": "x.png"}], "question": "Find <image> x."}, ["text", "image", "text"]),
        ({"images": URL, "question": "<image>Find x."}, ["image", "text"]),
        ({"image": "x.png", "question": "<image1> or <image2>?"}, ["image", "text"]),
        ({"images": ["x.png", "x.png"], "question": "<image1> or <image2>?"}, ["image", "text", "image", "text"]),
        ({"image": "x.png", "question": [{"role": "user", "content": "<image>Find x."}]}, ["image", "text"]),
        ({"image": "x.png", "question": [{"role": "user", "content": "Find x."}]}, ["image", "text"]),
        (
            {"question": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": URL}}, "Find x."]}]},
            ["image", "text"],
        ),
        (
            {
                "image": "x.png",
                "question": [{"role": "user", "content": [{"type": "text", "text": "Find x."}, {"type": "image"}]}],
            },
            ["text", "image"],
        ),
    ],
)
def test_pictures(tmp_path: Path, row: dict[str, Any], parts: list[str]) -> None:
    assert seen(tmp_path, **row) == parts


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"image": "none.png"}, "picture none.png is not there"),
        ({"image": "../secret.png"}, "picture ../secret.png is outside the data's folder"),
        ({"image": "/etc/passwd"}, "picture /etc/passwd is outside the data's folder"),
        ({"image": "link.png"}, "picture link.png is outside the data's folder"),
        ({"image": "text.png"}, "picture text.png is no PNG, JPEG, WebP or GIF"),
        ({"image": "pointer.png"}, "picture pointer.png is a Git LFS pointer"),
        ({"image": "https://example.org/x.png"}, "nothing is fetched"),
        ({"image": "data:image/png;base64,@@@"}, "a picture's data: URL is not base64"),
        ({"images": ["x.png"] * 40}, "40 pictures"),
        ({"images": ["x.png"], "question": "<image> and <image>"}, "2 marks for pictures in the text, and 1 pictures"),
        ({"images": ["x.png", "x.png"], "question": "<image2> then <image1>"}, "2 marks"),
        ({"images": [], "question": "<image>Find x."}, "a mark for a picture in the text, and no picture in images"),
        ({"images": None, "question": [{"role": "user", "content": [{"type": "image"}]}]}, "no picture for it"),
    ],
)
def test_a_missing_or_foreign_picture_is_the_fault_of_its_row(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(PNG)
    (folder / "x.png").write_bytes(PNG)
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "text.png").write_text("no picture")
    (folder / "pointer.png").write_text("version https://git-lfs.github.com/spec/v1\n")
    good = {"question": "Find y.", "answer": "3", "images": ["x.png"]}
    image = {"images": [row["image"]]} if "image" in row else {}
    bad = {"question": "Find x.", "answer": "3", **{k: v for k, v in row.items() if k != "image"}, **image}
    assert reason in refused(folder, good, bad)
    assert list(load(folder, good, bad, bad_rows="skip").numbers) == [0]


def test_verl_pictures_in_parquet(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = {
        "data_source": "hiyouga/geometry3k",
        "prompt": [{"role": "user", "content": "<image>Find x."}],
        "images": [{"bytes": PNG, "path": None}],
        "reward_model": {"style": "rule", "ground_truth": "5 \\sqrt { 2 }"},
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    (example,) = load_examples(str(tmp_path / "a.parquet"), Reading())
    assert example.verifier == "geometry" and example.question.pictures == (PNG,)
    assert example.question.messages == [
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Find x."}]}
    ]
    assert "images" not in example.meta


def test_the_same_words_about_another_picture_are_another_question(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.png").write_bytes(PNG + b"1")
    row = {"question": "Find x.", "answer": "3"}
    examples = load(tmp_path, {**row, "image": "a.png"}, {**row, "image": "b.png"}, {**row, "image": "a.png"})
    assert examples.keys[0] == examples.keys[2] != examples.keys[1]


# -- reduction -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answer", "how"),
    [
        ("2+2=4\n#### 4", "4", "####"),
        ("#### 1\n#### 2,125\n", "2,125", "####"),
        ("so \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}", "boxed"),
        ("\\boxed{1} and \\fbox{2}", "2", "boxed"),
        ("\\boxed 5$", "5", "boxed"),
        ("\\boxed{a\\}b}", "a\\}b", "boxed"),
        ("\\boxed{open", "\\boxed{open", "as it is"),
        ("3, 5, 7", "3, 5, 7", "as it is"),
        ("a\nb", "a\nb", "prose"),
    ],
)
def test_reduction(text: str, answer: str, how: str) -> None:
    found = reduced(text)
    assert (found.text, found.how) == (answer, how)


@given(st.text(alphabet="\\boxed{}#fragment 12$", max_size=200))
def test_reduction_never_raises(text: str) -> None:
    assert isinstance(reduced(text).text, str) and all(b in text for b in boxed(text))


def test_reduction_is_linear() -> None:
    for text in ("\\boxed{" * 50_000, "\\boxed" * 50_000, "####" * 50_000, "\\boxed{}" * 50_000):
        reduced(text)


@pytest.mark.parametrize(
    ("one", "two", "equal"),
    [("27", "27.0", True), ("$3$", "3", True), ("1,000", "1000", True), ("3", "4", False), ("ab", "a b", True)],
)
def test_same(one: str, two: str, equal: bool) -> None:
    assert same(one, two) is equal


# -- rows of any content ---------------------------------------------------------------------------------------------

MEMBERS = ["role", "content", "type", "text", "label", "target", "numbers", "ground_truth", "bytes", "path", "inputs"]
CELLS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10**6)
    | st.floats()
    | st.text(max_size=30)
    | st.sampled_from(["A", URL]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=3),
    max_leaves=8,
)
NAMES = [*PROMPT, *GOLD, *SOURCE, *IMAGES, *CHOICE_NAMES, "nums", "test", "test_list", "input_output", "entry_point"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(NAMES), CELLS, max_size=5), min_size=1, max_size=4), st.booleans())
def test_rows_of_any_content_are_understood_or_refused(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], skip: bool
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    for verifier in (None, "math", "choice", "countdown", "code", "exact"):
        try:
            examples = load(folder, *rows, verifier=verifier, bad_rows="skip" if skip else "error")
        except UserError as error:
            assert "\n" not in str(error)
            continue
        for example in examples:
            json.dumps([example.gold.answer, example.meta], allow_nan=False)
            assert example.question.shown() or example.question.pictures
