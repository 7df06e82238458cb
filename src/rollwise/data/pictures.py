"""Pictures of a row: the bytes of an encoded file, a path beside the data, or a `data:` URL. Nothing is fetched and
nothing decoded; a faulty one is a ValueError with the reason."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rollwise.records import Image

MAX_BYTES = 20 * 2**20  # of one picture
MAX_PICTURES = 32  # of one row
MAX_PIXELS = 2**26  # of one picture, as many as a model's own processor is given; a small file can claim any number
HEAD = 2**16  # bytes that are looked at for the size of a picture in a file
JPEG_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
PROBE = 4096


def kind_of(head: bytes) -> str | None:
    """The format by its first bytes, or None."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    if head.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "GIF"
    return "WebP" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def size_of(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels as the first bytes of the file claim them; None where they are not among those."""
    kind = kind_of(data)
    if kind == "PNG" and data[12:16] == b"IHDR" and len(data) >= 24:
        return struct.unpack(">II", data[16:24])
    if kind == "GIF" and len(data) >= 10:
        return struct.unpack("<HH", data[6:10])
    if kind == "WebP" and data[12:16] == b"VP8X" and len(data) >= 30:
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == "JPEG":  # segments, each with its length, up to the one that begins the picture
        at = 2
        while at + 9 <= len(data) and data[at] == 0xFF:
            if data[at + 1] in JPEG_FRAMES:
                height, width = struct.unpack(">HH", data[at + 5 : at + 9])
                return width, height
            at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return None  # the other kinds of WebP cannot be larger than MAX_PIXELS by much


def _small(head: bytes, name: str) -> None:
    """Raises ValueError for a picture that is refused before it would be decoded."""
    size = size_of(head)
    if size is not None and size[0] * size[1] > MAX_PIXELS:
        raise ValueError(f"{name} of {size[0]:,} x {size[1]:,} pixels, more than {MAX_PIXELS:,}; scale it down before")


def picture(value: Any, folder: Path | None) -> bytes | Path:
    """The bytes of a picture, or the checked path they are read from when they are needed."""
    if isinstance(value, Mapping):
        for name in ("bytes", "url", "path", "image", "base64", "data"):
            if value.get(name) is not None:
                return picture(_decoded(value[name]) if name in ("base64", "data") else value[name], folder)
        raise ValueError("a picture without bytes or path")
    if isinstance(value, bytes):
        return _checked(value)
    if not isinstance(value, str) or not value:
        raise ValueError(f"a picture that is a {type(value).__name__}")
    if value.startswith("data:"):
        return _checked(_of_url(value))
    if "://" in value[:12]:
        raise ValueError(f"picture {value[:60]} is elsewhere on the network; nothing is fetched, give a file")
    return _beside(value, folder)


def _decoded(value: Any) -> Any:
    return _of_url("data:," + value) if isinstance(value, str) and not value.startswith("data:") else value


def _of_url(url: str) -> bytes:
    """The bytes of `data:image/png;base64,...`."""
    if len(url) > MAX_BYTES * 4 // 3 + 200:
        raise ValueError(f"a picture of over {MAX_BYTES:,} bytes")
    _, comma, body = url.partition(",")
    try:
        return base64.b64decode(body, validate=True) if comma else b""
    except (binascii.Error, ValueError):
        raise ValueError("a picture's data: URL is not base64") from None


def _checked(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise ValueError(f"a picture of over {MAX_BYTES:,} bytes")
    if kind_of(data[:16]) is None:
        raise ValueError("a picture that is no PNG, JPEG, WebP or GIF")
    _small(data, "a picture")
    return data


def _beside(name: str, folder: Path | None) -> Path:
    """A file under the data's folder, links followed."""
    if folder is None:
        raise ValueError(f"picture {name[:60]} is a path, and the row comes from no folder")
    try:
        root = folder.resolve()
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise ValueError(f"picture {name[:60]} is outside the data's folder")
        if not path.is_file():
            raise ValueError(f"picture {name[:60]} is not there")
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"picture {name[:60]} has over {MAX_BYTES:,} bytes")
        with path.open("rb") as stream:
            head = stream.read(HEAD)
    except OSError as error:
        raise ValueError(f"picture {name[:60]} cannot be read ({error.strerror})") from None
    if kind_of(head) is None:
        pointer = head.startswith(b"version https://git-lfs")
        raise ValueError(f"picture {name[:60]} is " + ("a Git LFS pointer" if pointer else "no PNG, JPEG, WebP or GIF"))
    _small(head, f"picture {name[:60]}")
    return path


def loaded(one: bytes | Path) -> Image:
    return Image(one if isinstance(one, bytes) else one.read_bytes())


def mark_of(one: bytes | Path) -> str:
    """What tells two pictures apart, at little cost: size, head and tail."""
    if isinstance(one, bytes):
        size, ends = len(one), one[:PROBE] + one[-PROBE:]
    else:
        size = one.stat().st_size
        with one.open("rb") as stream:
            ends = stream.read(PROBE)
            stream.seek(max(0, size - PROBE))
            ends += stream.read(PROBE)
    return hashlib.blake2b(ends + str(size).encode(), digest_size=8).hexdigest()
