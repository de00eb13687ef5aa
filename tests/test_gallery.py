"""The gallery: reduced pictures keep the colours of small marks apart."""

import json
from pathlib import Path

import numpy as np
from gallery.__main__ import WIDTH, contents, shrink, write_bridges
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


def test_bridges_have_a_page_of_their_own(tmp_path: Path) -> None:
    facts = {
        "model": {"name": "one_a"},
        "model_b": {"name": "other"},
        "positions": {"matched": 1234},
        "corpus": {"name": "chitchat"},
    }
    folder = tmp_path / "two"
    folder.mkdir()
    (folder / "laboratory.json").write_text(json.dumps(facts), encoding="utf-8")
    Image.new("RGB", (900, 400), "white").save(folder / "cka.png")
    listed = write_bridges([folder], tmp_path / "docs" / "bridge")
    assert listed == ("bridge", "`one_a`, `other`", 1)
    page = (tmp_path / "docs" / "bridge" / "README.md").read_text("utf-8")
    assert "CKA of the layers of one\\_a and other, 1,234 positions of chitchat." in page
    assert "](two.png)" in page
    assert "(bridge/two.png)" in contents([listed], tmp_path / "docs")
