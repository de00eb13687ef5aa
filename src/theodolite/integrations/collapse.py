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
    0 for vectors in one: at 0.1, a layer that began at a mean cosine of 0.2 may go up to 0.92.
    """

    rank: float | None = 0.1
    spread: float | None = 0.1

    def __post_init__(self) -> None:
        for name in ("rank", "spread"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1:
                raise InputError(
                    f"collapse: {name} wants a share between 0 and 1 of the first measurement, but {value!r} came;"
                    " None does not watch it."
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
    """Remembers the first measurement, and which layers are past a threshold now."""

    thresholds: Thresholds
    first: dict[str, tuple[float, float]] = field(default_factory=dict)
    past: dict[tuple[str, str], Collapse] = field(default_factory=dict)

    def look(self, step: int, rows: pd.DataFrame) -> list[Collapse]:
        """Compare one population's rows with the first; return what is past a threshold and was not before."""
        new = []
        for row in rows.to_dict("records"):
            layer, rank, cosine = (
                str(row["layer_name"]),
                _number(row["effective_rank"]),
                _number(row["mean_cosine"]),
            )
            rank_first, cosine_first = self.first.setdefault(layer, (rank, cosine))
            bounds = (
                ("effective rank", self.thresholds.rank, rank, rank_first, rank, rank_first),
                ("mean cosine", self.thresholds.spread, 1 - cosine, 1 - cosine_first, cosine, cosine_first),
            )
            for measure, share, value, before, told, told_first in bounds:
                # Equal vectors have no spectrum: a rank that was a number and is none now is as low as can be.
                gone = math.isnan(value) and not math.isnan(before)
                fell = share is not None and (gone or value < share * before)
                known = self.past.pop((layer, measure), None)
                if fell:
                    self.past[layer, measure] = known or Collapse(step, layer, measure, told_first, told)
                    new += [] if known else [self.past[layer, measure]]
        return new


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
