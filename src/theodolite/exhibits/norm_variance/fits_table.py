"""fits: every line, with and without the filter and the special units, biased and unbiased. Beyond the paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import UNITS
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.model_tables import plate_of
from theodolite.exhibits.norm_variance.panels import named
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.text import number
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.fits import fits
from theodolite.studies.surveyed import Surveyed, labels, middle_layer

SHOWN = "survey layer population fit variant filter specials slope interval r2 units".split()


@exhibit(
    "norm-variance/fits",
    title="Every fit: filter, special units and variant both ways, slopes with intervals",
    kind="table",
    needs=[UNITS],
    options=("layers",),
)
def fits_table(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """List every fit of every layer; what is printed for people is V on M at the layers asked for."""
    names = labels(surveys)
    tables = [named(fits(s, layers=choice.layers or None), name) for s, name in zip(surveys, names, strict=True)]
    data = pd.concat(tables, ignore_index=True)
    middles = {name: choice.layers or (middle_layer(s),) for s, name in zip(surveys, names, strict=True)}
    at = np.array([k in middles[name] for name, k in zip(data["survey"], data["layer"], strict=True)], dtype=bool)
    told = caption(
        "Lines over units by least squares; .csv and .json have every fit and layer, this is V on M at",
        "the layers asked for." if choice.layers else "the middle layer.",
        captions.corpora(surveys),
        captions.intervals(),
    )
    return plate_of(data, _printed(data[(data["fit"] == "v_on_m") & at]), told)


def _printed(rows: pd.DataFrame) -> pd.DataFrame:
    between = [f"[{number(a)}, {number(b)}]" for a, b in zip(rows["slope_low"], rows["slope_high"], strict=True)]
    told = {name: [number(value) for value in rows[name]] for name in ("slope", "r2")}
    return rows.assign(interval=between, **told)[SHOWN].astype(str)
