"""A series: the layers of one model at several steps of its training, in one folder that exhibits read."""

from __future__ import annotations

from theodolite.studies.series.files import is_series
from theodolite.studies.series.series import Series, Step

__all__ = ["Series", "Step", "is_series"]
