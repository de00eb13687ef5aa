"""The units of one layer as points: n, Q, M, V, and which of them a fit uses."""

from __future__ import annotations

import numpy as np
import pandas as pd

from theodolite.measures.decomposition import frequent
from theodolite.studies.choice import Choice
from theodolite.studies.surveyed import Surveyed

COLUMNS = "unit text n log10_n q m v special tokens_per_unit used".split()


def points(survey: Surveyed, layer: int, choice: Choice) -> pd.DataFrame:
    """Return a row per unit seen in a layer and population; `used` says which the choice puts into fits.

    m and v are of the choice's variant, so v is NaN, and the unit not used, where n = 1 and the variant unbiased.
    """
    return chosen_points(seen(survey, layer, choice.population), choice, specials=choice.kept(survey))


def seen(survey: Surveyed, layer: int, population: str) -> pd.DataFrame:
    """Return what the tables say of the units seen in a layer and population, both variants of M and V."""
    rows = survey.tokens[(survey.tokens["layer"] == layer) & (survey.tokens["population"] == population)]
    known = survey.units.drop_duplicates("unit").set_index("unit").reindex(rows["unit"])
    n = rows["n"].to_numpy(np.int64)
    measured = {name: rows[name].to_numpy(np.float64) for name in ("q", "m", "v", "m_unbiased", "v_unbiased")}
    return pd.DataFrame(
        {
            "unit": rows["unit"].to_numpy(),
            "text": known["text"].to_numpy(),
            "n": n,
            "log10_n": np.log10(n.astype(np.float64)),
            **measured,
            "special": known["special"].eq(True).to_numpy(bool),
            "tokens_per_unit": known["tokens_per_unit"].to_numpy(np.float64),
        }
    )


def chosen_points(table: pd.DataFrame, choice: Choice, *, specials: bool) -> pd.DataFrame:
    """Choose between the variants of M and V, and say which units are used."""
    chosen = choice.filtered()
    suffix = "" if chosen.variant == "biased" else "_unbiased"
    table = table.assign(m=table[f"m{suffix}"], v=table[f"v{suffix}"])
    used = np.isfinite(table["v"].to_numpy(np.float64))
    if chosen.filter == "frequent":
        used &= frequent(table["n"].to_numpy(np.int64))
    if not specials:
        used &= ~table["special"].to_numpy(bool)
    return table.assign(used=used)[COLUMNS]


def special_units(survey: Surveyed) -> int:
    """Return how many special units the survey met."""
    return int(survey.units["special"].sum()) if len(survey.units) else 0
