"""What is told of every sampled vector, one row each."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.studies.sample_export.where import Whereabouts
from theodolite.studies.sampled import SampledRows, SampleFile

COLUMNS = "text unit special n document window position layer layer_name norm".split()
TABLES = ("units", "tokens")


def told_of(
    sample: SampleFile, layer: int, population: str, rows: SampledRows, where: Whereabouts
) -> pd.DataFrame:
    """Return a table of the sampled vectors at one layer.

    `n` is how often the unit occurs in the population; unit, text, special and n are null where vectors have no
    unit, and document, window and position where they cannot be told.
    """
    unit = sample.unit_names(layer, rows.unit)
    units = sample.survey.units.drop_duplicates("unit").set_index("unit")
    tokens = sample.survey.tokens
    counted = tokens[(tokens["layer"] == layer) & (tokens["population"] == population)].set_index("unit")["n"]
    norm: NDArray[np.float64] = np.linalg.norm(rows.vector.astype(np.float64), axis=1)
    found = pd.DataFrame(
        {
            "text": units["text"].astype(object).reindex(unit).to_numpy(),
            "unit": unit,
            "special": units["special"].astype("boolean").reindex(unit).to_numpy(),
            "n": counted.astype("Int64").reindex(unit).to_numpy(),
            "layer": layer,
            "layer_name": sample.layers[layer].name,
            "norm": norm,
        }
    ).join(where(rows.key))
    return found[COLUMNS].astype({"special": "boolean", "n": "Int64", "text": object, "unit": object})
