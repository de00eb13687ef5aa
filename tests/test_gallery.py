"""The gallery: reduced pictures keep the colours of small marks apart."""

from pathlib import Path

import numpy as np
from gallery.__main__ import WIDTH, shrink
from PIL import Image, ImageColor, ImageDraw

from theodolite.exhibits.drawing.style import COLOURS


def test_small_marks_keep_their_colours(tmp_path: Path) -> None:
    picture = Image.new("RGB", (WIDTH, 400), "white")
    draw = ImageDraw.Draw(picture)
    for row in range(0, 400, 4):  # text and lines, of every shade of grey
        draw.line([(0, row), (WIDTH, row)], fill=(row % 256,) * 3)
    for place, colour in enumerate(COLOURS):
        draw.rectangle([20 + 90 * place, 41, 26 + 90 * place, 43], fill=colour)
    picture.save(tmp_path / "marks.png")
    shrink(tmp_path / "marks.png", tmp_path / "small.png")
    small = np.asarray(Image.open(tmp_path / "small.png").convert("RGB")).astype(int)
    shown = [small[42, 23 + 90 * place] for place in range(len(COLOURS))]
    assert len({tuple(pixel) for pixel in shown}) == len(COLOURS)
    wanted = np.array([ImageColor.getrgb(colour) for colour in COLOURS])
    assert np.abs(np.array(shown) - wanted).max() < 40  # of 255; the palette has 64 colours
