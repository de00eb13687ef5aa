"""table2: n, Q, M and V of the chosen tokens."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import TOKEN_SETS, UNITS
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.model_tables import plate_of
from theodolite.exhibits.norm_variance.panels import named
from theodolite.exhibits.norm_variance.token_sets import chosen_by, counted
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.text import number
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.chosen_sets import sets_of
from theodolite.studies.surveyed import Surveyed, labels

COLUMNS = "survey layer unit name n log10_n q m v kept".split()


@exhibit(
    "norm-variance/table2",
    title="n, Q, M and V of the chosen tokens",
    kind="table",
    needs=[UNITS, TOKEN_SETS],
    reads=("token_sets",),
)
def table2(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """List n, Q, M and V of the tokens in fig1, by rising frequency."""
    sets, names = [sets_of(survey) for survey in surveys], labels(surveys)
    tables = [
        named(found.chosen.sort_values(["n", "unit"]).assign(layer=found.layer), name)[COLUMNS]
        for found, name in zip(sets, names, strict=True)
    ]
    data = pd.concat(tables, ignore_index=True)
    told = caption(
        "n, Q(Xₜ), M(Xₜ) and V(Xₜ) of the tokens in fig1,",
        "; ".join(f"{name} at layer {found.layer}" for name, found in zip(names, sets, strict=True)) + ".",
        captions.corpora(surveys),
        captions.units(surveys),
        chosen_by(sets),
        counted(surveys, sets),
    )
    return plate_of(data, _printed(data, several=len(sets) > 1), told)


def _printed(data: pd.DataFrame, *, several: bool) -> pd.DataFrame:
    shown = pd.DataFrame({"Model": data["survey"]} if several else {})
    shown["Token"] = data["name"]
    shown["n"] = [f"{count:,}" for count in data["n"]]
    for column in "qmv":
        shown[column.upper()] = [_number(value) for value in data[column]]
    return shown


def _number(value: float) -> str:
    """Return four digits, zeros too, so that a column's points stand below each other as far as they can.

    >>> _number(164.0), _number(37.904), _number(123456.0)
    ('164.0', '37.90', '1.235×10⁵')
    """
    return f"{value:#.4g}" if 0.001 <= abs(value) < 1000 else number(value, 4)
