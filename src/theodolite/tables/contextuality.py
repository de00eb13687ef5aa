"""The contextuality columns of a layer, from the statistics that --contextuality adds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.contextuality import (
    MIN_OCCURRENCES,
    chance_explainable_variance,
    explainable_variance,
    mean_and_error,
    mean_of_sums,
    mean_over_units,
    self_similarity,
)
from theodolite.measures.decomposition import UnitMoments, clustered
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.moments import UnitSums

SELF = "self_similarity self_similarity_se self_similarity_adjusted".split()
INTRA = "intra_similarity intra_similarity_se intra_similarity_adjusted".split()
MEV = "mev mev_se mev_adjusted mev_chance".split()
COUNTS = "self_similarity_units intra_similarity_windows mev_units".split()
NOT_KEPT = "the survey was made without --contextuality"
REASONS = (
    dict.fromkeys(SELF, f"fewer than two units that are not special occur {MIN_OCCURRENCES} times")
    | dict.fromkeys(INTRA, "fewer than two windows have two vectors")
    | dict.fromkeys(MEV, f"fewer than two units that are not special have {MIN_OCCURRENCES} occurrences kept")
)


def self_similarity_by_unit(
    fold: LayerFold, cells: Sequence[int], codes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the self-similarity of these units; NaN where there is none or it was not kept. (units,)"""
    values = np.full(len(codes), np.nan)
    if fold.contextuality is not None:
        known, n, total = (tensor.numpy() for tensor in fold.contextuality.population(cells))
        values[np.isin(codes, known)] = self_similarity(n, total)  # both are in the order of codes
    return values


def clustered_by_unit(
    fold: LayerFold, cells: Sequence[int], sums: UnitSums, units: UnitMoments
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return M_c and V_c of these units; NaN where there is none or it was not kept. (units,) each"""
    m, v = np.full((2, len(sums.codes)), np.nan)
    if fold.clusters is not None:
        codes, pairs, squares = (tensor.numpy() for tensor in fold.clusters.population(cells))
        known = np.isin(sums.codes.numpy(), codes)  # no unit is, in surveys of older versions
        m[known], v[known] = clustered(sums.n.numpy()[known], units.q[known], units.m[known], pairs, squares)
    return m, v


def contextuality_of_layer(
    fold: LayerFold,
    cells: Sequence[int],
    n: NDArray[np.int64],
    similarity: NDArray[np.float64],
    special: NDArray[np.bool_],
    special_codes: NDArray[np.int64],
    *,
    mean_cosine: float,
    anisotropy: float,
) -> dict[str, float]:
    """Return the layer's numbers, and the counts they rest on. n, similarity, special: (units,)"""
    mean, error, units = mean_over_units(similarity, (n >= MIN_OCCURRENCES) & ~special)
    numbers: dict[str, float] = dict(zip(SELF, (mean, error, mean - mean_cosine), strict=True))
    mean, error, windows = _similarity_within_windows(fold, cells)
    numbers |= dict(zip(INTRA, (mean, error, mean - mean_cosine), strict=True))
    mean, error, explained, chance = _explained_variance(fold, cells, special_codes)
    numbers |= dict(zip(MEV, (mean, error, mean - anisotropy, chance), strict=True))
    return numbers | dict(zip(COUNTS, (units, windows, explained), strict=True))


def _similarity_within_windows(fold: LayerFold, cells: Sequence[int]) -> tuple[float, float, int]:
    assert fold.sentences is not None
    number = population_number(fold, cells)
    windows = int(fold.sentences.n[number])
    sums = float(fold.sentences.sum[number]), float(fold.sentences.squares[number])
    return *mean_of_sums(windows, *sums), windows


def population_number(fold: LayerFold, cells: Sequence[int]) -> int:
    """Return the number of the population that these cells are all there is of."""
    held = [{cell for cell in wanted if fold.holds(cell)} for wanted in POPULATIONS.values()]
    return held.index({cell for cell in cells if fold.holds(cell)})


def _explained_variance(
    fold: LayerFold, cells: Sequence[int], special_codes: NDArray[np.int64]
) -> tuple[float, float, int, float]:
    assert fold.occurrences is not None
    rows = fold.occurrences.population(cells)
    if not rows:
        return float("nan"), float("nan"), 0, float("nan")
    units, vectors = rows["unit"].numpy(), rows["vector"].double().numpy()
    known, counts = np.unique(units, return_counts=True)
    chosen = known[(counts >= MIN_OCCURRENCES) & ~np.isin(known, special_codes)]
    values = np.array([explainable_variance(vectors[units == code]) for code in chosen])
    sizes = counts[np.isin(known, chosen)]
    sample = fold.sample.population(cells)
    chance = chance_explainable_variance(sizes, sample["vector"].double().numpy()) if sample else float("nan")
    return *mean_and_error(values), chance
