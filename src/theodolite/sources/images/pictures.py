"""Pictures: references to image files, and decoding one to RGB in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from theodolite.errors import first_line
from theodolite.sources.files import BadFileError

if TYPE_CHECKING:
    from PIL import Image

MOST_PIXELS = 2**25
"""How many pixels may be decoded at once, 33.6 million: 100 MB as RGB."""
_SCALES = (1, 2, 4, 8)  # those at which a JPEG can be decoded without being decoded whole


@dataclass(frozen=True, slots=True)
class Picture:
    """An image file; `width` and `height` are those of what `read_picture` returns."""

    path: Path
    name: str
    label: str
    width: int
    height: int


def read_picture(picture: Picture, most_pixels: int = MOST_PIXELS) -> Image.Image:
    """Return the picture as RGB, upright."""
    return decode(picture.path, picture.name, most_pixels)


def decode(path: Path, name: str, most_pixels: int = MOST_PIXELS) -> Image.Image:
    """Return the first frame of an image file as RGB, turned upright as its EXIF data say.

    A JPEG of more than `most_pixels` is decoded at a half, a quarter or an eighth, without ever being whole in
    memory; another format of that size is refused. Transparency is dropped, as image processors do; 16 bits become
    8 by their upper half.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        image = Image.open(path)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BadFileError(name, f"is too large to be safe ({str(error).partition(',')[0]})") from error
    except UnidentifiedImageError as error:
        raise BadFileError(name, "does not decode (no image format that is known)") from error
    except Exception as error:  # what a damaged header makes a decoder raise is up to the decoder
        raise _undecodable(name, error) from error
    with image:
        _reduce(image, name, most_pixels)
        try:
            image.load()
            upright = ImageOps.exif_transpose(image)
            return _eight_bits(upright, name).convert("RGB")
        except BadFileError:
            raise
        except Exception as error:
            raise _undecodable(name, error) from error


def _reduce(image: Image.Image, name: str, most: int) -> None:
    """Ask a JPEG for a smaller scale if need be; refuse what has none."""
    width, height = image.size
    scales = _SCALES if image.format == "JPEG" else (1,)
    fit = next((scale for scale in scales if -(-width // scale) * -(-height // scale) <= most), None)
    if fit is None:
        raise BadFileError(
            name,
            f"has {width:,} x {height:,} pixels, but at most {most:,} are decoded at once, and this one cannot be "
            "decoded at a scale small enough",
        )
    if fit > 1:
        image.draft("RGB", (-(-width // fit), -(-height // fit)))


def _eight_bits(image: Image.Image, name: str) -> Image.Image:
    """Return an image that converts well: of 16 bits the upper 8, where Pillow would cut values off at 255."""
    if image.mode == "F":
        raise BadFileError(
            name, "holds floating point values, whose black and white are not told; convert it to 8 bits"
        )
    if image.mode == "P" and isinstance(image.info.get("transparency"), bytes):
        return image.convert("RGBA")  # Pillow warns of every such picture that goes to RGB at once
    if not image.mode.startswith("I"):
        return image
    import numpy as np
    from PIL import Image

    values = np.asarray(image).astype(np.int64)
    return Image.fromarray((np.clip(values, 0, 2**16 - 1) >> 8).astype(np.uint8))


def _undecodable(name: str, error: Exception) -> BadFileError:
    return BadFileError(name, f"does not decode ({first_line(error).rstrip('.')})")
