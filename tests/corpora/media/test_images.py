"""Images are decoded to RGB as they look, in bounded memory; those that are not images are named."""

import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from theodolite.corpora.image_corpus import (
    ImageOptions,
    Picture,
    decode_image,
    open_images,
    read_picture,
    scan_images,
)
from theodolite.corpora.media_corpus import BadFileError, shard_pieces
from theodolite.errors import InputError


def gradient(width: int = 40, height: int = 30) -> np.ndarray:
    down, across = np.mgrid[:height, :width]
    return np.stack([across * 255 // width, down * 255 // height, (across + down) % 256], 2).astype(np.uint8)


@pytest.mark.parametrize("ending", ["png", "bmp", "tif", "tiff", "webp", "gif", "jpg", "jpeg", "PNG"])
def test_every_format_gives_its_colours(tmp_path: Path, ending: str) -> None:
    options = (
        {"lossless": True} if ending == "webp" else {"quality": 95, "subsampling": 0} if ending[0] == "j" else {}
    )
    Image.fromarray(gradient()).save(tmp_path / f"a.{ending}", **options)
    found = scan_images(open_images(tmp_path))
    ((number, picture),) = found.pieces
    assert (number, picture.width, picture.height, found.sorts) == (0, 40, 30, {"40x30": 1})
    read = np.asarray(read_picture(picture)).astype(int)
    # exact but for a palette of 256 colours (gif) and for a lossy one (jpeg)
    worst = {"gif": 40, "jpg": 12, "jpeg": 12}.get(ending, 0)
    assert np.abs(read - gradient()).max() <= worst


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_every_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    Image.fromarray(gradient()).convert(mode).save(tmp_path / "a.tif")
    image = decode_image(tmp_path / "a.tif", "a.tif")
    assert (image.mode, image.size) == ("RGB", (40, 30))


def test_sixteen_bits_keep_their_upper_half(tmp_path: Path) -> None:
    values = np.linspace(0, 65_535, 64 * 64).astype(np.uint16).reshape(64, 64)
    for name in ("a.png", "a.tif"):
        Image.fromarray(values).save(tmp_path / name)
        read = np.asarray(decode_image(tmp_path / name, name))
        assert np.array_equal(read[..., 0], (values >> 8).astype(np.uint8)), name
        # Cut off at 255, all but the darkest 256th of the picture would be white.
        assert (read == 255).mean() < 0.01


def test_exif_rotation_is_applied(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera lay on its side
    Image.fromarray(gradient()).save(tmp_path / "a.png", exif=exif)
    ((_, picture),) = scan_images(open_images(tmp_path)).pieces
    assert (picture.width, picture.height) == (30, 40)
    assert np.array_equal(np.asarray(read_picture(picture)), np.rot90(gradient(), -1))


def test_an_animation_is_read_as_its_first_frame(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert decode_image(tmp_path / "a.gif", "a.gif").getpixel((0, 0)) == (255, 0, 0)


def test_a_large_jpeg_is_decoded_at_reduced_size(tmp_path: Path) -> None:
    across = np.broadcast_to(np.linspace(0, 255, 6_000).astype(np.uint8), (4_000, 6_000))
    Image.fromarray(across).convert("RGB").save(tmp_path / "a.jpg")
    image = decode_image(tmp_path / "a.jpg", "a.jpg", most_pixels=2**20)
    assert image.size == (750, 500)  # an eighth; a quarter would have 1.5 million
    assert np.abs(np.asarray(image)[250, :, 0].astype(int) - across[0, ::8]).max() <= 4
    assert decode_image(tmp_path / "a.jpg", "a.jpg").size == (6_000, 4_000)


def bomb(width: int, height: int) -> bytes:
    """Return a PNG of a few hundred bytes whose header states a huge size."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + name + body + zlib.crc32(name + body).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    body = zlib.compress(b"\0" * 1_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def truncated(ending: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / f"b.{ending}"
        Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)).save(path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        return path

    return make


def written(name: str, content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def floats(folder: Path) -> Path:
    Image.fromarray(np.ones((4, 4), np.float32)).save(folder / "b.tif")
    return folder / "b.tif"


BAD = [
    (truncated("png"), "does not decode"),
    (truncated("jpg"), "does not decode (image file is truncated"),
    (truncated("bmp"), "does not decode"),
    (truncated("webp"), "does not decode"),
    (truncated("tif"), "does not decode"),
    (written("b.png", b""), "does not decode (unknown image format)"),
    (written("b.jpg", b"<html>not found</html>"), "does not decode (unknown image format)"),
    (written("b.png", bomb(60_000, 60_000)), "is too large to be safe (Image size (3600000000 pixels)"),
    (written("b.png", bomb(12_000, 12_000)), "is too large to be safe (Image size (144000000 pixels)"),
    (written("b.png", bomb(8_000, 8_000)), "has 8,000 x 8,000 pixels, but at most 33,554,432 are decoded at once"),
    (floats, "holds floating-point values"),
]


@pytest.mark.parametrize(("make", "words"), BAD, ids=range(len(BAD)))
def test_bad_images_are_named(tmp_path: Path, make: Callable[[Path], Path], words: str) -> None:
    path = make(tmp_path)
    tracemalloc.start()
    with pytest.raises(BadFileError) as caught:
        scan_images(open_images(tmp_path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert f"'{path.name}' {words}" in str(caught.value)
    assert peak < 20 * 2**20

    Image.fromarray(gradient()).save(tmp_path / "a.png")
    found = scan_images(open_images(tmp_path, ImageOptions(skip_bad=True)))
    assert (found.documents, found.read) == (1, 2)
    assert [name for name, _ in found.skipped] == [path.name]


def test_labels_shards_and_pilot(tmp_path: Path) -> None:
    for number in range(20):
        folder = tmp_path / ("dogs" if number % 2 else "cats")
        folder.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4), (number, 0, 0)).save(folder / f"{number:02}.png")
    found = scan_images(open_images(tmp_path), shard_images=8, pilot_images=5)
    assert found.labels == {"cats": 10, "dogs": 10}
    assert [shard.stop - shard.start for shard in found.shards] == [8, 8, 4]
    assert len(found.pilot) == 5
    (_, pieces), *_ = shard_pieces(found, found.shards)
    assert pieces[0] == (0, Picture(tmp_path / "cats" / "00.png", "cats/00.png", "cats", 4, 4))


def test_a_limit_below_one_pixel_is_rejected() -> None:
    with pytest.raises(InputError, match=r"--max-pixels requires at least 1 \(got 0\)"):
        ImageOptions(max_pixels=0)
