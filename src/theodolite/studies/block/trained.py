"""How long the states of a trained model are, by layer, to set beside a fixed point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from theodolite.errors import InputError
from theodolite.studies.block.inputs import sampled_states
from theodolite.surveys.folder import open_tables


def trained_norms(survey: str | Path, population: str) -> tuple[str, pd.DataFrame]:
    """Return the surveyed model's name and a row a layer: mean norm with its error, rms norm, norm of the mean.

    The mean norm is of the survey's sample; the other two are sqrt(Q) and sqrt(M) of everything.
    """
    facts, tables = open_tables(survey, ("layers",))
    layers = tables["layers"]
    known = list(layers["population"].unique())
    if population not in known:
        raise InputError(f"--population {population!r}: this survey has {', '.join(known)}.")
    rows = []
    for row in layers[layers["population"] == population].to_dict("records"):
        norms = sampled_states(Path(survey), int(row["layer"]), population).double().norm(dim=1).numpy()
        rows.append(
            {
                "layer": int(row["layer"]),
                "layer_name": str(row["layer_name"]),
                "population": population,
                "mean_norm": float(norms.mean()),
                "mean_norm_se": float(norms.std(ddof=1) / np.sqrt(len(norms))) if len(norms) > 1 else np.nan,
                "sample": len(norms),
                "rms_norm": float(np.sqrt(row["q"])),
                "norm_of_mean": float(np.sqrt(max(row["m"], 0.0))),
            }
        )
    name = facts["model"]["name"] if facts.get("model") else facts["corpus"]["name"]
    return str(name), pd.DataFrame(rows)
