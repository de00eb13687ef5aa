"""Everything a report may tell of one survey, read from its folder: tables, curves, and where the sample lies."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.naming import survey_name
from theodolite.studies.projections import projections
from theodolite.surveys.bucket import Bucket
from theodolite.surveys.fetching import fetched
from theodolite.surveys.folder import LATER, REPORTED, open_tables
from theodolite.surveys.state import SAMPLE

POINTS, WIDTH, POINTS_IN_ALL, FEWEST = 1500, 768, 24_000, 300
"""Vectors of a layer that are drawn, at a width that still allows them; over all layers; and at least."""


def survey_tables(folder: str | Path | Bucket) -> dict[str, Any]:
    """Return name, facts and tables by name, as theodolite.report takes them; what a survey has not is empty."""
    facts, _ = open_tables(folder, [])
    path = fetched(folder, [SAMPLE])
    later = [name for name in LATER if f"{name}.parquet" in facts["files"]]
    _, tables = open_tables(folder, [*REPORTED, *later])
    return {"name": survey_name(facts), "facts": facts, **tables, "projections": _projections(path, facts)}


def points_per_layer(layers: int, dim: int) -> int:
    """Return how many vectors of a layer are drawn: fewer where they are wide or layers many, as each costs.

    >>> points_per_layer(13, 768), points_per_layer(32, 576), points_per_layer(33, 4096)
    (1500, 750, 649)
    """
    wide = POINTS * math.sqrt(min(1.0, WIDTH / max(dim, 1)))
    return max(FEWEST, int(min(wide, POINTS_IN_ALL / max(layers, 1))))


def _projections(path: Path, facts: dict[str, Any]) -> pd.DataFrame:
    """Return the sample on planes; none where the survey has no sample or somebody took it away."""
    known = facts["populations"]
    if not known or not (path / SAMPLE).is_file():
        return pd.DataFrame()
    dim = max((int(layer["dim"]) for layer in facts["layers"]), default=0)
    return projections(path, per_layer=points_per_layer(len(facts["layers"]), dim), population=known[0])
