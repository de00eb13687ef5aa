"""Opening and scanning a corpus of images."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from theodolite.errors import InputError
from theodolite.sources.files import (
    Kind,
    Look,
    MediaCorpus,
    MediaFile,
    MediaOptions,
    MediaScan,
    find_media,
    scan_media,
)
from theodolite.sources.images.pictures import MOST_PIXELS, Picture, decode

IMAGES = Kind("images", (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOptions(MediaOptions):
    """Which images are kept; at most `max_pixels` of one are decoded at once, see `decode`."""

    max_pixels: int = MOST_PIXELS

    def __post_init__(self) -> None:
        MediaOptions.__post_init__(self)
        if self.max_pixels < 1:
            raise InputError(f"--max-pixels {self.max_pixels}: wanted at least 1.")


def open_images(
    what: str | Path, options: ImageOptions | None = None, progress: Callable[[str], None] | None = None
) -> MediaCorpus[Picture]:
    """Return the corpus that a user means: a folder with all below it, a file, a glob, a name of the catalogue."""
    options = options or ImageOptions()
    files = find_media(what, IMAGES, progress)
    return MediaCorpus(str(what), "images", files, options, partial(look, options=options))


def scan_images(
    corpus: MediaCorpus[Picture], *, shard_images: int = 64, pilot_images: int = 64
) -> MediaScan[Picture]:
    """Decode every file once; shards hold `shard_images`, the pilot at most `pilot_images`."""
    least = min(16, pilot_images)
    return scan_media(corpus, shard_size=shard_images, pilot_size=pilot_images, pilot_least=least)


def look(file: MediaFile, *, options: ImageOptions) -> Look[Picture]:
    """Return the picture that a file holds; raise BadFileError for one that does not decode."""
    from PIL import Image

    with warnings.catch_warnings():
        # Pillow only warns of what is up to twice its limit; here that is refused, before a pixel is decoded.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        width, height = decode(file.path, file.name, options.max_pixels).size
    return Look((Picture(file.path, file.name, file.label, width, height),), (1.0,), f"{width}x{height}")
