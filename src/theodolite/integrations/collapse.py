"""Detect collapse: layers whose vectors lose most of their directions, compared with the first measurement."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pandas as pd

from theodolite.errors import InputError


class CollapseWarning(UserWarning):
    """The states of a layer have lost most of their directions since the first measurement."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a layer counts as collapsed: fractions of the first measurement. None disables a check.

    `rank` applies to the effective rank. `spread` applies to 1 - mean cosine, which is 1 for vectors in all
    directions and 0 for vectors in one direction: with 0.01, a layer that starts at a mean cosine of 0.2 may rise
    to 0.992. A layer is reported when it is below a threshold in `patience` consecutive measurements. A model
    trained from scratch learns token frequencies first, and for a while produces nearly the same state everywhere.
    """

    rank: float | None = 0.05
    spread: float | None = 0.01
    patience: int = 3

    def __post_init__(self) -> None:
        for name in ("rank", "spread"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise InputError(
                    f"collapse: {name} must be a fraction of the first measurement, between 0 and 1 "
                    f"(got {value!r}); None disables it."
                )
        if isinstance(self.patience, bool) or not isinstance(self.patience, int) or self.patience < 1:
            raise InputError(
                f"collapse: patience must be a number of measurements, at least 1 (got {self.patience!r})."
            )


@dataclass(frozen=True, slots=True)
class Collapse:
    """The collapse of one layer."""

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
class CollapseDetector:
    """Compares measurements with the first one and counts how long each layer has been below a threshold."""

    thresholds: Thresholds
    first: dict[str, tuple[float, float]] = field(default_factory=dict)
    below: dict[tuple[str, str], int] = field(default_factory=dict)  # by layer and measure

    def update(self, step: int, rows: pd.DataFrame) -> list[Collapse]:
        """Compare the rows of one population with the first measurement; return the new collapses."""
        new = []
        for row in rows.to_dict("records"):
            layer, rank, cosine = (
                str(row["layer_name"]),
                _number(row["effective_rank"]),
                _number(row["mean_cosine"]),
            )
            first_rank, first_cosine = self.first.setdefault(layer, (rank, cosine))
            if self._collapses(layer, "effective rank", self.thresholds.rank, rank, first_rank):
                new.append(Collapse(step, layer, "effective rank", first_rank, rank))
            if self._collapses(layer, "mean cosine", self.thresholds.spread, 1 - cosine, 1 - first_cosine):
                new.append(Collapse(step, layer, "mean cosine", first_cosine, cosine))
        return new

    @property
    def collapsed(self) -> set[str]:
        """The layers that are collapsed now."""
        return {layer for (layer, _), times in self.below.items() if times >= self.thresholds.patience}

    def _collapses(self, layer: str, measure: str, share: float | None, value: float, first: float) -> bool:
        """Count consecutive values below the threshold; return whether the count has just reached `patience`."""
        # Equal vectors have no spectrum: a measure that has become undefined counts as the lowest value.
        undefined = math.isnan(value) and not math.isnan(first)
        below = share is not None and (undefined or value < share * first)
        self.below[layer, measure] = self.below.get((layer, measure), 0) + 1 if below else 0
        return self.below[layer, measure] == self.thresholds.patience


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
