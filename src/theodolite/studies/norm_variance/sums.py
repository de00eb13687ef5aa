"""Sums over everything in every version: filter, special units and variant both ways, with errors."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from theodolite.measures.resampling import PARTS, SHARES
from theodolite.studies.norm_variance.fits import every_choice
from theodolite.studies.norm_variance.points import seen
from theodolite.studies.norm_variance.profile import layer_sums, set_of
from theodolite.studies.surveyed import Surveyed

HEAD = "survey layer layer_name population variant filter specials".split()
NUMBERS = [name for number in (*PARTS, *SHARES) for name in (number, f"{number}_se")]
COLUMNS = [*HEAD, "units", *NUMBERS, "errors", "reason"]
UNITS = {"": "types", "filtered_": "units_used"}
"""Which column counts the units of a set; the others' begin with the set's name."""
ONCE = "some units occur once, so that their V cannot be told without bias"
BOOTSTRAP = "bootstrap over units"
BOTH = "Q, M, V and M/Q: jackknife over groups of documents; others: bootstrap over units"


def sums(survey: Surveyed, *, layers: Iterable[int] | None = None) -> pd.DataFrame:
    """Return a row per layer, population, variant, filter, and special units in or out.

    `errors` says how the standard errors were made; those of the unbiased numbers are of the biased ones. Where
    numbers are undefined, `reason` says why.
    """
    wanted = set(survey.layer_names if layers is None else layers)
    tables: list[pd.DataFrame] = []
    for population, alike in groupby(every_choice(survey), lambda choice: choice.population):

        @cache
        def at(layer: int, population: str = population) -> pd.DataFrame:
            return seen(survey, layer, population)

        rows = survey.layers[survey.layers["population"] == population].sort_values("layer")
        here = rows["layer"].isin(wanted).to_numpy(bool)
        for choice in alike:
            table, prefix = layer_sums(survey, choice, at), set_of(survey, choice)
            counts = rows[UNITS.get(prefix, f"{prefix}units_used")]
            told: dict[str, Any] = {
                "variant": choice.variant,
                "filter": choice.filter,
                "specials": choice.specials,
            }
            told |= {"units": counts.to_numpy(np.float64), "errors": BOTH if prefix == "" else BOOTSTRAP}
            reasons = [_reason(row, prefix) for row in rows.to_dict("records")]
            told["reason"] = [ONCE if once else why for once, why in zip(table["once"], reasons, strict=True)]
            tables.append(table.assign(**told)[here])
    whole = pd.concat(tables).reindex(columns=COLUMNS).astype({"units": "Int64"})
    return whole.sort_values("layer", kind="stable", ignore_index=True)


def _reason(row: dict[str, Any], prefix: str) -> str | None:
    """Return why the first of the numbers that is undefined is, as the survey says it."""
    told = row.get("undefined")
    why = json.loads(told) if isinstance(told, str) else {}
    return next((why[f"{prefix}{name}"] for name in NUMBERS if f"{prefix}{name}" in why), None)
