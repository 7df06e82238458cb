"""Pictures as files: read within limits, refused in one line, kept in records."""

from __future__ import annotations

import io
import json
import struct
import zlib
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwise.folder import logged
from rollwise.records import Group, Image, Prompt
from rollwise.replay.columns import pack_groups, unpack_groups
from rollwise.vision import images
from rollwise.vision.images import read_image
from rollwise.vision.store import Bounded
from tests.samples import group
from tests.vision import encoded, with_images


def read(data: bytes, *, min_pixels: int = 1, max_pixels: int = 10**6) -> Any:
    return read_image(Image(data), min_pixels=min_pixels, max_pixels=max_pixels)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def claims(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it is that large."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF"])
def test_the_usual_formats_are_read(form: str) -> None:
    picture = read(encoded(0, 40, 30, form=form))
    assert picture.mode == "RGB" and picture.size == (40, 30)


def test_transparent_places_are_white() -> None:
    file = io.BytesIO()
    PIL.Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(file, format="PNG")
    assert np.asarray(read(file.getvalue())).min() == 255


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 4000), st.integers(0, 4000))
def test_pictures_are_scaled_into_their_bounds(width: int, height: int, least: int, more: int) -> None:
    file = io.BytesIO()
    PIL.Image.new("L", (width, height)).save(file, format="PNG")
    wide, high = read(file.getvalue(), min_pixels=least, max_pixels=least + more).size
    assert wide * high >= least or width * height >= least
    assert wide * high <= least + more or min(wide, high) == 1 or wide * high <= least + 2 * (wide + high)
    if least <= width * height <= least + more:
        assert (wide, high) == (width, height)


SOUND = encoded(1, 40, 30)
FAULTS = {
    "cut": (SOUND[: len(SOUND) // 2], "damaged"),
    "no picture": (b"<svg></svg>", "not a PNG, JPEG, WebP or GIF"),
    "empty": (b"", "not a PNG, JPEG, WebP or GIF"),
    "another format": (encoded(0, 9, 9, form="BMP"), "not a PNG, JPEG, WebP or GIF"),
    "bomb": (claims(60_000, 60_000), "more than 67,108,864 pixels"),
    "large": (claims(9_000, 9_000), "more than 67,108,864 pixels"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_no_picture_is_one_line(fault: str) -> None:
    data, words = FAULTS[fault]
    with pytest.raises(ValueError, match=words) as error:
        read(data)
    assert "\n" not in str(error.value)


def test_a_file_of_too_many_bytes_is_not_even_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MOST_BYTES", 100)
    with pytest.raises(ValueError, match="at most 100"):
        read(SOUND)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for start in (b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF\x10\0\0\0WEBP"):
        try:
            read(start + data)
        except ValueError as error:
            assert "\n" not in str(error)


def test_a_prompt_without_images_is_written_as_before() -> None:
    prompt = Prompt(uid="a/train:1", text="x", answer=3)
    assert list(prompt.to_json()) == ["uid", "messages", "text", "answer", "task", "occurrence", "row", "meta"]
    assert Prompt.from_json(prompt.to_json()) == prompt


def test_images_come_back_from_json_and_columns_with_every_rollout() -> None:
    one, two = Image(encoded(0, 9, 9)), Image(encoded(1, 9, 9))
    whole = with_images(group(1), (one, two))
    for back in (Group.from_json(json.loads(json.dumps(whole.to_json()))), unpack_groups(pack_groups([whole]))[0]):
        assert back.prompt == whole.prompt
        assert all(r.images == (one, two) for r in back.rollouts)
        assert len({id(r.images[0].data) for r in back.rollouts}) == 1, "members share the bytes"


def test_columns_and_logs_do_not_repeat_images() -> None:
    """Once for each prompt in a stored state, by name in the log."""
    image = Image(encoded(0, 60, 60))
    whole = with_images(group(1), (image,))
    state = json.dumps(pack_groups([whole, whole])["origins"])
    assert state.count(image.to_json()) == 1
    log = logged(whole)
    assert log["prompt"]["images"] == [{"sha256": image.sha256, "bytes": len(image.data)}]
    assert image.to_json() not in json.dumps(log)
    assert logged(group(1)) == group(1).to_json()


def test_the_store_keeps_what_was_used_last_within_its_bytes() -> None:
    store: Bounded[str] = Bounded(10)
    made: list[str] = []

    def get(text: str) -> str:
        return store.get(text, lambda: made.append(text) or text, len)  # type: ignore[func-returns-value]

    for text in ("aaaa", "bbbb", "aaaa", "cccc", "aaaa", "bbbb"):
        assert get(text) == text
        assert store.bytes <= 10
    assert made == ["aaaa", "bbbb", "cccc", "bbbb"]
    get("x" * 50)
    assert len(store) == 1, "one that is larger than the store is still given"
