"""Sums over sets of units (frequent, text, both): exact, with errors from a bootstrap over units."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.decomposition import (
    Decomposition,
    UnitMoments,
    all_text,
    decomposition,
    frequent,
    frequent_text,
)
from theodolite.measures.resampling import ERRORS, PARTS, unit_errors
from theodolite.measures.unit_sums import Sums

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

FEW_UNITS = "fewer than three units with 1 <= log10 n <= 5"
FEW_TEXT = "fewer than three units with 1 <= log10 n <= 5 that are not special"
NO_TEXT = "every unit is special"
TOO_FEW = "fewer than three units"
ZERO = "Q or V is 0"
NEEDED = {"filtered_": (3, FEW_UNITS), "text_": (3, FEW_TEXT), "unfiltered_text_": (1, NO_TEXT)}
"""How many units a set must have for sums over it, and what is said of one with fewer; errors want three."""
COUNTS = {"filtered_": "units_used", "text_": "text_units_used", "unfiltered_text_": "unfiltered_text_units_used"}
OF_ALL = ("v_within_se", "v_between_se", "v_within_of_q_se", "v_between_of_q_se", "v_within_of_v_se")
"""Of everything, these errors come from units; those of Q, M, V and M/Q from groups of documents."""
SET_COLUMNS = (*OF_ALL, *(f"{prefix}{name}" for prefix in NEEDED for name in (*PARTS, *ERRORS)))
"""Every column that is made here but the counts."""

Told = tuple[str, dict[str, float]]


def set_sums(
    n: NDArray[np.int64], total: Sums, squares: Array, centre: Array, units: UnitMoments, special: Mask
) -> Iterator[Told]:
    """Yield numbers by column, with the reason for those of them that are NaN. `special`: (units,)"""
    sets = {
        "filtered_": frequent(n),
        "text_": frequent_text(n, special),
        "unfiltered_text_": all_text(n, special),
    }
    order = np.lexsort((units.v, units.m, n))  # so that the draws do not depend on how units happen to be numbered
    masks = np.stack([np.ones(len(n), dtype=bool), *sets.values()])
    everything, *errors = unit_errors(n, total, units.v, centre, masks, order)
    yield _set_errors("", len(n), {name: everything[name] for name in OF_ALL})
    summed: dict[bytes, Decomposition] = {}  # where no unit is special, two sets are one
    for (prefix, used), error in zip(sets.items(), errors, strict=True):
        least, few = NEEDED[prefix]
        count, key = int(used.sum()), used.tobytes()
        if count < least:
            yield few, dict.fromkeys([f"{prefix}{name}" for name in (*PARTS, *ERRORS)], float("nan"))
            continue
        if key not in summed:
            of = None if used.all() else used.nonzero()[0]
            summed[key] = decomposition(n[used], total, squares[used], centre, units.v[used], of)
        yield "not finite", {f"{prefix}{part}": number for part, number in summed[key]._asdict().items()}
        yield _set_errors(prefix, count, error)


def set_counts(n: NDArray[np.int64], special: Mask) -> dict[str, int]:
    """Return how many units each set has, by column."""
    masks = (frequent(n), frequent_text(n, special), all_text(n, special))
    return {column: int(mask.sum()) for column, mask in zip(COUNTS.values(), masks, strict=True)}


def _set_errors(prefix: str, count: int, errors: dict[str, float]) -> Told:
    if count < 3:
        return TOO_FEW, dict.fromkeys([f"{prefix}{name}" for name in errors], float("nan"))
    return ZERO, {f"{prefix}{name}": error for name, error in errors.items()}
