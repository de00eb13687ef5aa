"""A chart as data, before anything is drawn: what a figure shows can be asked and tested."""

from __future__ import annotations

import math
from dataclasses import dataclass

from theodolite.report.shares import BOUNDED

Numbers = tuple[float, ...]
LOG_FROM = 50.0  # the greatest value over the least, from which an axis is logarithmic


@dataclass(frozen=True)
class Series:
    """One line: a value at each x, NaN where undefined."""

    name: str
    style: int
    x: Numbers
    y: Numbers
    places: tuple[str, ...]

    def finite(self) -> list[float]:
        """Return every value that has to fit on the axis."""
        return [value for value in self.y if math.isfinite(value)]


@dataclass(frozen=True)
class Chart:
    """One panel: its words, its series and how they are to be read."""

    key: str
    title: str
    series: tuple[Series, ...]
    x_label: str = "layer"
    x_names: tuple[str, ...] = ()  # what stands at x = 0, 1, ... where that is no number of a layer
    reason: str = ""
    column: str = ""  # of the layer table, where it is one

    @property
    def log(self) -> bool:
        """Whether the y axis is logarithmic, as on the page's own charts: all above zero, and spanning much."""
        values = [value for one in self.series for value in one.finite()]
        if self.column in BOUNDED:
            return False
        return len(values) > 0 and min(values) > 0 and max(values) > LOG_FROM * min(values)

    def empty(self) -> bool:
        """Whether there is no value to draw."""
        return not any(one.finite() for one in self.series)

    def points(self) -> list[tuple[str, str, float, float]]:
        """Return (series, place, x, y) for every value that is drawn."""
        return [
            (one.name, place, x, y)
            for one in self.series
            for place, x, y in zip(one.places, one.x, one.y, strict=True)
            if math.isfinite(y)
        ]
