"""What is measured of vectors in groups: one row over all of them, and one for each pair of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.holm import holm
from theodolite.measures.separation import (
    cosines,
    distances,
    separation,
    silhouettes,
    turns,
    within_between,
)

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
ALL_ONE = "all vectors are equal"
NO_PAIRS = "there is no pair within a group, or none between two"
NOT_FINITE = "a vector is not finite"
MOST_TESTED = 12
"""Groups up to which every pair of them is tested; beyond it the tests would outnumber the sentences."""


def measured(vectors: Floats, group: Whole, *, permutations: int, seed: int) -> dict[str, Any]:
    """Return within, between, silhouettes and the test of separation; NaN and the reason where undefined."""
    found = distances(vectors)
    apart, turned = within_between(found, group), within_between(cosines(vectors), group)
    tested = separation(found, group, permutations=permutations, seed=seed)
    return {
        "n": len(group),
        "groups": len(np.unique(group)),
        "within_distance": apart.within,
        "between_distance": apart.between,
        "within_cosine": turned.within,
        "between_cosine": turned.between,
        "separation": tested.value,
        "p": tested.p,
        "p_least": tested.p_least,
        "silhouette": float(silhouettes(found, group).mean()),
        "silhouette_cosine": float(silhouettes(turns(vectors), group).mean()),
        "undefined": _why(found, tested.value),
    }


def pair_rows(
    vectors: Floats, group: Whole, names: Sequence[str], *, permutations: int, seed: int
) -> list[dict[str, Any]]:
    """Return a row for each group with itself and with each other: mean distance and cosine, and a test of two."""
    found, turned = distances(vectors), cosines(vectors)
    rows = []
    for one, name in enumerate(names):
        for other in range(one, len(names)):
            inside = np.isin(group, (one, other))
            two = group[inside]
            part = np.ix_(inside, inside)
            apart, cosine = within_between(found[part], two), within_between(turned[part], two)
            row: dict[str, Any] = {"group": name, "other": names[other], "n": int(inside.sum())}
            if one == other:
                rows.append(row | {"distance": apart.within, "cosine": cosine.within})
                continue
            row |= {"distance": apart.between, "cosine": cosine.between}
            if len(names) <= MOST_TESTED:
                tested = separation(found[part], two, permutations=permutations, seed=seed)
                row |= {"separation": tested.value, "p": tested.p, "p_least": tested.p_least}
            rows.append(row)
    adjusted = holm([row.get("p", np.nan) for row in rows])
    return [row | {"p_holm": float(p)} for row, p in zip(rows, adjusted, strict=True)]


def _why(found: Floats, value: float) -> str | None:
    if not np.isnan(value):
        return None
    if not np.isfinite(found).all():
        return NOT_FINITE
    return ALL_ONE if len(found) > 1 and not found.any() else NO_PAIRS
