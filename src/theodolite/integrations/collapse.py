"""Collapse: vectors that come to lie in few directions, or in one, told from those of the first measurement."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pandas as pd

from theodolite.errors import InputError


class CollapseWarning(UserWarning):
    """The states of a layer have lost most of their directions since the first measurement."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Shares of the first measurement that a layer may fall to, between 0 and 1; None does not watch.

    `rank` is of the effective rank. `spread` is of 1 - mean cosine, which is 1 for vectors in all directions and
    0 for vectors in one: at 0.05, a layer that began at a mean cosine of 0.2 may go up to 0.96. A layer is told of
    when it is past a threshold in `patience` measurements in a row: a model that is trained from scratch first
    learns how frequent each token is, and for a while gives nearly the same state everywhere.
    """

    rank: float | None = 0.05
    spread: float | None = 0.05
    patience: int = 3

    def __post_init__(self) -> None:
        for name in ("rank", "spread"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise InputError(
                    f"collapse: {name} wants a share between 0 and 1 of the first measurement, but {value!r} came;"
                    " None does not watch it."
                )
        if isinstance(self.patience, bool) or not isinstance(self.patience, int) or self.patience < 1:
            raise InputError(
                f"collapse: patience wants a whole number of measurements, at least 1, but {self.patience!r} came."
            )


@dataclass(frozen=True, slots=True)
class Collapse:
    """One layer's finding."""

    step: int
    layer: str
    measure: str
    first: float
    now: float

    def __str__(self) -> str:
        return (
            f"step {self.step}: {self.layer} is collapsing: its {self.measure} was {self.first:.3g} at the first "
            f"measurement and is {self.now:.3g}"
        )


@dataclass
class Watch:
    """Remembers the first measurement, and for how many measurements a layer has been past a threshold."""

    thresholds: Thresholds
    first: dict[str, tuple[float, float]] = field(default_factory=dict)
    past: dict[tuple[str, str], int] = field(default_factory=dict)  # by layer and measure

    def look(self, step: int, rows: pd.DataFrame) -> list[Collapse]:
        """Compare one population's rows with the first ones; return the collapses that begin to count now."""
        new = []
        for row in rows.to_dict("records"):
            layer, rank, cosine = (
                str(row["layer_name"]),
                _number(row["effective_rank"]),
                _number(row["mean_cosine"]),
            )
            first_rank, first_cosine = self.first.setdefault(layer, (rank, cosine))
            if self._past(layer, "effective rank", self.thresholds.rank, rank, first_rank):
                new.append(Collapse(step, layer, "effective rank", first_rank, rank))
            if self._past(layer, "mean cosine", self.thresholds.spread, 1 - cosine, 1 - first_cosine):
                new.append(Collapse(step, layer, "mean cosine", first_cosine, cosine))
        return new

    @property
    def collapsed(self) -> set[str]:
        """The layers that have been past a threshold for long enough."""
        return {layer for (layer, _), times in self.past.items() if times >= self.thresholds.patience}

    def _past(self, layer: str, measure: str, share: float | None, value: float, first: float) -> bool:
        """Count how often in a row the value is past its threshold; say whether that is just enough to tell."""
        # Equal vectors have no spectrum: a number that was one and is none now is as low as can be.
        gone = math.isnan(value) and not math.isnan(first)
        fell = share is not None and (gone or value < share * first)
        self.past[layer, measure] = self.past.get((layer, measure), 0) + 1 if fell else 0
        return self.past[layer, measure] == self.thresholds.patience


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
