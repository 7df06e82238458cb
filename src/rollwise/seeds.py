"""Every random number comes from here, and none from a hidden global generator.

A seed is a pure function of (run seed, purpose, step, prompt uid, member, ...), so a resumed run, a retried round and a
different order of work all draw the same numbers, and there is no generator state to save.
"""

from __future__ import annotations

import hashlib

import numpy as np


def derive(run_seed: int, purpose: str, *parts: int | str) -> int:
    """A 64-bit seed for one purpose. Equal arguments give equal seeds; any difference gives an unrelated one."""
    text = "\x1f".join([str(run_seed), purpose, *(f"{type(p).__name__}:{p}" for p in parts)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def generator(run_seed: int, purpose: str, *parts: int | str) -> np.random.Generator:
    """A fresh counter-based generator (Philox) for one purpose."""
    return np.random.Generator(np.random.Philox(key=derive(run_seed, purpose, *parts)))
