"""Line drawings in black and white. Equal figures are equal bytes on every machine.

Lines and letters are Pillow's own, without smoothing and without a font of the system; the PNG is written here,
uncompressed, for compressors of different versions write different bytes.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

from rollwise.errors import UserError

Point = complex  # x and y, y upwards


@dataclass(slots=True)
class Figure:
    """What is drawn, in any unit; it is fitted to the picture."""

    lines: list[tuple[Point, Point]] = field(default_factory=list)
    circles: list[tuple[Point, float]] = field(default_factory=list)
    squares: list[tuple[Point, Point, Point]] = field(default_factory=list)  # a right angle at the first
    labels: list[tuple[Point, Point, str]] = field(default_factory=list)  # a place, how far off in letters, a text

    def polygon(self, *corners: Point) -> None:
        self.lines += zip(corners, (*corners[1:], corners[0]), strict=True)

    def beside(self, a: Point, b: Point, away: Point, text: str) -> None:
        """A label at the middle of a line, on the side that is away from a point."""
        middle = (a + b) / 2
        across = (b - a) * 1j
        side = (middle - away).real * across.real + (middle - away).imag * across.imag
        self.labels.append((middle, unit(across if side > 0 else -across), text))

    def within(self, corner: Point, a: Point, b: Point, text: str) -> None:
        """A label inside the angle at a corner, further in where the angle is narrow."""
        one, two = unit(a - corner), unit(b - corner)
        self.labels.append((corner, unit(one + two) * min(3.2, 1.1 / max(0.25, abs(one - two) / 2)), text))


def unit(v: Point) -> Point:
    return v / abs(v) if v else v


def draw(figure: Figure, size: int) -> bytes:
    """The figure as a PNG of `size` x `size` pixels. Raises UserError where Pillow is not installed."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise UserError("task geometry draws with Pillow: pip install 'rollwise[images]'") from None
    ends = [p for line in figure.lines for p in line]
    for centre, radius in figure.circles:
        ends += [centre - radius * (1 + 1j), centre + radius * (1 + 1j)]
    left, right = min(p.real for p in ends), max(p.real for p in ends)
    low, high = min(p.imag for p in ends), max(p.imag for p in ends)
    margin = size * 0.17
    scale = (size - 2 * margin) / max(right - left, high - low)

    def place(p: Point) -> tuple[float, float]:
        """Pixels, to the nearest: sines differ in the last digit from one machine to the next."""
        x = size / 2 + (p.real - (left + right) / 2) * scale
        y = size / 2 - (p.imag - (low + high) / 2) * scale
        return float(round(round(x, 4))), float(round(round(y, 4)))

    picture = Image.new("1", (size, size), 1)
    pen = ImageDraw.Draw(picture)
    width = max(1, size // 150)
    for a, b in figure.lines:
        pen.line((*place(a), *place(b)), fill=0, width=width)
    for centre, radius in figure.circles:
        (x, y), r = place(centre), float(round(round(radius * scale, 4)))
        pen.ellipse((x - r, y - r, x + r, y + r), outline=0, width=width)
    for corner, a, b in figure.squares:
        one, two = (unit(p - corner) * size * 0.05 / scale for p in (a, b))
        pen.line((*place(corner + one), *place(corner + one + two), *place(corner + two)), fill=0, width=1)
    font = ImageFont.load_default_imagefont()
    for at, way, text in figure.labels:
        x, y = place(at)
        step = way * size * 0.075
        _write(picture, Image, ImageDraw, font, text, (x + step.real, y - step.imag), max(1, size // 150))
    return _png(picture.tobytes(), size)


def _write(
    picture: Any, image: Any, draw: Any, font: Any, text: str, centre: tuple[float, float], enlarged: int
) -> None:
    """Letters in black, enlarged pixel by pixel, around a place and within the picture."""
    _, _, wide, high = font.getbbox(text)
    letters = image.new("1", (wide, high), 0)
    draw.Draw(letters).text((0, 0), text, fill=1, font=font)
    letters = letters.resize((wide * enlarged, high * enlarged), image.Resampling.NEAREST)
    corner = [
        min(max(0, round(round(c - n / 2, 4))), room - n)
        for c, n, room in zip(centre, letters.size, picture.size, strict=True)
    ]
    picture.paste(0, (corner[0], corner[1]), letters)


def _png(rows: bytes, size: int) -> bytes:
    """A PNG of one bit a pixel (ISO/IEC 15948), its data in stored blocks."""
    stride = (size + 7) // 8
    data = b"".join(b"\0" + rows[i : i + stride] for i in range(0, len(rows), stride))
    blocks = [data[i : i + 65535] for i in range(0, len(data), 65535)]
    stored = b"".join(
        struct.pack("<BHH", i == len(blocks) - 1, len(b), len(b) ^ 0xFFFF) + b for i, b in enumerate(blocks)
    )
    body = b"\x78\x01" + stored + struct.pack(">I", zlib.adler32(data))
    header = struct.pack(">IIBBBBB", size, size, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
