"""table1: facts of the models; table3: how many units and vectors there are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.needs import MODEL, UNITS
from theodolite.exhibits.norm_variance import captions
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.printed_table import draw_table, table_size
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.text import millions
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.counts import counts, model_facts
from theodolite.studies.surveyed import Surveyed, labels


@exhibit("norm-variance/table1", title="Facts of the models", kind="table", needs=[MODEL], reads=())
def table1(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """List layers, dimensions and parameters of each model."""
    data = model_facts(surveys)
    shown = data.assign(params=[millions(count) for count in data["params"]]).astype(str)
    shown.columns = pd.Index(["Model", "Layers", "Dims.", "Params."])
    told = "Layers, the input layer among them and a final norm not, dimensions and parameters of each model."
    return plate_of(data, shown, told)


@exhibit(
    "norm-variance/table3",
    title="|T| and |X|",
    kind="table",
    needs=[UNITS],
    options=("population",),
)
def table3(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Count the units and the vectors of each survey."""
    data = counts(surveys, labels(surveys), choice.population)
    shown = data.assign(
        **{name: [f"{count:,}" for count in data[name]] for name in ("types", "vectors", "frequent", "special")}
    )[["survey", "units", "types", "vectors", "frequent", "special"]]
    shown.columns = pd.Index(["Model", "Units", "|T|", "|X|", "frequent", "special"])
    told = caption(
        f"|T| units and |X| vectors; of the units, those with {captions.RANGE} and the special ones.",
        captions.corpora(surveys),
        captions.population(choice),
    )
    return plate_of(data, shown, told)


def plate_of(data: pd.DataFrame, shown: pd.DataFrame, told: str) -> Plate:
    """Return the plate of a table."""
    return Plate(data, told, partial(draw_table, shown=shown), table_size(shown), shown)
