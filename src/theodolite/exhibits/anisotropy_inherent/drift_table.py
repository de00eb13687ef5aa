"""drift: the drift test in numbers, both coefficients and what stands beside them. Beyond the paper."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.norm_variance.captions import caption, corpora, massive, population
from theodolite.exhibits.norm_variance.model_tables import plate_of
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.text import number
from theodolite.studies.anisotropy.drift import drift
from theodolite.studies.choice import Choice
from theodolite.studies.surveyed import Surveyed

HEADS = {
    "spearman": "ρ",
    "spearman_p": "p",
    "spearman_shift_p": "p shifts",
    "spearman_step": "ρ steps",
    "spearman_step_p": "p steps",
    "pearson": "r",
    "pearson_p": "p",
    "pearson_shift_p": "p shifts",
    "pearson_step": "r steps",
    "pearson_step_p": "p steps",
    "shift_floor": "least p shifts",
}


@exhibit(
    "anisotropy-inherent/drift",
    title="The drift test in numbers: Spearman, Pearson, circular shifts, first differences",
    kind="table",
    options=("population",),
    reads=("layers",),
)
def drift_table(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """List the drift test of every model, stack and choice of states; the data has every population."""
    data = drift(surveys)
    told = caption(
        "Correlation over layers between the norm of the mean vector and the mean cosine: Spearman's ρ and",
        "Pearson's r with p-values for independent layers; over all circular shifts of one series, no smaller",
        "than the last column; and of the steps from layer to layer. States: the library's hidden states, as in",
        "the paper, or the embeddings and every block as it leaves. .csv and .json have every population, and why",
        "a number is undefined.",
        corpora(surveys),
        population(choice),
        massive(surveys, choice),
    )
    return plate_of(data, _printed(data[data["population"] == choice.population]), told)


def _printed(rows: pd.DataFrame) -> pd.DataFrame:
    shown = rows[["survey", "stack", "states", "layers"]].astype(str)
    for column in HEADS:
        shown[column] = [number(float(value), 2) for value in rows[column]]
    shown.columns = pd.Index([*shown.columns[:4], *HEADS.values()])
    return shown.reset_index(drop=True)
