r"""Geometry with pictures, in the form of Geometry3K: a drawing, a short question, an exact answer such as
`5 \sqrt { 2 }`. Triangles, lines, circles, arcs and chords are made up and drawn; rows of a file are the task `data`.

A question has one picture, or none (the same said in words), or two, whose answers are to be added.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from rollwise import seeds
from rollwise.config import key
from rollwise.records import Image, Prompt, Verdict
from rollwise.tasks.args import GeneratedArgs, wrong
from rollwise.tasks.base import PromptSource
from rollwise.tasks.drawing import draw
from rollwise.tasks.figures import KINDS, Kind, Values
from rollwise.tasks.sources import HeldoutSource, TrainSource
from rollwise.tasks.surds import Exact
from rollwise.tasks.templates import render, resolve
from rollwise.verify.scoring import Completion
from rollwise.verify.table import make_verifier


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometryArgs(GeneratedArgs):
    figures: list[str] = key(list(KINDS), "kinds of figure; one of these, evenly")  # noqa: RUF009
    pictures: tuple[int, ...] = key(
        (1,), "pictures of a question; one of these, evenly. 0: said in words, 2: two answers to add", ge=0, le=2
    )
    pixels: int = key(224, "width and height of a picture", ge=84, le=1024)


@dataclass(frozen=True, slots=True)
class Question:
    """One figure, or two of one kind."""

    kind: str
    figures: tuple[Values, ...]
    pictures: int


class Geometry:
    """`answer` is LaTeX, judged by the verifier `geometry`."""

    name = "geometry"

    def __init__(self, args: GeometryArgs, *, starter: bool) -> None:
        if unknown := [f for f in args.figures if f not in KINDS]:
            raise wrong("figures", unknown[0], "some of " + ", ".join(KINDS))
        self._strata = [(f, n) for f in args.figures for n in args.pictures if n < 2 or KINDS[f].adds]
        if not self._strata:
            adding = ", ".join(name for name, kind in KINDS.items() if kind.adds)
            raise wrong("figures", args.figures, f"one of {adding} where each question has two pictures")
        self.args = args
        self.template = resolve(args.template, starter=starter)
        if self.template == "base" and any(args.pictures):
            raise wrong("template", args.template, "instruct or bare: pictures stand in messages")
        self.notes: tuple[str, ...] = ()
        self.train: PromptSource = TrainSource(self, args.train_size, args.data_seed)
        self.heldout: PromptSource = HeldoutSource(self, args.heldout_size, args.data_seed)
        self.judge_of = make_verifier("geometry")

    def stratum(self, rng: Random) -> int:
        return rng.randrange(len(self._strata))

    def draw(self, rng: Random, stratum: int) -> Question:
        kind, pictures = self._strata[stratum]
        return Question(kind, tuple(KINDS[kind].draw(rng) for _ in range(max(1, pictures))), pictures)

    def key(self, question: Question) -> str:
        """The numbers of the figures without their order, the same with pictures and in words."""
        return f"{question.kind}:{sorted(KINDS[question.kind].key(v) for v in question.figures)}"

    def prompt(self, question: Question, uid: str) -> Prompt:
        kind = KINDS[question.kind]
        images = tuple(picture(question.kind, v, self.args.pixels) for v in question.figures[: question.pictures])
        text = _asked(kind, question)
        out = render(
            self.template,
            uid=uid,
            task=self.name,
            bare=text,
            question=text,
            what="number",
            example="100 \\sqrt { 2 }",  # larger than any answer, so that the prompt said back is never right
            answer=answer(question).latex(),
            meta={"kind": question.kind, "pictures": question.pictures},
        )
        return with_images(out, images)

    def judge(self, completions: Sequence[Completion]) -> list[Verdict]:
        return self.judge_of.judge(completions)


def answer(question: Question) -> Exact:
    found = [KINDS[question.kind].answer(v) for v in question.figures]
    return found[0] if len(found) == 1 else found[0].plus(found[1])


def picture(kind: str, values: Values, pixels: int) -> Image:
    """The drawing of one figure; turned by an angle that depends on its numbers only."""
    rng = Random(seeds.derive(0, "drawing", kind, *values))
    return Image(draw(KINDS[kind].figure(values, rng), pixels))


def _asked(kind: Kind, question: Question) -> str:
    first = question.figures[0]
    if question.pictures == 0:
        return kind.words(first)
    one = kind.ask(first)
    return one if question.pictures == 1 else f"For each of the two pictures: {one} Then give the sum of both."


def with_images(prompt: Prompt, images: tuple[Image, ...]) -> Prompt:
    """The prompt with the images before the text of its last message."""
    if not images:
        return prompt
    assert prompt.messages
    *before, last = prompt.messages
    parts = [*({"type": "image"} for _ in images), {"type": "text", "text": last["content"]}]
    return dataclasses.replace(prompt, messages=[*before, {**last, "content": parts}], images=images)
