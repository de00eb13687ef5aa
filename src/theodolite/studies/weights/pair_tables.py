"""Tables over all pairs of rows: statistics, histograms, extreme pairs, close pairs and segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pandas as pd

from theodolite.engines.progress import Listener, Progress
from theodolite.measures.laboratories.table_pairs import cosines, distances, dots, largest_differences, norms
from theodolite.studies.weights.pair_statistics import Extremes, histogram_of
from theodolite.studies.weights.pairs import BLOCK, Metric, PairTable, all_pairs, count_pairs, exact_values

PAIRS = ["left", "right", "metric", "n", "mean", "sd", "smallest", "largest"]
HISTOGRAMS = ["left", "right", "metric", "low", "high", "count"]
EXTREMES = [
    "left",
    "right",
    "metric",
    "which",
    "rank",
    "left_row",
    "right_row",
    "left_name",
    "right_name",
    "value",
]
CLOSE = "id unit name special position cosine dot distance largest_difference token_norm position_norm".split()
AGAINST = (
    "segment against n mean sd mean_abs beyond "
    "smallest smallest_row smallest_name largest largest_row largest_name"
).split()
TRAINED_POSITIONS = "trained positions"
"""The positions before the untrained tail, if one was found; only pairs within this table are measured."""


def pair_rows(left: str, right: str, metrics: dict[str, Metric]) -> list[dict[str, Any]]:
    """Return one row of statistics per metric."""
    return [
        dict(zip(PAIRS, (left, right, name, m.n, m.mean, m.sd, m.smallest, m.largest), strict=True))
        for name, m in metrics.items()
    ]


def value_rows(
    left: str, right: str, metric: str, values: np.ndarray[Any, np.dtype[np.float64]]
) -> dict[str, Any]:
    """Return the same row for an array of values, ignoring NaN."""
    known = values[np.isfinite(values)]
    numbers = (known.mean(), known.std(), known.min(), known.max()) if len(known) else [float("nan")] * 4
    return dict(zip(PAIRS, (left, right, metric, len(known), *map(float, numbers)), strict=True))


def histogram_rows(left: str, right: str, metrics: dict[str, Metric]) -> pd.DataFrame:
    """Return the histograms of all metrics."""
    return pd.concat([_add_names(m.bins.table(), left, right, name) for name, m in metrics.items()])


def value_histogram(
    left: str, right: str, metric: str, values: np.ndarray[Any, np.dtype[np.float64]]
) -> pd.DataFrame:
    """Return the histogram of an array of values."""
    return _add_names(histogram_of(values), left, right, metric)


def extreme_rows(
    left: PairTable, right: PairTable, metrics: dict[str, Metric], names: Mapping[str, list[str]]
) -> pd.DataFrame:
    """Return the extreme pairs with the names of their rows and their exact values."""
    rows = []
    for name, metric in metrics.items():
        for extremes in metric.extremes:
            if extremes.floor is not None:
                continue
            pairs, values = ordered_extremes(extremes, name, left, right)
            for rank, ((x, y), value) in enumerate(zip(pairs, values, strict=True), 1):
                row_names = (names[left.name][x], names[right.name][y])
                rows.append((left.name, right.name, name, extremes.which, rank, x, y, *row_names, value))
    return pd.DataFrame(rows, columns=EXTREMES)


def close_rows(words: PairTable, positions: PairTable, cosine: Metric, units: pd.DataFrame) -> pd.DataFrame:
    """Return the kept pairs of a token and a position whose |cosine| is above the floor, largest first."""
    extremes = next(extremes for extremes in cosine.extremes if extremes.floor is not None)
    pairs, values = ordered_extremes(extremes, "cosine", words, positions)
    ids, places = pairs[:, 0], pairs[:, 1]
    x, y = words.vectors.numpy()[ids], positions.vectors.numpy()[places]
    table = units.iloc[ids][["id", "unit", "name", "special"]].reset_index(drop=True)
    table = table.assign(position=places, cosine=values, dot=dots(x, y), distance=distances(x, y))
    table = table.assign(largest_difference=largest_differences(x, y), token_norm=norms(x), position_norm=norms(y))
    return table[CLOSE]


def ordered_extremes(
    extremes: Extremes, metric: str, left: PairTable, right: PairTable
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """Return the pairs and their exact values, in order."""
    values = exact_values(metric, left, right, extremes.pairs)
    order = extremes.best(values)
    return extremes.pairs[order], values[order]


def segment_table(segments: PairTable) -> pd.DataFrame:
    """Return one row per pair of segments: norms, cosine, dot product, distance; only the norm if there is one."""
    vectors = segments.vectors.numpy()
    one, other = np.triu_indices(len(vectors), 1)
    if not len(one):
        single = norms(vectors)
        empty = [np.nan] * len(single)
        return pd.DataFrame(
            {"one": range(len(single)), "other": pd.array([None] * len(single), dtype="Int64")}
        ).assign(one_norm=single, other_norm=empty, cosine=empty, dot=empty, distance=empty)
    x, y = vectors[one], vectors[other]
    table = pd.DataFrame({"one": one, "other": pd.array(other, dtype="Int64")})
    return table.assign(
        one_norm=norms(x), other_norm=norms(y), cosine=cosines(x, y), dot=dots(x, y), distance=distances(x, y)
    )


def against_table(
    segments: PairTable, others: Sequence[PairTable], names: Mapping[str, list[str]], floor: float
) -> pd.DataFrame:
    """Return statistics of the cosines of each segment vector with all rows of the other tables."""
    rows = []
    for number, vector in enumerate(segments.vectors.numpy()):
        for other in others:
            vectors = other.vectors.numpy()
            values = np.concatenate(
                [
                    cosines(block, np.broadcast_to(vector, block.shape))
                    for block in np.array_split(vectors, _block_count(vectors))
                ]
            )
            rows.append((number, other.name, *_cosine_summary(values, names[other.name], floor)))
    return pd.DataFrame(rows, columns=AGAINST).astype({"smallest_row": "Int64", "largest_row": "Int64"})


def _block_count(vectors: np.ndarray[Any, Any]) -> int:
    return max(1, len(vectors) // 4096)


def _cosine_summary(
    values: np.ndarray[Any, np.dtype[np.float64]], names: list[str], floor: float
) -> tuple[Any, ...]:
    known = values[np.isfinite(values)]
    if not len(known):
        return (0, *[np.nan] * 3, 0, np.nan, None, None, np.nan, None, None)
    low, high = int(np.nanargmin(values)), int(np.nanargmax(values))
    spread = (len(known), known.mean(), known.std(), np.abs(known).mean(), int((np.abs(known) > floor).sum()))
    return (*spread, values[low], low, names[low], values[high], high, names[high])


def _add_names(bins: pd.DataFrame, left: str, right: str, metric: str) -> pd.DataFrame:
    return bins.assign(left=left, right=right, metric=metric)[HISTOGRAMS]


@dataclass
class PairFindings:
    """Collects the findings over all pairs of tables."""

    names: Mapping[str, list[str]]  # names of the rows by table
    settings: Mapping[str, Any]
    units: pd.DataFrame
    pairs: list[dict[str, Any]] = field(default_factory=list)
    histograms: list[pd.DataFrame] = field(default_factory=list)
    extremes: list[pd.DataFrame] = field(default_factory=list)
    close: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=CLOSE))
    beyond: int | None = None  # pairs of a token and a position with |cosine| above the setting `above`
    notes: list[str] = field(default_factory=list)

    def fold(self, one: PairTable, second: PairTable | None, block: int, progress: _FoldProgress) -> None:
        """Add all pairs of two tables, or within one."""
        other = second or one
        crossing = one.name == "words" and other.name == "positions"
        above = self.settings["above"] if crossing else None
        metrics = all_pairs(
            one, second, most=self.settings["most"], above=above, block=block, report=progress.report
        )
        progress.start_next()
        self.pairs += pair_rows(one.name, other.name, metrics)
        self.histograms.append(histogram_rows(one.name, other.name, metrics))
        self.extremes.append(extreme_rows(one, other, metrics, self.names))
        if crossing:
            self.close = close_rows(one, other, metrics["cosine"], self.units)
            self.beyond = metrics["cosine"].beyond

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables by name."""
        return {
            "pairs": pd.DataFrame(self.pairs, columns=PAIRS),
            "histograms": pd.concat(self.histograms, ignore_index=True),
            "extremes": pd.concat(self.extremes, ignore_index=True),
            "close": self.close,
        }


class _FoldProgress:
    """Reports the progress over all pairs of tables."""

    def __init__(self, listener: Listener, total: int) -> None:
        self.listener, self.total = listener, max(total, 1)
        self.before: tuple[int, float] = (0, 0.0)
        self.last: tuple[int, float] = (0, 0.0)

    def report(self, share: float, pairs: int, seconds: float) -> None:
        if self.listener.stop():
            raise KeyboardInterrupt
        self.last = (self.before[0] + pairs, self.before[1] + seconds)
        self.listener.progress(Progress(self.last[0] / self.total, *self.last, unit="pairs"))

    def start_next(self) -> None:
        self.before = self.last


def fold_tables(
    tables: Mapping[str, PairTable],
    names: Mapping[str, list[str]],
    units: pd.DataFrame,
    settings: Mapping[str, Any],
    listener: Listener,
    block: int = BLOCK,
) -> PairFindings:
    """Measure every pair of tables of equal width; a note reports tables of different widths."""
    findings = PairFindings(names, settings, units)
    pairs: list[tuple[PairTable, PairTable | None]] = []
    for one, other in combinations_with_replacement(tables.values(), 2):
        if one is other:
            pairs.append((one, None))
        elif TRAINED_POSITIONS not in (one.name, other.name):
            widths = one.vectors.shape[1], other.vectors.shape[1]
            if widths[0] == widths[1]:
                pairs.append((one, other))
            else:
                findings.notes.append(
                    f"Rows of {one.name} have {widths[0]} dimensions, those of {other.name} {widths[1]}, "
                    "so pairs between them are not measured."
                )
    progress = _FoldProgress(listener, sum(count_pairs(*pair) for pair in pairs))
    for one, second in pairs:
        findings.fold(one, second, block, progress)
    return findings
