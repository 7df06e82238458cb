"""Prompts longer than the model may be asked: an error with what would be right, or rows that are left out.

Never cut. Rows that a task makes up are alike and are not left out: settings that make them too long are an error.
"""

from __future__ import annotations

import copy
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence

from rollwise.errors import PromptTooLong, UserError
from rollwise.records import Prompt
from rollwise.tasks.base import PromptSource, Task

Encode = Callable[[Prompt], object]  # raises PromptTooLong


class Chosen:
    """Some of the prompts of `source`, in its order, each with its own uid."""

    generated = False

    def __init__(self, source: PromptSource, places: Sequence[int]) -> None:
        self._source, self._places = source, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Prompt:
        if not 0 <= index < len(self._places):
            raise IndexError(f"prompt {index} of {len(self._places)}")
        return self._source[self._places[index]]


def check_lengths(name: str, prompts: Iterable[Prompt], encode: Encode, advice: str = "") -> None:
    """Raises UserError where any is too long: how many of those given, the longest of them, and `advice`."""
    checked, faults = 0, []
    for prompt in prompts:
        checked += 1
        try:
            encode(prompt)
        except PromptTooLong as fault:
            faults.append(fault)
    if faults:
        longest = max(faults, key=lambda f: f.tokens)
        some = f"{len(faults):,} of {checked:,} prompts looked at"
        raise UserError(f"{name}: {some} are too long, the longest is {longest}{advice}")


def fitting(
    tasks: Mapping[str, Task], encode: Encode, *, heldout: int, train: bool = True
) -> tuple[dict[str, Task], list[str]]:
    """The tasks without the rows that are too long, and a note for each that had any; nothing else of them changes.

    Every training row is encoded once (with `train`), and held-out rows until `heldout` of them fit, so that the same
    settings leave the same rows. Raises UserError where none is left.
    """
    out: dict[str, Task] = {}
    notes: list[str] = []
    for name, task in tasks.items():
        left = copy.copy(task)
        if train and not task.train.generated:
            left.train = _fitting(name, "training", task.train, encode, len(task.train), notes)
        if not task.heldout.generated:
            left.heldout = _fitting(name, "held-out", task.heldout, encode, heldout, notes)
        out[name] = left
    return out, notes


def _fitting(name: str, side: str, source: PromptSource, encode: Encode, most: int, notes: list[str]) -> PromptSource:
    places = array("Q")
    longest: PromptTooLong | None = None
    looked_at = 0
    while looked_at < len(source) and len(places) < most:
        try:
            encode(source[looked_at])
            places.append(looked_at)
        except PromptTooLong as fault:
            longest = fault if longest is None or fault.tokens > longest.tokens else longest
        looked_at += 1
    if longest is None:
        return source
    if not places:
        raise UserError(f"{name}: all {looked_at:,} {side} prompts are too long, the longest is {longest}")
    dropped = looked_at - len(places)
    some = f"{dropped:,} of {looked_at:,} {side} rows"
    notes.append(f"{name}: {some} left out as too long; the longest has {longest.tokens} tokens")
    return Chosen(source, places)
