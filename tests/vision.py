"""Pictures and prompts for tests of image-text models."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import PIL.Image

from rollwise.records import Group, Image, Prompt


def encoded(seed: int, width: int, height: int, *, form: str = "PNG") -> bytes:
    """A file of noise."""
    pixels = np.random.Generator(np.random.Philox(key=seed)).integers(0, 256, (height, width, 3), dtype=np.uint8)
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, format=form)
    return file.getvalue()


def picture(seed: int, width: int = 60, height: int = 60) -> Image:
    return Image(encoded(seed, width, height))


def asked(uid: str, words: str, *images: Image) -> Prompt:
    """A prompt of one message, its pictures before the words."""
    parts = [*({"type": "image"} for _ in images), {"type": "text", "text": words}]
    return Prompt(uid=uid, messages=[{"role": "user", "content": parts}], images=images)


def mixed() -> list[Prompt]:
    """Prompts with none, one and two pictures of several sizes."""
    return [
        asked("none", "hi there"),
        asked("one", "what", picture(1, 60, 90)),
        asked("two", "these", picture(2, 100, 50), picture(3)),
        asked("same", "what", picture(4, 60, 90)),
    ]


def with_images(group: Group, images: tuple[Image, ...]) -> Group:
    """A hand-made group that is about pictures."""
    return dataclasses.replace(
        group,
        prompt=dataclasses.replace(group.prompt, images=images),
        rollouts=tuple(dataclasses.replace(r, images=images) for r in group.rollouts),
    )
