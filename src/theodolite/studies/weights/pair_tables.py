"""Tables of what was found over all pairs: statistics, histograms, extreme pairs, close pairs, segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from theodolite.measures.pair_values import cosines, distances, dots, largest_differences, norms
from theodolite.studies.weights.bins import bins_of
from theodolite.studies.weights.extremes import Extremes
from theodolite.studies.weights.pairs import Metric, Side, exact_values

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


def pair_rows(left: str, right: str, metrics: dict[str, Metric]) -> list[dict[str, Any]]:
    """Return a row of statistics for every metric."""
    return [
        dict(zip(PAIRS, (left, right, name, m.n, m.mean, m.sd, m.smallest, m.largest), strict=True))
        for name, m in metrics.items()
    ]


def value_rows(
    left: str, right: str, metric: str, values: np.ndarray[Any, np.dtype[np.float64]]
) -> dict[str, Any]:
    """Return the same row for values that are all at hand; NaN are left out."""
    known = values[np.isfinite(values)]
    told = (known.mean(), known.std(), known.min(), known.max()) if len(known) else [float("nan")] * 4
    return dict(zip(PAIRS, (left, right, metric, len(known), *map(float, told)), strict=True))


def histogram_rows(left: str, right: str, metrics: dict[str, Metric]) -> pd.DataFrame:
    """Return the histograms of all metrics."""
    return pd.concat([_headed(m.bins.table(), left, right, name) for name, m in metrics.items()])


def value_histogram(
    left: str, right: str, metric: str, values: np.ndarray[Any, np.dtype[np.float64]]
) -> pd.DataFrame:
    """Return the histogram of values that are all at hand."""
    return _headed(bins_of(values), left, right, metric)


def extreme_rows(
    left: Side, right: Side, metrics: dict[str, Metric], names: Mapping[str, list[str]]
) -> pd.DataFrame:
    """Return the extreme pairs by name, their values by definition."""
    rows = []
    for name, metric in metrics.items():
        for extremes in metric.extremes:
            if extremes.floor is not None:
                continue
            pairs, values = listed(extremes, name, left, right)
            for rank, ((x, y), value) in enumerate(zip(pairs, values, strict=True), 1):
                called = (names[left.name][x], names[right.name][y])
                rows.append((left.name, right.name, name, extremes.which, rank, x, y, *called, value))
    return pd.DataFrame(rows, columns=EXTREMES)


def close_rows(words: Side, positions: Side, cosine: Metric, units: pd.DataFrame) -> pd.DataFrame:
    """Return the kept pairs of a token and a position whose |cosine| is above the floor, the largest first."""
    extremes = next(extremes for extremes in cosine.extremes if extremes.floor is not None)
    pairs, values = listed(extremes, "cosine", words, positions)
    ids, places = pairs[:, 0], pairs[:, 1]
    x, y = words.vectors.numpy()[ids], positions.vectors.numpy()[places]
    told = units.iloc[ids][["id", "unit", "name", "special"]].reset_index(drop=True)
    told = told.assign(position=places, cosine=values, dot=dots(x, y), distance=distances(x, y))
    told = told.assign(largest_difference=largest_differences(x, y), token_norm=norms(x), position_norm=norms(y))
    return told[CLOSE]


def listed(
    extremes: Extremes, metric: str, left: Side, right: Side
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """Return the pairs and their exact values, in order."""
    values = exact_values(metric, left, right, extremes.pairs)
    order = extremes.best(values)
    return extremes.pairs[order], values[order]


def segment_table(segments: Side) -> pd.DataFrame:
    """Return a row per pair of segments: norms, cosine, dot product, distance; alone, one has its norm only."""
    vectors = segments.vectors.numpy()
    one, other = np.triu_indices(len(vectors), 1)
    if not len(one):
        alone = norms(vectors)
        empty = [np.nan] * len(alone)
        return pd.DataFrame(
            {"one": range(len(alone)), "other": pd.array([None] * len(alone), dtype="Int64")}
        ).assign(one_norm=alone, other_norm=empty, cosine=empty, dot=empty, distance=empty)
    x, y = vectors[one], vectors[other]
    found = pd.DataFrame({"one": one, "other": pd.array(other, dtype="Int64")})
    return found.assign(
        one_norm=norms(x), other_norm=norms(y), cosine=cosines(x, y), dot=dots(x, y), distance=distances(x, y)
    )


def against_table(
    segments: Side, others: Sequence[Side], names: Mapping[str, list[str]], floor: float
) -> pd.DataFrame:
    """Return statistics of each segment vector's cosines with all rows of the other tables."""
    rows = []
    for number, vector in enumerate(segments.vectors.numpy()):
        for other in others:
            vectors = other.vectors.numpy()
            values = np.concatenate(
                [
                    cosines(block, np.broadcast_to(vector, block.shape))
                    for block in np.array_split(vectors, _few(vectors))
                ]
            )
            rows.append((number, other.name, *_told(values, names[other.name], floor)))
    return pd.DataFrame(rows, columns=AGAINST).astype({"smallest_row": "Int64", "largest_row": "Int64"})


def _few(vectors: np.ndarray[Any, Any]) -> int:
    return max(1, len(vectors) // 4096)


def _told(values: np.ndarray[Any, np.dtype[np.float64]], names: list[str], floor: float) -> tuple[Any, ...]:
    known = values[np.isfinite(values)]
    if not len(known):
        return (0, *[np.nan] * 3, 0, np.nan, None, None, np.nan, None, None)
    low, high = int(np.nanargmin(values)), int(np.nanargmax(values))
    spread = (len(known), known.mean(), known.std(), np.abs(known).mean(), int((np.abs(known) > floor).sum()))
    return (*spread, values[low], low, names[low], values[high], high, names[high])


def _headed(bins: pd.DataFrame, left: str, right: str, metric: str) -> pd.DataFrame:
    return bins.assign(left=left, right=right, metric=metric)[HISTOGRAMS]
