"""Folding all pairs within and between a model's tables into tables of findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

import pandas as pd

from theodolite.studies.weights import pair_tables
from theodolite.studies.weights.pairs import BLOCK, Side, all_pairs, count_pairs
from theodolite.surveys.listener import Listener, Progress

TRAINED = "trained positions"
"""The positions before the untrained tail, where one was found; their pairs are of interest within only."""


@dataclass
class Folded:
    """What is found as the tables are folded one pair of them after the other."""

    names: Mapping[str, list[str]]  # of the rows, by table
    settings: Mapping[str, Any]
    units: pd.DataFrame
    pairs: list[dict[str, Any]] = field(default_factory=list)
    histograms: list[pd.DataFrame] = field(default_factory=list)
    extremes: list[pd.DataFrame] = field(default_factory=list)
    close: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=pair_tables.CLOSE))
    beyond: int | None = None  # pairs of a token and a position above the cosine asked for
    notes: list[str] = field(default_factory=list)

    def fold(self, one: Side, given: Side | None, block: int, tell: _Tell) -> None:
        """Take in all pairs of two tables, or within one."""
        other = given or one
        crossing = one.name == "words" and other.name == "positions"
        above = self.settings["above"] if crossing else None
        metrics = all_pairs(one, given, most=self.settings["most"], above=above, block=block, heard=tell.hear)
        tell.next()
        self.pairs += pair_tables.pair_rows(one.name, other.name, metrics)
        self.histograms.append(pair_tables.histogram_rows(one.name, other.name, metrics))
        self.extremes.append(pair_tables.extreme_rows(one, other, metrics, self.names))
        if crossing:
            self.close = pair_tables.close_rows(one, other, metrics["cosine"], self.units)
            self.beyond = metrics["cosine"].beyond

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables by name."""
        return {
            "pairs": pd.DataFrame(self.pairs, columns=pair_tables.PAIRS),
            "histograms": pd.concat(self.histograms, ignore_index=True),
            "extremes": pd.concat(self.extremes, ignore_index=True),
            "close": self.close,
        }


class _Tell:
    """Tells how far all folds together have come."""

    def __init__(self, ear: Listener, total: int) -> None:
        self.ear, self.total = ear, max(total, 1)
        self.before: tuple[int, float] = (0, 0.0)
        self.last: tuple[int, float] = (0, 0.0)

    def hear(self, share: float, pairs: int, seconds: float) -> None:
        if self.ear.stop():
            raise KeyboardInterrupt
        self.last = (self.before[0] + pairs, self.before[1] + seconds)
        self.ear.progress(Progress(self.last[0] / self.total, *self.last, of="pairs"))

    def next(self) -> None:
        self.before = self.last


def fold_sides(
    sides: Mapping[str, Side],
    names: Mapping[str, list[str]],
    units: pd.DataFrame,
    settings: Mapping[str, Any],
    listener: Listener,
    block: int = BLOCK,
) -> Folded:
    """Fold every pair of tables of one width; those of different widths have no pairs, which is told."""
    found = Folded(names, settings, units)
    wanted: list[tuple[Side, Side | None]] = []
    for one, other in combinations_with_replacement(sides.values(), 2):
        if one is other:
            wanted.append((one, None))
        elif TRAINED not in (one.name, other.name):
            widths = one.vectors.shape[1], other.vectors.shape[1]
            if widths[0] == widths[1]:
                wanted.append((one, other))
            else:
                found.notes.append(
                    f"Rows of {one.name} have {widths[0]} dimensions, those of {other.name} {widths[1]}, "
                    "so there are no pairs between them."
                )
    tell = _Tell(listener, sum(count_pairs(*each) for each in wanted))
    for one, given in wanted:
        found.fold(one, given, block, tell)
    return found
