"""Plates as figures with captions, as files in the format of the suffix, and as pictures for a page."""

from __future__ import annotations

import json
import warnings
from io import BytesIO
from pathlib import Path
from typing import TypeVar

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from theodolite.errors import InputError
from theodolite.escaping import escape_markdown, latex_table, markdown_table
from theodolite.exhibits.drawing.style import RC
from theodolite.exhibits.drawing.tables import looks_numeric
from theodolite.exhibits.exhibit import Exhibit, Plate
from theodolite.storage.atomic import write_atomically
from theodolite.tables.table_files import format_csv
from theodolite.text import UNDEFINED

CAPTION_POINTS, LINE_INCHES, EDGE_INCHES = 7.5, 0.142, 0.08
WIDTH_MARGIN = 0.97  # text drawn in pixels is a little wider than its outlines, by which it is measured


Drawn = TypeVar("Drawn", bound=Figure)


def compose(plate: Plate, kind: type[Drawn] = Figure) -> Drawn:  # type: ignore[assignment]
    """Draw the plate on a new figure, above its caption. Global settings do not change."""
    width, height = plate.size
    with mpl.rc_context(RC):
        if not plate.caption:
            bare = kind(figsize=plate.size, layout="constrained")
            plate.draw(bare)
            return bare
        lines = wrap_caption(plate.caption, WIDTH_MARGIN * (width - 2 * EDGE_INCHES))
        below = LINE_INCHES * len(lines) + 0.1
        figure = kind(figsize=(width, height + below), layout="constrained")
        top, foot = figure.subfigures(2, 1, squeeze=False, height_ratios=[height, below]).ravel()
        plate.draw(top)
        foot.text(
            EDGE_INCHES / width,
            1.0,
            "\n".join(lines),
            va="top",
            fontsize=CAPTION_POINTS,
            linespacing=1.25,
            parse_math=False,
        )
    return figure


def wrap_caption(text: str, width: float) -> list[str]:
    """Break a caption at spaces into lines of at most `width` inches, measured in the font of the caption.

    >>> wrap_caption("one two three", 0.7)
    ['one two', 'three']
    """
    font, measure = FontProperties(size=CAPTION_POINTS), TextToPath()

    def inches(words: str) -> float:
        return float(measure.get_text_width_height_descent(words, font, ismath=False)[0]) / 72

    lines, used, space = [""], 0.0, inches("a a") - 2 * inches("a")
    for word in text.split(" "):
        length = inches(word)
        if lines[-1] and used + space + length > width:
            lines, used = [*lines, word], length
        else:
            lines[-1], used = f"{lines[-1]} {word}".lstrip(), used + (space if lines[-1] else 0) + length
    return lines


PICTURES = ("png", "svg", "pdf")
TABLES = ("csv", "md", "tex", "json", *PICTURES)


def check_ending(found: Exhibit, out: Path) -> str:
    """Return the format that the suffix of a file names. Raise if the exhibit cannot be written in it."""
    ending = out.suffix.lower().removeprefix(".")
    known = PICTURES if found.kind == "figure" else TABLES
    if ending in known:
        return ending
    more = "; use --data FILE.csv to write the numbers" if ending in TABLES else ""
    raise InputError(
        f"--out {out}: {found.name} is a {found.kind}, so the name must end in one of {', '.join(known)}{more}."
    )


def check_data_path(out: Path) -> None:
    """Raise if the file for the numbers is not a .csv file."""
    if out.suffix.lower() != ".csv":
        raise InputError(f"--data {out}: the name must end in .csv.")


def save(found: Exhibit, plate: Plate, out: Path) -> None:
    """Write a plate in the format that the suffix of the file names."""
    ending = check_ending(found, out)
    if ending in PICTURES:
        write_atomically(out, lambda path: _write_picture(plate, path, ending))
    elif ending == "csv":
        save_data(plate.data, out)
    else:
        text = to_json(found, plate) if ending == "json" else to_text(plate, ending)
        write_atomically(out, lambda path: _write_text(path, text))


def save_data(data: pd.DataFrame, out: Path) -> None:
    """Write the numbers of an exhibit as CSV."""
    write_atomically(out, lambda path: _write_text(path, format_csv(data)))


def to_markdown(plate: Plate) -> str:
    """Return a table as Markdown, with its caption below."""
    return to_text(plate, "md")


def to_text(plate: Plate, ending: str) -> str:
    """Return a table with its caption as Markdown (md) or LaTeX with booktabs (tex)."""
    shown = plate.data if plate.shown is None else plate.shown
    heads = [str(name).replace("\n", " ") for name in shown.columns]
    rows = [[_format_cell(value) for value in row] for row in shown.to_numpy(object).tolist()]
    numeric = [column for column in range(shown.shape[1]) if looks_numeric(shown.iloc[:, column])]
    if ending == "tex":
        return latex_table(heads, rows, numeric, plate.caption) + "\n"
    table = markdown_table(heads, rows, numeric)
    return "\n".join([table, *(["", escape_markdown(plate.caption)] if plate.caption else []), ""])


def to_json(found: Exhibit, plate: Plate) -> str:
    """Return a table as JSON: the exhibit, its caption and its rows. An undefined number is null."""
    rows = json.loads(plate.data.to_json(orient="records", double_precision=15))
    content = {"exhibit": found.name, "title": found.title, "caption": plate.caption, "rows": rows}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _write_picture(plate: Plate, path: Path, ending: str) -> None:
    # no date, so that equal numbers make equal files
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending, {})
    with mpl.rc_context(RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # names can be in any script
        compose(plate).savefig(path, format=ending, metadata=metadata)


def _write_text(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "replace"))


def _format_cell(value: object) -> str:
    return UNDEFINED if value is None or value is pd.NA or value != value else str(value)  # NaN is not itself


PICTURE_DPI = 200  # twice the resolution of a page
PICTURE_COLOURS = 32


def render_picture(plate: Plate) -> tuple[str, bytes]:
    """Return the media type and the bytes of a plate without its caption: SVG or a PNG with few colours.

    The smaller of the two is returned.
    """
    with mpl.rc_context(RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # names can be in any script
        figure = Figure(figsize=plate.size, layout="constrained")
        plate.draw(figure)
        svg, png = BytesIO(), BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None})
        figure.savefig(png, format="png", dpi=PICTURE_DPI)
    small = _reduce_colours(png.getvalue())
    return ("image/svg+xml", svg.getvalue()) if len(svg.getvalue()) <= len(small) else ("image/png", small)


def _reduce_colours(png: bytes) -> bytes:
    """Return the PNG with at most 32 colours, which is enough for lines and text; unchanged if that is smaller."""
    from PIL import Image

    with Image.open(BytesIO(png)) as image:
        reduced = image.convert("RGB").quantize(PICTURE_COLOURS, dither=Image.Dither.NONE)
    out = BytesIO()
    reduced.save(out, format="png", optimize=True)
    return min(out.getvalue(), png, key=len)
