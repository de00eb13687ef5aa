"""Made-up surveys whose states leave norms: coordinates by definition, gamma and beta drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from tests.made_up import DIM, MadeUp, made_up

from theodolite.studies.surveyed import Surveyed

NORM_COLUMNS = "layer coordinate kind eps gamma beta".split()


def with_norms(
    found: MadeUp | None = None,
    leaving: dict[int, str] | None = None,
    *,
    placement: str | None = "post",
    seed: int = 3,
) -> MadeUp:
    """Return the survey with coordinates, and norms for the layers of `leaving` (layer to kind)."""
    found = found or made_up()
    rng = np.random.default_rng(seed)
    norms = []
    for layer, kind in ({0: "LayerNorm", 1: "LayerNorm"} if leaving is None else leaving).items():
        gamma, beta = rng.normal(1, 0.3, DIM), rng.normal(0, 0.4, DIM) * (kind == "LayerNorm")
        norms.append(
            pd.DataFrame(dict(zip(NORM_COLUMNS, (layer, range(DIM), kind, 1e-5, gamma, beta), strict=True)))
        )
    coordinates = []
    for (layer, population), vectors in found.vectors.items():
        x = np.concatenate(list(vectors.values()))
        part = pd.DataFrame({"coordinate": range(DIM), "mu_i": x.mean(0), "v_i": x.var(0), "q_i": (x**2).mean(0)})
        coordinates.append(part.assign(layer=layer, population=population))
    tables = {
        "coordinates": pd.concat(coordinates, ignore_index=True),
        "layer_norms": pd.concat(norms, ignore_index=True) if norms else pd.DataFrame(columns=NORM_COLUMNS),
    }
    survey = found.survey
    model: dict[str, Any] = survey.facts["model"] | {"norm_placement": placement, "architecture": "TinyModel"}
    facts = survey.facts | {"model": model}
    return replace(found, survey=Surveyed(facts, survey.tables | tables))
