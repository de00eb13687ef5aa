"""Token sets of made-up surveys, every number by its definition."""

from __future__ import annotations

import numpy as np
import pandas as pd
from tests.made_up import MadeUp

from theodolite.studies.norm_variance.chosen_sets import ChosenSets
from theodolite.studies.norm_variance.plane import fit_plane
from theodolite.studies.surveyed import Surveyed


def with_sets(
    made: MadeUp, *, layer: int = 0, units: tuple[str, ...] = ("w2", "w5", "w9", "w30"), far: bool = False
) -> Surveyed:
    """Return the survey with the sets of some units; `far` puts one vector a hundred times as far out."""
    vectors = {unit: made.vectors[layer, "all"][unit].copy() for unit in units}
    if far:
        vectors[units[0]][0] *= 100
    plane = fit_plane(np.array([x.mean(axis=0) for x in vectors.values()]))
    rows = made.survey.tokens.query("layer == @layer and population == 'all'").set_index("unit").loc[list(units)]
    means = np.array([plane.place(x).mean(axis=0) for x in vectors.values()])
    logs = np.log10(rows["n"].to_numpy(float))
    chosen = pd.DataFrame({"unit": units, "text": units, "name": units, "log10_n": logs, "interval": 0})
    chosen = chosen.assign(x=means[:, 0], y=means[:, 1], kept=rows["n"].to_numpy())
    chosen = chosen.assign(**{name: rows[name].to_numpy() for name in "nqmv"})
    every = np.concatenate([plane.place(x) for x in vectors.values()])
    token = np.repeat(np.arange(len(units)), [len(x) for x in vectors.values()])
    places = pd.DataFrame({"x": every[:, 0], "y": every[:, 1], "token": token, "log10_n": logs[token]})
    facts = {"layer": layer, "seed": 0, "most": 200, "by_hand": [], "documents": 5, "of": 9}
    return ChosenSets(chosen, places, facts | {"share": plane.share.tolist()}).beside(made.survey)
