"""A picture of a prompt."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Image:
    """A picture as the bytes of its encoded file (PNG, JPEG, WebP, GIF). Not decoded before the policy reads it."""

    data: bytes

    @property
    def sha256(self) -> str:
        """Hex digest of the bytes: the picture's name in logs."""
        return hashlib.sha256(self.data).hexdigest()

    def to_json(self) -> str:
        return base64.b64encode(self.data).decode("ascii")

    @staticmethod
    def from_json(data: str) -> Image:
        return Image(base64.b64decode(data, validate=True))
