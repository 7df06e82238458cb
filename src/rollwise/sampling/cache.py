"""A key-value cache in blocks laid out ahead, whose rows can be repeated and dropped.

A prompt is read once; its row is then repeated for the k members of its group, and rows leave as their completions end.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
)

BLOCK = 128  # tokens by which a full buffer grows at least; the rest of its growth is by doubling


class StaticRows(CacheLayerMixin):  # type: ignore[misc]
    """Keys and values of one layer, [rows, heads, room, dim], of which the first `length` tokens are filled."""

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()
        self.length = 0
        self.reserve = 0  # tokens to lay out at the next allocation

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        room = max(key_states.shape[-2], self.reserve)
        self.keys = key_states.new_empty((*key_states.shape[:2], room, key_states.shape[-1]))
        self.values = value_states.new_empty((*value_states.shape[:2], room, value_states.shape[-1]))
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None and self.values is not None
        end = self.length + key_states.shape[-2]
        if end > self.keys.shape[-2]:
            self._relay(None, max(end, self.length + max(BLOCK, self.length)))
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def _relay(self, rows: torch.Tensor | None, room: int) -> None:
        """Move the filled part into new buffers with the given rows (None: all) and room."""
        for name in ("keys", "values"):
            old = getattr(self, name)
            filled = old[:, :, : self.length]
            new = old.new_empty((old.shape[0] if rows is None else len(rows), old.shape[1], room, old.shape[3]))
            new[:, :, : self.length] = filled if rows is None else filled.index_select(0, rows)
            setattr(self, name, new)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        assert self.keys is not None
        self._relay(indices, max(self.keys.shape[-2], self.length + self.reserve))
        self.reserve = 0

    def get_seq_length(self) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_max_length(self) -> int:
        return -1

    def get_max_cache_shape(self) -> int:
        """The same by its name before transformers 5.20."""
        return self.get_max_length()


def new_cache(config: Any) -> Cache:
    """A cache for a model: static rows for each attention layer, the library's own layer for any other kind.

    A sliding-window layer keeps its whole history here; the model's mask does the windowing.
    """
    cache = DynamicCache(config=config)
    if not cache.layers:
        return Cache(layer_class_to_replicate=StaticRows)
    cache.layers = [
        StaticRows() if type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) else layer for layer in cache.layers
    ]
    return cache


def reserve(cache: Cache, tokens: int) -> None:
    """Lay out room for so many tokens more at the next row selection."""
    for layer in cache.layers:
        if isinstance(layer, StaticRows):
            layer.reserve = tokens


def select_rows(cache: Cache, rows: torch.Tensor) -> None:
    """Keep (and repeat) the rows named, in that order."""
    for layer in cache.layers:
        layer.batch_select_indices(rows)
