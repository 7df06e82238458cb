"""What to do when a pass does not fit in memory: take it back, halve the passes, and try again."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

import torch

from rollwise.errors import UserError

T = TypeVar("T")


class PassSize:
    """Padded tokens of one forward pass: `tokens` by the settings, halved whenever memory ran out, for good.

    How rows are split changes neither loss nor gradient, but for the last digits: a run that goes on from a checkpoint
    goes on with the halved size.
    """

    def __init__(self, tokens: int) -> None:
        self.most = tokens
        self.halvings = 0

    @property
    def tokens(self) -> int:
        return max(1, self.most >> self.halvings)

    def fitting(self, attempt: Callable[[int], T]) -> T:
        """`attempt(tokens)`, which must leave no trace when it raises, with as many tokens a pass as fit. UserError
        where not even a single rollout does."""
        while True:
            try:
                return attempt(self.tokens)
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
            if self.tokens == 1:
                raise UserError(
                    "learner: out of memory with a single rollout in a pass; set sampling.max_completion_length lower, "
                    "dtype=bfloat16, or take a smaller model"
                )
            self.halvings += 1  # the error, and with it the tensors of the attempt, is gone by now
            let_go()


def let_go() -> None:
    """Give memory back that nothing holds any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is no memory left: on the CPU, PyTorch says so by a plain RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)
