from __future__ import annotations

from io import BytesIO

import numpy as np
import pandas as pd
from matplotlib.figure import FigureBase
from PIL import Image

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.saving import PICTURE_COLOURS, PICTURE_DPI, render_picture


def plate(points: int) -> Plate:
    x = np.random.default_rng(0).normal(size=(points, 2))
    return Plate(pd.DataFrame(), "", lambda figure: figure.subplots().scatter(*x.T, s=4) and None, (3.0, 2.0))


def lines(figure: FigureBase) -> None:
    ax = figure.subplots()
    ax.set_axis_off()
    ax.plot(np.random.default_rng(0).normal(size=(2, 60)))


def test_pictures_smaller_as_vectors_are_svg():
    media_type, data = render_picture(Plate(pd.DataFrame(), "", lines, (8.0, 8.0)))
    assert media_type == "image/svg+xml"
    assert data.lstrip().startswith(b"<?xml")
    assert b"<script" not in data


def test_many_marks_are_a_png_of_few_colours_at_twice_the_size():
    media_type, data = render_picture(plate(3000))
    assert media_type == "image/png"
    with Image.open(BytesIO(data)) as image:
        assert image.size == (3 * PICTURE_DPI, 2 * PICTURE_DPI)
        assert len(image.convert("RGB").getcolors()) <= PICTURE_COLOURS


def test_the_same_numbers_make_the_same_picture():
    assert render_picture(plate(3)) == render_picture(plate(3))
