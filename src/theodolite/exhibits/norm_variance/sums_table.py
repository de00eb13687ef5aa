"""sums: Q, M, V, V_W, V_B and their ratios in every version, with errors. Beyond the paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import SUMS, UNITS
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.model_tables import plate_of
from theodolite.exhibits.norm_variance.panels import named
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.text import number
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.sums import sums
from theodolite.studies.surveyed import Surveyed, labels, middle_layer

PRINTED = {"m_of_q": "M/Q", "v_within_of_q": "V_W/Q", "v_between_of_q": "V_B/Q", "v_within_of_v": "V_W/V"}
SHOWN = "survey layer population variant filter specials units".split()


@exhibit(
    "norm-variance/sums",
    title="Q, M, V, V_W, V_B and ratios: filter, special units and variant both ways, with errors",
    kind="table",
    needs=[UNITS, SUMS],
    options=("layers",),
)
def sums_table(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """List sums over everything for every layer; what is printed for people is ratios at the layers asked for."""
    names = labels(surveys)
    tables = [named(sums(s, layers=choice.layers or None), name) for s, name in zip(surveys, names, strict=True)]
    data = pd.concat(tables, ignore_index=True)
    middles = {name: choice.layers or (middle_layer(s),) for s, name in zip(surveys, names, strict=True)}
    at = np.array([k in middles[name] for name, k in zip(data["survey"], data["layer"], strict=True)], dtype=bool)
    told = caption(
        "Shares over everything ± a standard error; .csv and .json have the sums too and every layer, this is",
        "the layers asked for." if choice.layers else "the middle layer.",
        captions.corpora(surveys),
        "Errors: of M/Q where every unit counts, by jackknife over groups of documents; of all others by",
        "bootstrap over units; of the unbiased, those of the biased.",
    )
    return plate_of(data, _printed(data[at]), told)


def _printed(rows: pd.DataFrame) -> pd.DataFrame:
    told = {
        label: [_with_error(*pair) for pair in zip(rows[name], rows[f"{name}_se"], strict=True)]
        for name, label in PRINTED.items()
    }
    units = ["–" if pd.isna(count) else f"{count:,}" for count in rows["units"]]
    return rows[SHOWN].assign(units=units, **told).astype(str)


def _with_error(value: float, error: float) -> str:
    """Return a share and its error, where it has one.

    >>> _with_error(0.61803, 0.0123), _with_error(0.5, float("nan")), _with_error(float("nan"), 0.1)
    ('0.618 ± 0.012', '0.5', '–')
    """
    if np.isnan(value) or np.isnan(error):
        return number(value)
    return f"{number(value)} ± {number(error, 2)}"
