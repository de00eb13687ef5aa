"""Strata of units with about equally many occurrences, from which rare units are sampled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
EXACT_COUNTS = 16
"""Up to this number of occurrences, each number is a stratum of its own."""


def find_strata(n: Ints) -> Ints:
    """Return the stratum of each number of occurrences; above 16, each doubling is one. (units,) -> (units,)

    >>> find_strata(np.array([1, 2, 16, 17, 31, 32, 63, 64])).tolist()
    [1, 2, 16, 17, 17, 18, 18, 19]
    """
    above = EXACT_COUNTS + 1 + np.log2(np.maximum(n, 1) / EXACT_COUNTS).astype(np.int64)
    return np.where(n <= EXACT_COUNTS, n, above)


def describe_certain_units(min_count: int | str) -> str:
    """Return which units a fit uses, whose points a sample must not stand for; those with larger n are used."""
    return f"units with n < {min_count} only where all units of about that n have a vector"
