"""Sums over sets of units (frequent, text, both)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.decomposition import (
    Rest,
    UnitMoments,
    all_text,
    decompositions,
    frequent,
    frequent_text,
)
from theodolite.measures.resampling import ERRORS, PARTS
from theodolite.measures.unit_sums import Rows, Sums
from theodolite.tables.rare_units import RarePart

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

FEW_UNITS = "fewer than three units with 1 <= log10 n <= 5"
FEW_TEXT = "fewer than three units with 1 <= log10 n <= 5 that are not special"
NO_TEXT = "every unit is special"
NEEDED = {"filtered_": (3, FEW_UNITS), "text_": (3, FEW_TEXT), "unfiltered_text_": (1, NO_TEXT)}
"""How many units a set must have for sums over it, and what is said of one with fewer."""
NONE_NEEDED = (0, "")
"""The same for all units together."""
COUNTS = {"filtered_": "units_used", "text_": "text_units_used", "unfiltered_text_": "unfiltered_text_units_used"}
OF_ALL = ("v_within_se", "v_between_se", "v_within_of_q_se", "v_between_of_q_se", "v_within_of_v_se")
"""Errors of sums over all units that need the units; those of Q, M, V and M/Q do not."""
SET_COLUMNS = (*OF_ALL, *(f"{prefix}{name}" for prefix in NEEDED for name in (*PARTS, *ERRORS)))
"""Every column that is made here but the counts."""

WITH_RARE = ("", "unfiltered_text_")
"""Sets that have units without a vector: special units always have one, and the other sets only frequent units."""

ColumnsWithReason = tuple[str, dict[str, float]]


def make_sets(n: NDArray[np.int64], special: Mask) -> dict[str, Mask]:
    """Return the units of each set by prefix. (units,) each"""
    return {
        "filtered_": frequent(n),
        "text_": frequent_text(n, special),
        "unfiltered_text_": all_text(n, special),
    }


def set_sums(
    n: NDArray[np.int64],
    total: Sums,
    centre: Array,
    units: UnitMoments,
    special: Mask | None,
    rare: RarePart | None = None,
) -> Iterator[ColumnsWithReason]:
    """Yield sums by column, over all units and over each set, with the reason for those of them that are NaN.

    `special`: (units,), or None if the vectors have no units, and there are no sets.
    """
    masks = {"": np.ones(len(n), dtype=bool)}
    if special is not None:
        masks |= make_sets(n if rare is None else rare.certain_counts(n), special)
    rest = None if rare is None else rare.rest
    wanted: dict[bytes, tuple[Rows | None, Rest | None]] = {}  # where no unit is special, two sets are one
    keys = {}
    for prefix, used in masks.items():
        if used.sum() >= NEEDED.get(prefix, NONE_NEEDED)[0]:
            more = rest if prefix in WITH_RARE else None
            keys[prefix] = used.tobytes() + bytes(more is not None)
            wanted[keys[prefix]] = None if used.all() else used.nonzero()[0], more
    sets, rests = zip(*wanted.values(), strict=True)
    found = dict(zip(wanted, decompositions(n, total, centre, units.v, sets, rests), strict=True))
    for prefix in masks:
        if prefix in keys:
            yield "not finite", {f"{prefix}{part}": value for part, value in found[keys[prefix]]._asdict().items()}
        else:
            yield NEEDED[prefix][1], dict.fromkeys([f"{prefix}{name}" for name in PARTS], float("nan"))


def set_counts(n: NDArray[np.int64], special: Mask, rare: RarePart | None = None) -> dict[str, int]:
    """Return how many units each set has, by column."""
    masks = make_sets(n if rare is None else rare.certain_counts(n), special)
    more = {prefix: 0 if rare is None or prefix not in WITH_RARE else len(rare.sums.n) for prefix in masks}
    return {COUNTS[prefix]: int(mask.sum()) + more[prefix] for prefix, mask in masks.items()}
