"""What is added to a verifier's score to make the reward that trains. Accuracy and evaluation never see it."""

from __future__ import annotations


def overlong_penalty(length: int, max_length: int, buffer: int) -> float:
    """DAPO's soft penalty (arXiv 2503.14476, eq. 13), in [-1, 0], for a completion of `length` tokens: 0 until
    `max_length - buffer`, then falling linearly, -1 from `max_length` on.

    Raises ValueError unless 0 < buffer <= max_length.
    """
    if not 0 < buffer <= max_length:
        raise ValueError(f"the buffer must be between 1 and {max_length} tokens, got {buffer}")
    return -min(max((length - (max_length - buffer)) / buffer, 0.0), 1.0)
