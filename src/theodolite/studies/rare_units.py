"""Surveys in which most rare units have no vector: which units that concerns, in words and as a mask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.count_strata import describe_certain_units, find_strata
from theodolite.measures.decomposition import FREQUENT
from theodolite.text import format_percent

Mask = NDArray[np.bool_]
SHARE = "v_within_estimated_share"


def find_min_count(facts: Mapping[str, Any]) -> int:
    """Return the number of occurrences below which units have no vector; 1 if all have one."""
    return int((facts.get("settings") or {}).get("min_count") or 1)


def is_part(facts: Mapping[str, Any]) -> bool:
    """Return whether a survey is of one part of its corpus."""
    return ((facts.get("identity") or {}).get("corpus") or {}).get("part") is not None


def has_units_without_vector(layers: pd.DataFrame) -> bool:
    """Return whether some units have no M and V."""
    return SHARE in layers.columns and bool((layers[SHARE] > 0).any())


def are_certain(n: NDArray[np.int64], m: NDArray[np.float64], special: Mask, min_count: int) -> Mask:
    """Return which units were certain to have a vector: a sample of rare units stands for others.

    They are frequent, or special, or all units with about as many occurrences have one. `n` and `m` are of the
    population all. (units,) each -> (units,)

    >>> n, m = np.array([50, 12, 12, 11, 3]), np.array([1.0, 1.0, np.nan, 1.0, 1.0])
    >>> are_certain(n, m, np.zeros(5, dtype=bool), 40).tolist()
    [True, False, False, True, True]
    """
    rare, strata = (n < min_count) & ~special, find_strata(n)
    return ~(rare & np.isin(strata, strata[rare & np.isnan(m)]))


def describe_rare_units(facts: Mapping[str, Any], layers: pd.DataFrame) -> str:
    """Return which units have no vector, and what is estimated; empty if nothing is.

    >>> facts = {"settings": {"min_count": 20}, "counts": {"types": 50000, "units_with_vector": 14000}}
    >>> for sentence in describe_rare_units(facts, pd.DataFrame({SHARE: [0.031]})).split(". "):
    ...     print(sentence)
    36,000 of 50,000 units (72%), which occur fewer than 20 times, have no vector
    M and V of those that occur more than once are unknown; V_W and V_B are estimated for 3.1% of the positions
    CV, slope and R2 use units with n < 20 only where all units of about that n have a vector.
    """
    if not has_units_without_vector(layers):
        return ""
    least = find_min_count(facts)
    counts = facts.get("counts") or {}
    types, kept = counts.get("types"), counts.get("units_with_vector")
    which = "Some units"
    if types and kept is not None:
        which = f"{types - kept:,} of {types:,} units ({format_percent((types - kept) / types, 2)})"
    where = " in the whole corpus" if is_part(facts) else ""
    rare = f", which occur fewer than {least} times{where}," if least > 1 else ""
    fits = f" CV, slope and R2 use {describe_certain_units(least)}." if least > FREQUENT[0] else ""
    share = format_percent(float(layers[SHARE].max()), 2)
    return (
        f"{which}{rare} have no vector. M and V of those that occur more than once are unknown; V_W and V_B are "
        f"estimated for {share} of the positions.{fits}"
    )
