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


def uniforms(run_seed: int, purpose: str, *parts: int | str, of: np.ndarray) -> np.ndarray:
    """A number in (0, 1) for each integer of `of`, float64 of its shape: a pure function of the seed, the purpose, the
    parts and that integer, whatever else is asked for. SplitMix64's output function on a keyed counter."""
    z = of.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(derive(run_seed, purpose, *parts))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
