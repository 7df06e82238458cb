"""Pictures read safely: limits before decoding, and one line where a file is not a picture.

Sizes are in pixels. Ours: transparent places are white, as on paper, and a rotation noted in the file is applied; of an
animation the first frame is read. Scaling to `min_pixels` and `max_pixels` keeps the proportions and comes before the
model's own processor, whatever that does; so one setting bounds the tokens of a picture in every model.
"""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

from rollwise.errors import UserError
from rollwise.records import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
MOST_BYTES = 2**26  # of an encoded file
MOST_PIXELS = 2**26  # of a picture before scaling; a small file can claim any number


def pillow() -> Any:
    """The module `PIL.Image`. Raises UserError where Pillow is not installed."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        raise UserError("images need Pillow: pip install 'rollwise[images]'") from None
    return PIL.Image


def read_image(image: Image, *, min_pixels: int, max_pixels: int) -> Any:
    """The picture as a PIL image in RGB of `min_pixels` to `max_pixels`, up to rounding. Raises ValueError: one line on
    what is wrong with the file."""
    module = pillow()
    if len(image.data) > MOST_BYTES:
        raise ValueError(f"a file of {len(image.data):,} bytes; at most {MOST_BYTES:,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", module.DecompressionBombWarning)
            picture = module.open(io.BytesIO(image.data), formats=FORMATS)
            if picture.width * picture.height > MOST_PIXELS:
                raise module.DecompressionBombError(f"{picture.width} x {picture.height}")
            picture.load()
            picture = _opaque(picture, module)
    except (module.DecompressionBombError, module.DecompressionBombWarning):
        raise ValueError(f"more than {MOST_PIXELS:,} pixels; scale it down before") from None
    except Exception as error:  # decoders raise what they like on a damaged file
        kind = "damaged" if not isinstance(error, module.UnidentifiedImageError) else "not a PNG, JPEG, WebP or GIF"
        raise ValueError(kind) from None
    return _scaled(picture, min_pixels, max_pixels, module)


def _opaque(picture: Any, module: Any) -> Any:
    """Upright, in RGB, on white."""
    import PIL.ImageOps

    picture = PIL.ImageOps.exif_transpose(picture)
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    picture = picture.convert("RGBA")
    return module.alpha_composite(module.new("RGBA", picture.size, "white"), picture).convert("RGB")


def _scaled(picture: Any, min_pixels: int, max_pixels: int, module: Any) -> Any:
    pixels = picture.width * picture.height
    if min_pixels <= pixels <= max_pixels:
        return picture
    factor = math.sqrt((max_pixels if pixels > max_pixels else min_pixels) / pixels)
    rounded = math.floor if factor < 1 else math.ceil
    size = (max(1, rounded(picture.width * factor)), max(1, rounded(picture.height * factor)))
    return picture.resize(size, module.Resampling.BICUBIC)
