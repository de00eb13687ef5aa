"""Needs, captions and tables that the exhibits of `theodolite weights` share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.ft2font import FT2Font

from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.tables import draw_table, table_size
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import Need, require_laboratory
from theodolite.studies.survey_data import SurveyData

WEIGHTS = require_laboratory("weights", "theodolite weights minilm-l6 --out DIR")


def _require_table(role: str, what: str) -> Need:
    return Need(
        f"models with a table of {what}",
        lambda survey: role in (survey.facts.get("found") or {}).get("tables", {}),
        lambda survey: (
            f"{survey.model} has none; `theodolite weights minilm-l6 --out DIR` reads a model that has one"
        ),
        reason=lambda survey: f"no table of {what}",
    )


POSITIONS, SEGMENTS = _require_table("positions", "positions"), _require_table("segments", "segments")


def describe_models(surveys: Sequence[SurveyData]) -> str:
    """Name the models and the sizes of their tables."""
    sentences = []
    for survey in surveys:
        shapes = {role: table["shape"] for role, table in survey.facts["found"]["tables"].items()}
        sizes = ", ".join(
            f"{rows:,} {'tokens' if role == 'words' else role}" for role, (rows, _) in shapes.items()
        )
        sentences.append(f"{model_name(survey)} ({sizes}; {shapes['words'][1]} dimensions)")
    return "; ".join(sentences) + "."


def model_name(survey: SurveyData) -> str:
    """Return the name of the model as captions write it."""
    return clean_label(survey.model).replace(r"\$", "$")


def describe_unlisted(survey: SurveyData) -> str:
    """State which tokens are not listed."""
    settings = survey.facts["settings"]
    omitted = [kind for kind in ("special", "unused") if not settings[f"keep_{kind}"]]
    untrained = [] if settings["keep_unused"] else survey.facts["found"].get("untrained_tokens", [])
    return join_sentences(
        f"{' and '.join(omitted).capitalize()} tokens are not listed." if omitted else "",
        f"{model_name(survey)}: {len(untrained):,} tokens that look untrained are not listed either, because they "
        f"have nearly the vector of a special or unused token (such as {' '.join(untrained[:3])})."
        if untrained
        else "",
    )


def make_token_table(data: pd.DataFrame, shown: pd.DataFrame, caption: str) -> Plate:
    """Return the plate of a table with tokens. Characters that the font lacks are drawn as code points."""
    drawn = shown.map(replace_missing_glyphs)
    return Plate(data, caption, partial(draw_table, shown=drawn), table_size(drawn), shown)


def replace_missing_glyphs(text: object) -> str:
    """Replace each character that the font of the figures cannot draw by U+ and its code point.

    >>> replace_missing_glyphs("stroll"), replace_missing_glyphs("##" + chr(0x6238))
    ('stroll', '##U+6238')
    """
    return "".join(char if _has_glyph(char) else f"U+{ord(char):04X}" for char in str(text))


@cache
def _has_glyph(char: str) -> bool:
    return char < "\x80" or _font().get_char_index(ord(char)) != 0


@cache
def _font() -> FT2Font:
    return FT2Font(str(Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"))
