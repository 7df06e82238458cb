"""Write made-up geometry in the layout of the Geometry3K release: a folder a problem, with data.json and
img_diagram.png. There are four choices, as there; no logic_form.json, for the drawings come from no parser.

    python scripts/write_geometry.py FOLDER --count 100 [--split train|heldout] [--seed 0] [--pixels 224]
"""

from __future__ import annotations

import argparse
import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

from rollwise.tasks.figures import KINDS
from rollwise.tasks.geometry import Geometry, GeometryArgs, Question, answer, picture
from rollwise.tasks.sources import pick
from rollwise.tasks.surds import Exact

GRAPHS = {"triangle": "Triangle", "lines": "Line", "right": "Triangle", "special": "Triangle"}
DEGREES = ("triangle", "lines")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--split", choices=["train", "heldout"], default="train")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pixels", type=int, default=224)
    args = parser.parse_args()
    task = Geometry(GeometryArgs(pixels=args.pixels), starter=False)
    for number in range(args.count):
        rng = random.Random(f"{args.seed} {args.split} {number}")
        question = pick(task, rng, held=args.split == "heldout")
        folder = args.folder / str(number)
        folder.mkdir(parents=True)
        (folder / "img_diagram.png").write_bytes(picture(question.kind, question.figures[0], args.pixels).data)
        row = problem(question, number, rng, args.split, args.pixels)
        (folder / "data.json").write_text(json.dumps(row, indent=2) + "\n", encoding="utf-8")


def problem(question: Question, number: int, rng: random.Random, split: str, pixels: int) -> dict[str, Any]:
    """The fields of data.json that there is something to say in."""
    right = answer(question)
    options = choices(right, rng)
    text = KINDS[question.kind].ask(question.figures[0])
    return {
        "problem_text": text,
        "compact_text": text,
        "annotat_text": text,
        "choices": [o.latex() for o in options],
        "answer": "ABCD"[options.index(right)],
        "precise_value": [float(o) for o in options],
        "problem_type_graph": [GRAPHS.get(question.kind, "Circle")],
        "problem_type_goal": ["Angle" if question.kind in DEGREES else "Length"],
        "id": number,
        "unit": "",
        "img_width": pixels,
        "img_height": pixels,
        "data_type": split,
    }


def choices(right: Exact, rng: random.Random) -> list[Exact]:
    """The right value among three of its like, in the order of size."""
    factors = [Fraction(1, 2), Fraction(3, 2), Fraction(2), Fraction(2, 3), Fraction(3)]
    return sorted([right, *(right.times(f) for f in rng.sample(factors, 3))], key=float)


if __name__ == "__main__":
    main()
