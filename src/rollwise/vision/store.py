"""What was computed last, kept within a number of bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Bounded(Generic[V]):
    """The latest values by key; the one longest unused leaves when their bytes exceed `most`; the newest stays."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0
        self._values: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable, make: Callable[[], V], size: Callable[[V], int]) -> V:
        """The value of `key`, made now where there is none; `size` gives its bytes."""
        if key in self._values:
            self._values.move_to_end(key)
            return self._values[key][0]
        value = make()
        self._values[key] = (value, size(value))
        self.bytes += size(value)
        while self.bytes > self.most and len(self._values) > 1:
            self.bytes -= self._values.popitem(last=False)[1][1]
        return value
