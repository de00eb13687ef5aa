"""Corpora of images: folders of picture files, decoded to RGB."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from theodolite.corpora.file_search import MediaFile, MediaKind, find_media
from theodolite.corpora.media_corpus import BadFileError, DecodedFile, MediaCorpus, MediaScan, scan_media
from theodolite.corpora.options import MediaOptions
from theodolite.errors import InputError, first_line

if TYPE_CHECKING:
    from PIL import Image


MOST_PIXELS = 2**25
"""The maximum number of pixels to decode at once: 33.6 million, 100 MB as RGB."""
_SCALES = (1, 2, 4, 8)  # scales at which a JPEG can be decoded without decoding all of it


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
    return decode_image(picture.path, picture.name, most_pixels)


def decode_image(path: Path, name: str, most_pixels: int = MOST_PIXELS) -> Image.Image:
    """Return the first frame of an image file as RGB, rotated as its EXIF data state.

    A JPEG of more than `most_pixels` is decoded at a half, a quarter or an eighth of its size, without ever being
    in memory at full size; other formats of that size are rejected. Transparency is dropped, as image processors
    do; of 16 bits the upper 8 are kept.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        image = Image.open(path)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BadFileError(name, f"is too large to be safe ({str(error).partition(',')[0]})") from error
    except UnidentifiedImageError as error:
        raise BadFileError(name, "does not decode (unknown image format)") from error
    except Exception as error:  # a damaged header can make a decoder raise anything
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
    """Decode a JPEG at a smaller scale if necessary; reject other formats that are too large."""
    width, height = image.size
    scales = _SCALES if image.format == "JPEG" else (1,)
    fit = next((scale for scale in scales if -(-width // scale) * -(-height // scale) <= most), None)
    if fit is None:
        raise BadFileError(
            name,
            f"has {width:,} x {height:,} pixels, but at most {most:,} are decoded at once, and this one cannot be "
            "decoded at a smaller scale",
        )
    if fit > 1:
        image.draft("RGB", (-(-width // fit), -(-height // fit)))


def _eight_bits(image: Image.Image, name: str) -> Image.Image:
    """Return an image that converts to RGB: of 16 bits the upper 8, where Pillow would clip values at 255."""
    if image.mode == "F":
        raise BadFileError(name, "holds floating-point values of unknown range; convert it to 8 bits")
    if image.mode == "P" and isinstance(image.info.get("transparency"), bytes):
        return image.convert("RGBA")  # Pillow warns if such a picture is converted to RGB directly
    if not image.mode.startswith("I"):
        return image
    import numpy as np
    from PIL import Image

    values = np.asarray(image).astype(np.int64)
    return Image.fromarray((np.clip(values, 0, 2**16 - 1) >> 8).astype(np.uint8))


def _undecodable(name: str, error: Exception) -> BadFileError:
    return BadFileError(name, f"does not decode ({first_line(error).rstrip('.')})")


IMAGES = MediaKind("images", (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOptions(MediaOptions):
    """Which images are kept; at most `max_pixels` of one are decoded at once, see `decode_image`."""

    max_pixels: int = MOST_PIXELS

    def __post_init__(self) -> None:
        MediaOptions.__post_init__(self)
        if self.max_pixels < 1:
            raise InputError(f"--max-pixels requires at least 1 (got {self.max_pixels}).")


def open_images(
    what: str | Path, options: ImageOptions | None = None, progress: Callable[[str], None] | None = None
) -> MediaCorpus[Picture]:
    """Open a corpus of images: a folder with its sub-folders, a file, a glob or a name of the catalogue."""
    options = options or ImageOptions()
    files = find_media(what, IMAGES, progress)
    return MediaCorpus(str(what), "images", files, options, partial(open_image, options=options))


def scan_images(
    corpus: MediaCorpus[Picture], *, shard_images: int = 64, pilot_images: int = 64
) -> MediaScan[Picture]:
    """Decode every file once; shards hold `shard_images`, the pilot at most `pilot_images`."""
    least = min(16, pilot_images)
    return scan_media(corpus, shard_size=shard_images, pilot_size=pilot_images, pilot_least=least)


def open_image(file: MediaFile, *, options: ImageOptions) -> DecodedFile[Picture]:
    """Return the picture of a file; raise BadFileError for a file that does not decode."""
    from PIL import Image

    with warnings.catch_warnings():
        # Pillow only warns up to twice its limit; here that is an error, before any pixel is decoded.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        width, height = decode_image(file.path, file.name, options.max_pixels).size
    return DecodedFile((Picture(file.path, file.name, file.label, width, height),), (1.0,), f"{width}x{height}")
