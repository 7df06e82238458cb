"""Lists of prompts: made up by index, or read from rows. Train and held-out parts are told apart by a canonical key.

The key is what two questions of one kind share (for sorting: the sorted digits), not the prompt's text, so that a
permutation of a training question is never held out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from random import Random
from typing import Generic, Literal, Protocol, TypeVar

from rollwise.errors import UserError
from rollwise.records import Prompt
from rollwise.seeds import derive

Q = TypeVar("Q")
Split = Literal["train", "heldout"]

HELDOUT_SHARE = 8  # one key in so many is held out
STRATA_TRIES, DRAW_TRIES, REPEAT_TRIES = 64, 256, 16


def is_held_out(canonical: str) -> bool:
    """Whether all questions with this key are held out. Depends on nothing else: no seed, no size, no template."""
    return hashlib.blake2b(canonical.encode(), digest_size=8).digest()[0] % HELDOUT_SHARE == 0


def none_held(rows: int) -> str:
    """What to do where the eighth is empty, for an error line."""
    return (
        f"no row falls into the held-out eighth of {rows:,} rows; give more rows, or others to hold out with "
        "task_args.heldout_data=FILE"
    )


class Family(Protocol[Q]):
    """A kind of question that can be drawn at random. Questions are hashable; equal ones give equal prompts."""

    name: str

    def stratum(self, rng: Random) -> int:
        """The size of the next question (digits, terms, numbers). Kept when a draw is refused, so sizes stay even."""
        ...

    def draw(self, rng: Random, stratum: int) -> Q: ...

    def key(self, question: Q) -> str: ...

    def prompt(self, question: Q, uid: str) -> Prompt: ...


def pick(family: Family[Q], rng: Random, held: bool, seen: set[Q] | None = None) -> Q:
    """A random question of one side of the split, new to `seen` where its size still has new ones.

    Raises UserError where the settings leave that side (nearly) empty.
    """
    for _ in range(STRATA_TRIES):
        size = family.stratum(rng)
        repeats: list[Q] = []
        for _ in range(DRAW_TRIES):
            question = family.draw(rng, size)
            if is_held_out(family.key(question)) is not held:
                continue
            if seen is None or question not in seen:
                return question
            repeats.append(question)
            if len(repeats) == REPEAT_TRIES:
                break
        if repeats:
            return repeats[0]
    side = "held-out" if held else "training"
    raise UserError(f"task_args of {family.name}: too few questions, none left for the {side} part; widen them")


class TrainSource(Generic[Q]):
    """Prompt i is a pure function of (data seed, i); nothing is stored, any index costs the same."""

    generated = True

    def __init__(self, family: Family[Q], size: int, data_seed: int) -> None:
        self._family, self._size, self._seed = family, size, data_seed

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Prompt:
        _check(index, self._size)
        rng = Random(derive(self._seed, "prompt", self._family.name, "train", index))
        return self._family.prompt(pick(self._family, rng, held=False), f"{self._family.name}/train:{index}")


class HeldoutSource(Generic[Q]):
    """As `TrainSource`, without repeats. To know them, the questions up to the largest index asked for are kept."""

    generated = True

    def __init__(self, family: Family[Q], size: int, data_seed: int) -> None:
        self._family, self._size, self._seed = family, size, data_seed
        self._made: list[Q] = []
        self._seen: set[Q] = set()

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Prompt:
        _check(index, self._size)
        while len(self._made) <= index:
            rng = Random(derive(self._seed, "prompt", self._family.name, "heldout", len(self._made)))
            question = pick(self._family, rng, held=True, seen=self._seen)
            self._made.append(question)
            self._seen.add(question)
        return self._family.prompt(self._made[index], f"{self._family.name}/heldout:{index}")


class RowSource(Generic[Q]):
    """Prompts of a given list of questions, in its order."""

    generated = False

    def __init__(self, family: Family[Q], rows: Sequence[Q], split: Split) -> None:
        self._family, self._rows, self._split = family, rows, split

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Prompt:
        _check(index, len(self._rows))
        return self._family.prompt(self._rows[index], f"{self._family.name}/{self._split}:{index}")


def _check(index: int, size: int) -> None:
    if not 0 <= index < size:
        raise IndexError(f"prompt {index} of {size}")
