"""The geometry task: answers measured on the drawing, one side of the split for one figure, equal bytes."""

from __future__ import annotations

import cmath
import hashlib
import io
import json
import math
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import PIL.Image
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rollwise.assemble import resolve
from rollwise.errors import UserError
from rollwise.records import Prompt, StopReason, VerdictKind
from rollwise.tasks import make_task
from rollwise.tasks.drawing import Figure, Point
from rollwise.tasks.figures import KINDS, Values
from rollwise.tasks.geometry import Question, answer, picture
from rollwise.tasks.surds import Exact
from rollwise.verify.scoring import Completion

ROOT = Path(__file__).parents[1]


def task(**args: Any) -> Any:
    return make_task("geometry", args, starter=False)


def corners(figure: Figure) -> list[Point]:
    return list(dict.fromkeys(p for line in figure.lines for p in line))


def marked(figure: Figure, text: str) -> Point:
    """Where the label stands: a corner, or the middle of a line."""
    return next(at for at, _, found in figure.labels if found == text)


def angle(figure: Figure, corner: Point, way: Point) -> float:
    """Degrees between the two lines at a corner that embrace a direction."""
    ends = [b if a == corner else a for a, b in figure.lines if corner in (a, b)]
    if not ends:  # two lines that cross
        ends = corners(figure)
    turns = sorted(ends, key=lambda e: abs(cmath.phase((e - corner) / way)))[:2]
    return abs(math.degrees(cmath.phase((turns[0] - corner) / (turns[1] - corner))))


def length(figure: Figure, text: str) -> float:
    """Of the line that a label stands at."""
    at = marked(figure, text)
    return next(abs(b - a) for a, b in figure.lines if abs((a + b) / 2 - at) < 1e-9)


def measured(kind: str, v: Values, figure: Figure) -> float:
    """The answer read off the drawing, without the formula."""
    if kind in ("triangle", "lines"):
        at, way = next((at, way) for at, way, text in figure.labels if text == "x")
        return angle(figure, at, way)
    if kind in ("right", "special"):
        known = str(v[1] if kind == "special" else v[0])
        return length(figure, "x") / length(figure, known) * float(known)
    scale = v[1] if kind == "arc" else v[0]
    if kind == "circle":
        radius = v[0] / abs(figure.lines[0][1] - figure.lines[0][0])
        return math.pi * radius**2 if v[2] else 2 * math.pi * radius
    a, b = marked(figure, "A"), marked(figure, "B")
    return abs(a - b) * scale if kind == "chord" else abs(cmath.phase(a / b)) * scale


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_answer_is_what_the_drawing_shows(kind: str, seed: int) -> None:
    values = KINDS[kind].draw(Random(seed))
    figure = KINDS[kind].figure(values, Random(seed))
    if kind == "right" and values[0] == values[1]:
        return  # both legs carry the same label
    assert float(KINDS[kind].answer(values)) == pytest.approx(measured(kind, values, figure), rel=1e-9)


def test_exact_numbers_by_hand() -> None:
    assert Exact.sqrt(50).latex() == "5 \\sqrt { 2 }"
    assert Exact.sqrt(49).latex() == "7"
    assert Exact.sqrt(884).latex() == "2 \\sqrt { 221 }"
    assert Exact(Fraction(12), pi=True).latex() == "12 \\pi"
    assert Exact(Fraction(1), pi=True).latex() == "\\pi"
    assert Exact(Fraction(5, 3), pi=True).latex() == "\\frac { 5 \\pi } { 3 }"
    assert Exact(Fraction(1, 2), 3).plus(Exact(Fraction(3, 2), 3)).latex() == "2 \\sqrt { 3 }"
    assert answer(Question("arc", ((90, 4), (60, 3)), 2)).latex() == "3 \\pi"


def test_equal_figures_are_equal_bytes() -> None:
    """Of these very bytes; another version of Pillow may draw lines through other pixels."""
    digest = hashlib.sha256(picture("chord", (13, 5), 112).data).hexdigest()
    assert digest == "16301b1d784decbea25055cd66fa4f9fe60cc4d38df5819cf1a7af1ed3ce8e1f"
    assert picture("chord", (13, 5), 112) == picture("chord", (13, 5), 112) != picture("chord", (13, 4), 112)
    with PIL.Image.open(io.BytesIO(picture("arc", (75, 4), 137).data)) as read:
        assert (read.format, read.mode, read.size) == ("PNG", "1", (137, 137))
        black = sum(not p for p in read.convert("1").tobytes())
        assert 0 < black < 137 * 137 / 8


@pytest.mark.parametrize("size", [84, 200, 512])
def test_nothing_is_drawn_over_the_edge(size: int) -> None:
    for kind in KINDS:
        for seed in range(6):
            data = picture(kind, KINDS[kind].draw(Random(seed)), size).data
            pixels = PIL.Image.open(io.BytesIO(data)).convert("L").point(lambda p: 255 - p)
            left, top, right, bottom = pixels.getbbox() or (0, 0, 0, 0)
            assert 0 < left < right < size and 0 < top < bottom < size, (kind, seed)


def test_a_prompt_has_a_place_for_each_picture() -> None:
    made = task(pictures=[0, 1, 2])
    counts = set()
    for i in range(60):
        prompt = made.train[i]
        (message,) = prompt.messages
        content = message["content"]
        parts = [] if isinstance(content, str) else [p["type"] for p in content]
        assert parts == ["image"] * len(prompt.images) + ["text"] * bool(prompt.images)
        assert prompt.meta["pictures"] == len(prompt.images)
        assert Prompt.from_json(json.loads(json.dumps(prompt.to_json()))) == prompt == made.train[i]
        counts.add(len(prompt.images))
    assert counts == {0, 1, 2}


def test_no_figure_is_on_both_sides_of_the_split() -> None:
    """Also not in words, turned, or with its legs exchanged."""
    asked = task(pictures=[0, 1, 2])
    held = {asked.key(q) for q in drawn(asked, held=True)}
    trained = {asked.key(q) for q in drawn(asked, held=False)}
    assert len(held) > 50 and len(trained) > 200 and not held & trained
    one, other = Question("right", ((3, 4, 0),), 0), Question("right", ((4, 3, 1),), 1)
    assert asked.key(one) == asked.key(other)


def drawn(asked: Any, *, held: bool) -> list[Question]:
    from rollwise.tasks.sources import pick

    return [pick(asked, Random(i), held=held) for i in range(400)]


def test_answers_are_judged_by_the_geometry_verifier() -> None:
    made = task(pictures=[0, 1, 2])

    def kinds(said: str) -> list[VerdictKind]:
        prompts = [made.train[i] for i in range(25)]
        texts = [said.format(answer=p.answer) for p in prompts]
        return [v.kind for v in made.judge([Completion(prompt=p, text=t) for p, t in zip(prompts, texts, strict=True)])]

    assert set(kinds("<think>x</think><answer>{answer}</answer>")) == {VerdictKind.correct}
    assert set(kinds("it is \\boxed{{{answer}}}")) == {VerdictKind.correct}
    assert VerdictKind.correct not in kinds("<answer>{answer} + 1</answer>")
    assert VerdictKind.correct not in kinds("no idea")
    cut = Completion(prompt=made.train[0], text="<answer>", stop=StopReason.length)
    assert made.judge([cut])[0].kind is VerdictKind.invalid


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "kind": ({"figures": ["circle", "cube"]}, "task_args.figures is 'cube'; it must be some of triangle"),
    "sum": (
        {"figures": ["right"], "pictures": [2]},
        "one of triangle, lines, arc where each question has two pictures",
    ),
    "count": ({"pictures": [3]}, "task_args.pictures is 3; it must be a whole number of at most 2"),
    "base": ({"template": "base"}, "task_args.template is 'base'; it must be instruct or bare"),
    "pixels": ({"pixels": 20}, "at least 84"),
}


@pytest.mark.parametrize("what", WRONG)
def test_settings_that_cannot_work_are_one_line(what: str) -> None:
    args, words = WRONG[what]
    with pytest.raises(UserError) as error:
        task(**args)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_words_alone_need_no_messages() -> None:
    prompt = task(pictures=[0], template="base").train[0]
    assert prompt.text and not prompt.images


def test_a_folder_in_the_layout_of_the_release(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "scripts" / "write_geometry.py"), str(tmp_path / "out"), "--count", "12"]
    subprocess.run(script, check=True, timeout=120, capture_output=True)
    folders = sorted((tmp_path / "out").iterdir(), key=lambda p: int(p.name))
    assert [p.name for p in folders] == [str(i) for i in range(12)]
    for folder in folders:
        row = json.loads((folder / "data.json").read_text())
        assert len(set(row["choices"])) == 4 and row["answer"] in "ABCD"
        right = row["choices"]["ABCD".index(row["answer"])]
        assert row["precise_value"]["ABCD".index(row["answer"])] > 0 and right
        with PIL.Image.open(folder / "img_diagram.png") as read:
            assert read.size == (row["img_width"], row["img_height"])


def test_the_recipe_of_the_docs_is_understood() -> None:
    page = (ROOT / "docs" / "images.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"```yaml\n(.*?)```", page, re.S)
    config = resolve([("recipe.yaml", yaml.safe_load(recipe))])
    assert config.images.max_pixels == 401_408 and make_task(config.task, config.task_args, starter=False)
