"""An exhibit as a picture for a page: in memory, without its caption, in whichever format is smaller."""

from __future__ import annotations

import warnings
from io import BytesIO

import matplotlib as mpl
from matplotlib.figure import Figure

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.style import RC

DPI = 200  # twice what a page shows an inch as
COLOURS = 32


def picture(plate: Plate) -> tuple[str, bytes]:
    """Return the media type and the bytes: svg, or a png of few colours where that is smaller."""
    with mpl.rc_context(RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a name may be in any script
        figure = Figure(figsize=plate.size, layout="constrained")
        plate.draw(figure)
        svg, png = BytesIO(), BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None})
        figure.savefig(png, format="png", dpi=DPI)
    small = _few_colours(png.getvalue())
    return ("image/svg+xml", svg.getvalue()) if len(svg.getvalue()) <= len(small) else ("image/png", small)


def _few_colours(png: bytes) -> bytes:
    """Return a png of at most 32 colours: lines and letters on white need no more. If larger, the same."""
    from PIL import Image

    with Image.open(BytesIO(png)) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    out = BytesIO()
    few.save(out, format="png", optimize=True)
    return min(out.getvalue(), png, key=len)
