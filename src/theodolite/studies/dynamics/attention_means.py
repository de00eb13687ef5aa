"""Drift and sharpness averaged over blocks, step by step."""

from __future__ import annotations

import pandas as pd

from theodolite.studies.anisotropy.by_layer import numbers
from theodolite.studies.dynamics.averages import mean_of_layers
from theodolite.studies.dynamics.names import ATTENTION
from theodolite.studies.surveyed import Surveyed

COLUMNS = "survey step population measure mean se blocks documents".split()
HEAD = ("step", "layer", "positions", "documents", "heads")


def attention_means(survey: Surveyed, population: str, name: str | None = None) -> pd.DataFrame:
    """Return a row per measure and step: the mean over the blocks that tell it at every step, and of their errors.

    A population that attention is not told of has no rows.
    """
    table = survey.tables[ATTENTION]
    rows = table[table["population"] == population].sort_values(["step", "layer"])
    steps = rows["step"].unique()
    parts = []
    for measure in measures_of(table) if len(rows) else []:
        mean, kept = mean_of_layers(numbers(rows, measure).reshape(len(steps), -1))
        errors = numbers(rows, f"{measure}_se").reshape(len(steps), -1)
        parts.append(
            pd.DataFrame(
                {
                    "survey": survey.model if name is None else name,
                    "step": steps,
                    "population": population,
                    "measure": measure,
                    "mean": mean,
                    "se": errors[:, kept].mean(axis=1) if kept.any() else float("nan"),
                    "blocks": int(kept.sum()),
                    "documents": int(rows["documents"].max()),
                }
            )
        )
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)


def measures_of(table: pd.DataFrame) -> list[str]:
    """Return the columns of the table that measure something."""
    return [
        str(column)
        for column in table.columns
        if column not in HEAD and f"{column}_se" in table and not str(column).endswith("_se")
    ]
