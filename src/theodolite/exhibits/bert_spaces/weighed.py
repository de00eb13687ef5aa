"""What the exhibits of the weights laboratory share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.ft2font import FT2Font

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import Need, of_laboratory
from theodolite.exhibits.printed_table import draw_table, table_size
from theodolite.exhibits.text import plain
from theodolite.studies.surveyed import Surveyed

WEIGHED = of_laboratory("weights", "theodolite weights minilm-l6 --out DIR")


def _has(role: str, what: str) -> Need:
    return Need(
        f"models with a table of {what}",
        lambda survey: role in (survey.facts.get("found") or {}).get("tables", {}),
        lambda survey: f"{survey.model} has none; `theodolite weights minilm-l6 --out DIR` weighs one that has",
        left_out=lambda survey: f"no table of {what}",
    )


POSITIONS, SEGMENTS = _has("positions", "positions"), _has("segments", "segments")


def models(surveys: Sequence[Surveyed]) -> str:
    """Say whose tables they are, and how large."""
    told = []
    for survey in surveys:
        shapes = {role: table["shape"] for role, table in survey.facts["found"]["tables"].items()}
        sizes = ", ".join(
            f"{rows:,} {'tokens' if role == 'words' else role}" for role, (rows, _) in shapes.items()
        )
        told.append(f"{one_model(survey)} ({sizes}; {shapes['words'][1]} dimensions)")
    return "; ".join(told) + "."


def one_model(survey: Surveyed) -> str:
    """Return the model's name as it is drawn."""
    return plain(survey.model).replace(r"\$", "$")


def left_out(survey: Surveyed) -> str:
    """Say which tokens are not listed in extreme pairs."""
    settings = survey.facts["settings"]
    out = [kind for kind in ("special", "unused") if not settings[f"keep_{kind}"]]
    return f"{' and '.join(out).capitalize()} tokens are not listed." if out else ""


def plate_of_tokens(data: pd.DataFrame, shown: pd.DataFrame, told: str) -> Plate:
    """Return the plate of a table that names tokens: characters that the font lacks are drawn as code points."""
    drawn = shown.map(drawable)
    return Plate(data, told, partial(draw_table, shown=drawn), table_size(drawn), shown)


def drawable(text: object) -> str:
    """Return a text with U+ and the code point in place of each character that the figures' font cannot draw.

    >>> drawable("stroll"), drawable("##" + chr(0x6238))
    ('stroll', '##U+6238')
    """
    return "".join(char if _has_glyph(char) else f"U+{ord(char):04X}" for char in str(text))


@cache
def _has_glyph(char: str) -> bool:
    return char < "\x80" or _font().get_char_index(ord(char)) != 0


@cache
def _font() -> FT2Font:
    return FT2Font(str(Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"))
