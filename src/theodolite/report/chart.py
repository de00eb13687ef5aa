"""A chart as data, before anything is drawn: what a figure shows can be asked and tested."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Series:
    """One line, or one layer of a stack: a value at each x, NaN where undefined, perhaps with a spread."""

    name: str
    style: int
    x: Numbers
    y: Numbers
    places: tuple[str, ...]
    low: Numbers = ()
    high: Numbers = ()

    def finite(self) -> list[float]:
        """Return every value that has to fit on the axis, spread included."""
        return [value for value in (*self.y, *self.low, *self.high) if math.isfinite(value)]


@dataclass(frozen=True)
class Chart:
    """One panel: its words, its series and how they are to be read."""

    key: str
    title: str
    caption: str
    series: tuple[Series, ...]
    kind: Literal["lines", "stack"] = "lines"
    spread: Literal["band", "bars"] = "bars"
    x_label: str = "layer"
    whole_x: bool = True
    include: Numbers = (0.0,)
    may_be_log: bool = False
    reference: tuple[float, str] | None = None
    reason: str = ""
    log_from: float = field(default=50.0, repr=False)

    @property
    def log(self) -> bool:
        """Whether the y axis is logarithmic: allowed, all above zero, and spanning more than `log_from` times."""
        values = [value for one in self.series for value in one.finite() if value > 0]
        return self.may_be_log and len(values) > 0 and max(values) > self.log_from * min(values)

    def empty(self) -> bool:
        """Whether there is no value to draw."""
        return not any(math.isfinite(value) for one in self.series for value in one.y)

    def points(self) -> list[tuple[str, str, float, float]]:
        """Return (series, place, x, y) for every value that is drawn."""
        return [
            (one.name, place, x, y)
            for one in self.series
            for place, x, y in zip(one.places, one.x, one.y, strict=True)
            if math.isfinite(y) and not (self.log and y <= 0)
        ]
