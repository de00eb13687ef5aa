"""Seeds: series whose names differ only in their seed are replicates of one run."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

SEED = re.compile(r"[-_ ]*\(?seed[-_ =]*\d+\)?", re.IGNORECASE)


def name_run(name: str) -> str:
    """Return the name of a series without its seed.

    >>> name_run("small-seed3"), name_run("small (seed 12)"), name_run("seedling")
    ('small', 'small', 'seedling')
    """
    return SEED.sub("", name).strip() or name


def group_seeds(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the places of the series of each run; a run of one series keeps its name.

    >>> group_seeds(["small-seed1", "large-seed1", "small-seed2"])
    {'small': [0, 2], 'large-seed1': [1]}
    """
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        found.setdefault(name_run(name), []).append(place)
    return {run if len(places) > 1 else names[places[0]]: places for run, places in found.items()}


def merge_seeds(
    tables: Sequence[pd.DataFrame], run: str, keys: Sequence[str], columns: Sequence[str]
) -> pd.DataFrame:
    """Return the mean of each column over seeds, and COLUMN_low and COLUMN_high, for the rows that all seeds have.

    A value that is undefined for one seed is undefined: otherwise the mean would jump where a seed begins or ends.

    >>> seeds = [pd.DataFrame({"step": steps, "x": [2.0, 4.0]}) for steps in ([0, 10], [10, 20])]
    >>> merge_seeds(seeds, "run", ["step"], ["x"]).to_dict("records")
    [{'survey': 'run', 'step': 10, 'seeds': 2, 'x': 3.0, 'x_low': 2.0, 'x_high': 4.0}]
    """
    indexed = [table.set_index(list(keys)) for table in tables]
    rows = indexed[0].index
    for table in indexed[1:]:
        rows = rows[rows.isin(table.index)]
    made = rows.to_frame(index=False)
    made.insert(0, "survey", run)
    made["seeds"] = len(tables)
    for column in columns:
        values = np.stack([table.loc[rows, column].to_numpy(np.float64) for table in indexed])
        made[column] = values.mean(axis=0)
        made[f"{column}_low"], made[f"{column}_high"] = values.min(axis=0), values.max(axis=0)
    return made
