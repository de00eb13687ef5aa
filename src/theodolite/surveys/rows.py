"""One row of layers.parquet: everything that is said of one layer and population."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.cosine import mean_cosine
from theodolite.measures.decomposition import UnitMoments, decomposition, frequent, unit_moments
from theodolite.measures.jackknife import jackknife
from theodolite.measures.norms import norm_quantiles
from theodolite.measures.spectrum import (
    anisotropy_svd,
    effective_rank,
    eigenvalues,
    iso_score,
    participation_ratio,
)
from theodolite.measures.tradeoff import bootstrap, coefficient_of_variation, line
from theodolite.measures.twonn import twonn
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.moments import UnitSums
from theodolite.statistics.norms import bin_edges

NO_UNITS = "the vectors belong to no units"
FEW_UNITS = "fewer than three units with 1 <= log10 n <= 5"
PARTS = ("q", "m", "v", "v_within", "v_between")
FITS = ("q_cv", "tradeoff_slope", "tradeoff_r2", "q_cv_se", "tradeoff_slope_se", "tradeoff_r2_se")
MASSIVE_CELLS = (2, 3)


class Row:
    """Numbers by column, and for each that is undefined the reason; a number that is not finite becomes null."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.reasons: dict[str, str] = {}

    def put(self, reason: str, **numbers: float) -> None:
        """Set numbers; those that are NaN or infinite become null for the reason given."""
        for column, number in numbers.items():
            if np.isfinite(number):
                self.values[column] = number
            else:
                self.values[column] = None
                self.reasons[column] = reason

    def undefined(self, reason: str, columns: Sequence[str]) -> None:
        """Set columns to null."""
        self.put(reason, **dict.fromkeys(columns, float("nan")))

    def finished(self) -> dict[str, Any]:
        """Return the row, reasons as JSON in `undefined`."""
        return {**self.values, "undefined": json.dumps(self.reasons) if self.reasons else None}


Measured = tuple[dict[str, Any], UnitSums, UnitMoments]


def layer_row(fold: LayerFold, cells: Sequence[int], *, with_units: bool = True) -> Measured:
    """Measure one layer's population; also return what tokens.parquet is made of."""
    sums = fold.moments.population(cells)
    n, total, squares, centre = (
        sums.n.numpy(),
        sums.sum.numpy(),
        sums.squares.numpy(),
        sums.centre.numpy(),
    )
    row = Row()
    row.values |= {"n": int(n.sum()), "types": len(n) if with_units else None, "dim": fold.frame.dim}
    units = unit_moments(n, total, squares, centre)
    if len(n):
        _add_decomposition(row, n, total, squares, centre, units, with_units)
    else:
        row.undefined("no position belongs to this population", [*PARTS, *(f"filtered_{p}" for p in PARTS), *FITS])
        row.values["units_used"] = 0
    _add_directions(row, fold, cells)
    _add_spectrum(row, fold, cells)
    _add_dimension(row, fold, cells)
    _add_norms(row, fold, cells)
    _add_errors(row, fold, cells)
    return row.finished(), sums, units


def _add_decomposition(
    row: Row,
    n: NDArray[np.int64],
    total: NDArray[np.float64],
    squares: NDArray[np.float64],
    centre: NDArray[np.float64],
    units: UnitMoments,
    with_units: bool,
) -> None:
    whole = decomposition(n, total, squares, centre, units.v)
    row.put("not finite", **whole._asdict())
    used = frequent(n)
    row.values["units_used"] = int(used.sum()) if with_units else None
    filtered = [f"filtered_{part}" for part in PARTS]
    if not with_units:
        row.undefined(NO_UNITS, ["types", "units_used", "v_within", "v_between", *filtered, *FITS])
    elif used.sum() < 3:
        row.undefined(FEW_UNITS, [*filtered, *FITS])
    else:
        kept = decomposition(n[used], total[used], squares[used], centre, units.v[used])
        row.put("not finite", **dict(zip(filtered, kept, strict=True)))
        m, v = units.m[used], units.v[used]
        fit = line(m, v)
        row.put("the mean of Q is 0", q_cv=coefficient_of_variation(units.q[used]))
        flat = "V is 0 for every unit" if not v.any() else "M or V is the same for every unit"
        slope = float("nan") if not v.any() else fit.slope
        row.put(flat, tradeoff_slope=slope, tradeoff_r2=fit.r2)
        order = np.lexsort((v, m))  # so that the draws do not depend on how units happen to be numbered
        errors = bootstrap(m[order], v[order])
        row.put(flat, **{name: error for name, error in errors.items() if name == "q_cv_se" or np.isfinite(slope)})
        row.undefined(flat, [name for name in errors if name not in row.values])


def _add_directions(row: Row, fold: LayerFold, cells: Sequence[int]) -> None:
    chosen = list(cells)
    n = int(fold.directions.n[chosen].sum())
    row.put(
        "fewer than two vectors have a direction",
        mean_cosine=mean_cosine(n, fold.directions.sum[chosen].sum(0).numpy()),
    )


def _add_spectrum(row: Row, fold: LayerFold, cells: Sequence[int]) -> None:
    n, covariance = fold.scatter.covariance(cells)
    columns = ["anisotropy_svd", "participation_ratio", "effective_rank", "iso_score"]
    if n < 2:
        row.undefined("fewer than two vectors", columns)
        return
    spectrum = eigenvalues(covariance.numpy())
    row.put(
        "all vectors are equal",
        anisotropy_svd=anisotropy_svd(spectrum),
        participation_ratio=participation_ratio(spectrum),
        effective_rank=effective_rank(spectrum),
        iso_score=iso_score(spectrum),
    )


def _add_dimension(row: Row, fold: LayerFold, cells: Sequence[int]) -> None:
    sample = fold.sample.population(cells)
    if not sample:
        row.undefined("the sample is empty", ["twonn", "twonn_se"])
        row.values |= {"twonn_n": 0, "sample_duplicates": 0}
        return
    estimate = twonn(sample["vector"], contexts=sample["context"])
    row.put(estimate.reason or "not finite", twonn=estimate.keep90, twonn_se=estimate.se)
    row.values |= {"twonn_n": estimate.n, "sample_duplicates": estimate.duplicates}


def _add_norms(row: Row, fold: LayerFold, cells: Sequence[int]) -> None:
    chosen, norms = list(cells), fold.norms
    zero = int(norms.zero[chosen].sum())
    lowest, highest = float(norms.lowest[chosen].min()), float(norms.highest[chosen].max())
    quantiles = norm_quantiles(norms.counts[chosen].sum(0).numpy(), bin_edges().numpy(), zero, lowest, highest)
    row.put("no vectors", norm_min=lowest, **quantiles, norm_max=highest)
    massive = [cell for cell in chosen if cell in MASSIVE_CELLS]
    row.values |= {
        "zero": zero,
        "nonfinite": int(norms.nonfinite[chosen].sum()),
        "massive": int((norms.counts[massive].sum() + norms.zero[massive].sum()).item()) if massive else 0,
    }


def _add_errors(row: Row, fold: LayerFold, cells: Sequence[int]) -> None:
    """Jackknife q, m, v and the mean cosine over the document groups that hold anything."""
    chosen, groups = list(cells), fold.groups
    n = groups.n[chosen].sum(0).numpy()
    held = n > 0
    n, total, squares, directed, directions = (
        tensor[chosen].sum(0).numpy()[held]
        for tensor in (groups.n, groups.sum, groups.squares, groups.directed, groups.directions)
    )
    centre = fold.frame.centre.double().numpy()

    def without(group: int) -> NDArray[np.float64]:
        rest = np.arange(len(n)) != group
        mean = total[rest].sum(0) / n[rest].sum()
        v = max(squares[rest].sum() / n[rest].sum() - mean @ mean, 0.0)
        m = np.square(mean + centre).sum()
        return np.array([m + v, m, v, mean_cosine(int(directed[rest].sum()), directions[rest].sum(0))])

    errors = jackknife(len(n), without) if len(n) > 1 else np.full(4, np.nan)
    names = ("q_se", "m_se", "v_se", "mean_cosine_se")
    row.put("fewer than two groups of documents", **dict(zip(names, errors.tolist(), strict=True)))
