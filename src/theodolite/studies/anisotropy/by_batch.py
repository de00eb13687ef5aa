"""The SVD anisotropy by layer as the mean over contiguous batches, for a survey that has them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from theodolite.studies.anisotropy.batch_summary import BATCHES, summary
from theodolite.studies.surveyed import Surveyed

ANISOTROPY = "anisotropy_svd"


def by_batch(survey: Surveyed, table: pd.DataFrame, population: str) -> pd.DataFrame:
    """Return the table of `by_layer` with the mean over contiguous batches, low and high one s.d. away.

    `batches` says of how many, 0 where the number is that of everything: the whole table is, unless every layer
    that has a number has one of batches too.
    """
    whole = table.assign(batches=0)
    if BATCHES not in survey.tables:
        return whole
    known = survey.tables[BATCHES]
    found = summary(known[known["population"] == population])
    if not len(found):
        return whole
    of = found.set_index("layer").reindex(table["layer"])
    mean, sd = (of[column].to_numpy(np.float64) for column in ("contiguous", "contiguous_sd"))
    if (np.isnan(mean) & table[ANISOTROPY].notna().to_numpy()).any():
        return whole
    columns = {ANISOTROPY: mean, f"{ANISOTROPY}_low": mean - sd, f"{ANISOTROPY}_high": mean + sd}
    return table.assign(**columns, batches=of["contiguous_batches"].fillna(0).to_numpy(int))
