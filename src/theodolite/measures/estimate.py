"""A number with its standard error, or the reason why there is none."""

from __future__ import annotations

from math import nan
from typing import NamedTuple


class Estimate(NamedTuple):
    """An estimate, its standard error (NaN where none is known), and why it is NaN, where it is."""

    value: float
    se: float = nan
    reason: str | None = None

    @classmethod
    def undefined(cls, reason: str) -> Estimate:
        """Return no number, for this reason.

        >>> Estimate.undefined("nothing came")
        Estimate(value=nan, se=nan, reason='nothing came')
        """
        return cls(nan, nan, reason)
