"""Series: the layers of one model at several training steps, how they are surveyed, stored and analysed."""

from __future__ import annotations

from theodolite.studies.series.files import is_series
from theodolite.studies.series.series import Series, Step

__all__ = ["Series", "Step", "is_series"]
