"""Facts that fit in a line: the models' sizes, and how many units and vectors were seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from theodolite.measures.decomposition import frequent
from theodolite.studies.norm_variance.points import special_units
from theodolite.studies.surveyed import Surveyed


def model_facts(surveys: Sequence[Surveyed]) -> pd.DataFrame:
    """Return a row per model: layers with the input layer, dimensions, parameters."""
    rows = {
        survey.facts["model"]["sha256"]: (
            survey.model,
            int(survey.facts["model"]["blocks"]) + 1,
            int(survey.facts["layers"][0]["dim"]),
            int(survey.facts["model"]["parameters"]),
        )
        for survey in surveys
    }
    return pd.DataFrame(list(rows.values()), columns=["model", "layers", "dims", "params"])


def counts(surveys: Sequence[Surveyed], names: Sequence[str], population: str) -> pd.DataFrame:
    """Return a row per survey: units |T|, vectors |X|, the frequent units and the special ones among them."""
    rows = []
    for survey, name in zip(surveys, names, strict=True):
        first = next(iter(survey.layer_names))
        chosen = (survey.tokens["layer"] == first) & (survey.tokens["population"] == population)
        seen = survey.tokens[chosen]
        n = seen["n"].to_numpy(np.int64)
        special = survey.units.loc[survey.units["special"], "unit"] if special_units(survey) else []
        rows.append(
            {
                "survey": name,
                "corpus": survey.corpus,
                "units": str(survey.facts["units"]),
                "types": len(n),
                "vectors": int(n.sum()),
                "frequent": int(frequent(n).sum()),
                "special": int(seen["unit"].isin(list(special)).sum()),
            }
        )
    return pd.DataFrame(rows)
