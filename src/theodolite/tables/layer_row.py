"""One row of layers.parquet: every number of one layer and population."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.devices import to_device
from theodolite.measures.columns import NO_UNITS
from theodolite.measures.coordinates import cosine_shares, rogue
from theodolite.measures.cosine import mean_cosine
from theodolite.measures.decomposition import UnitMoments, frequent, unit_moments
from theodolite.measures.norms import norm_quantiles
from theodolite.measures.rare_units import estimated_share
from theodolite.measures.resampling import SHARES
from theodolite.measures.unit_fits import (
    ROUNDING,
    bootstrap_errors,
    coefficient_of_variation,
    correct_slope,
    fit_line,
)
from theodolite.measures.unit_sums import Sums
from theodolite.statistics.cells import MASSIVE_CELLS
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.moments import UnitSums
from theodolite.statistics.norms import bin_edges
from theodolite.tables import contextuality
from theodolite.tables.document_groups import GroupEstimates, estimate_without_groups
from theodolite.tables.layer_scores import score_layer
from theodolite.tables.rare_units import RarePart, find_rare
from theodolite.tables.shape import Shape, measure_shape
from theodolite.tables.unit_sets import COUNTS, FEW_UNITS, SET_COLUMNS, WITH_RARE, set_counts, set_sums

OUT_OF_BINS = "norms below 2^-40 or above 2^60 are not in the histogram"
PARTS = ("q", "m", "v", "v_within", "v_between")
CORRECTED = ("tradeoff_slope_corrected", "tradeoff_slope_corrected_se")
FITS = ("q_cv", "tradeoff_slope", "tradeoff_r2", "q_cv_se", "tradeoff_slope_se", "tradeoff_r2_se")


class LayerRow:
    """Numbers by column, and the reason for each undefined one; numbers that are not finite become null."""

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

    def to_dict(self) -> dict[str, Any]:
        """Return the row, reasons as JSON in `undefined`."""
        return {**self.values, "undefined": json.dumps(self.reasons) if self.reasons else None}


Measured = tuple[dict[str, Any], UnitSums, UnitMoments, NDArray[np.float64], pd.DataFrame]


def make_layer_row(
    fold: LayerFold,
    cells: Sequence[int],
    *,
    with_units: bool = True,
    special: Collection[int] = (),
    shape: Shape | None = None,
    moved: Mapping[int, Tensor] | None = None,
    names: Tensor | None = None,
    sample: Mapping[str, Tensor] | None = None,
) -> Measured:
    """Measure one population of a layer: its row; sums, moments and self-similarity by unit; jackknife estimates.

    `special` are the codes of special units. Self-similarity is NaN if it was not computed. `shape` is that of
    these cells, if known, and `moved` the sums by unit if they are on a device. `names` are those of `find_rare`;
    `sample` is that of the cells, if known.
    """
    sample = fold.sample.population(cells) if sample is None else sample
    sums = fold.moments.population(cells, moved)
    n, total, squares, centre = (
        sums.n.numpy(),
        sums.readable,
        sums.squares.numpy(),
        sums.centre.numpy(),
    )
    row = LayerRow()
    units = unit_moments(n, total, squares, centre)
    rare = find_rare(fold, cells, sums, units, names)
    positions, types = (
        (int(n.sum()), len(n)) if rare is None else (int(n.sum()) + rare.n, len(n) + len(rare.sums.n))
    )
    row.values |= {"n": positions, "types": types if with_units else None, "dim": fold.frame.dim}
    kinds = np.isin(sums.codes.numpy(), list(special))
    if positions:
        _add_decomposition(row, n, total, centre, units, kinds if with_units else None, rare)
    else:
        row.undefined("no position belongs to this population", [*PARTS, *SET_COLUMNS, *FITS])
        row.values |= dict.fromkeys(COUNTS.values(), 0)
    estimated = 0.0 if rare is None else estimated_share(rare.sums.n.numpy(), positions)
    row.put(NO_UNITS, v_within_estimated_share=estimated if with_units else float("nan"))
    _add_corrected_slope(row, sample, sums, units, rare)
    _add_directions(row, fold, cells)
    _add_shape(row, shape or measure_shape(fold, cells, sample=sample))
    _add_norms(row, fold, cells)
    estimates = estimate_without_groups(fold, cells, sums, units, kinds if with_units else None, rare)
    _add_errors(row, estimates)
    if rare is not None and with_units:
        _add_sampling_errors(row, rare, positions, int(n[kinds].sum()))
    similarity = contextuality.self_similarity_by_unit(fold, cells, sums.codes.numpy())
    _add_contextuality(row, fold, cells, sums, similarity, special if with_units else None)
    for reason, numbers in score_layer(fold, cells, sums, kinds if with_units else None):
        row.put(reason, **numbers)
    return row.to_dict(), sums, units, similarity, estimates.table()


def _add_decomposition(
    row: LayerRow,
    n: NDArray[np.int64],
    total: Sums,
    centre: NDArray[np.float64],
    units: UnitMoments,
    special: NDArray[np.bool_] | None,
    rare: RarePart | None = None,
) -> None:
    """Add Q, M and V over all units and over sets of units; `special` is None if the vectors have no units."""
    for reason, numbers in set_sums(n, total, centre, units, special, rare):
        row.put(reason, **numbers)
    if special is None:
        row.undefined(NO_UNITS, ["types", "v_within", "v_between", *COUNTS.values(), *SET_COLUMNS, *FITS])
        return
    row.values |= set_counts(n, special, rare)
    used = frequent(n if rare is None else rare.certain_counts(n))
    if used.sum() < 3:
        row.undefined(FEW_UNITS, FITS)
    else:
        m, v = units.m[used], units.v[used]
        v = np.where(
            v <= ROUNDING * (m + v), 0.0, v
        )  # values that rounding cannot distinguish from 0 have no slope
        fit = fit_line(m, v)
        row.put("the mean of Q is 0", q_cv=coefficient_of_variation(units.q[used]))
        flat = "V is 0 for every unit" if not v.any() else "M or V is the same for every unit"
        slope = float("nan") if not v.any() else fit.slope
        row.put(flat, tradeoff_slope=slope, tradeoff_r2=fit.r2)
        order = np.lexsort((v, m))  # so that the bootstrap does not depend on the numbering of units
        errors = bootstrap_errors(m[order], v[order], device=total.device if isinstance(total, Tensor) else None)
        row.put(flat, **{name: error for name, error in errors.items() if name == "q_cv_se" or np.isfinite(slope)})
        row.undefined(flat, [name for name in errors if name not in row.values])


def _add_corrected_slope(
    row: LayerRow,
    sample: Mapping[str, Tensor],
    sums: UnitSums,
    units: UnitMoments,
    rare: RarePart | None = None,
) -> None:
    """Add the slope of V on M without the effect of noise, which the vectors of the sample estimate."""
    if row.values.get("tradeoff_slope") is None:
        row.undefined(row.reasons.get("tradeoff_slope", "no slope"), CORRECTED)
        return
    used = frequent(sums.n.numpy() if rare is None else rare.certain_counts(sums.n.numpy()))
    if not sample:
        row.undefined("the sample is empty", CORRECTED)
        return
    place = torch.searchsorted(sums.codes, sample["unit"]).clamp_(max=len(sums.codes) - 1)  # codes are sorted
    kept = torch.from_numpy(used)[place] & (sums.codes[place] == sample["unit"])
    rows, device = place[kept], sums.sum.device
    of_fit = kept.nonzero().squeeze(1)
    vectors = to_device(sample["vector"][to_device(of_fit, sample["vector"].device)], device).double()
    n, centre = (to_device(part, device) for part in (sums.n[rows].double()[:, None], sums.centre))
    means = sums.sum[to_device(rows, device)] / n + centre
    fit_unit = np.cumsum(used)[rows.numpy()] - 1
    found = correct_slope(
        sums.n.numpy()[used],
        units.m[used],
        units.v[used],
        unit=fit_unit,
        means=means if device.type != "cpu" else means.numpy(),
        vectors=vectors if device.type != "cpu" else vectors.numpy(),
    )
    row.put(found.reason or "not finite", **dict(zip(CORRECTED, found[:2], strict=True)))


def _add_contextuality(
    row: LayerRow,
    fold: LayerFold,
    cells: Sequence[int],
    sums: UnitSums,
    similarity: NDArray[np.float64],
    special: Collection[int] | None,
) -> None:
    """Add the contextuality columns; `special` is None if the vectors have no units."""
    columns = [*contextuality.REASONS, *contextuality.COUNTS]
    if special is None or fold.contextuality is None:
        row.undefined(NO_UNITS if special is None else contextuality.NOT_KEPT, columns)
        return
    codes = np.array(sorted(special), dtype=np.int64)
    numbers = contextuality.contextuality_of_layer(
        fold,
        cells,
        sums.n.numpy(),
        similarity,
        np.isin(sums.codes.numpy(), codes),
        codes,
        mean_cosine=_number(row, "mean_cosine"),
        anisotropy=_number(row, "anisotropy_svd"),
    )
    for column, number in numbers.items():
        row.put(contextuality.REASONS.get(column, ""), **{column: number})


def _number(row: LayerRow, column: str) -> float:
    value = row.values[column]
    return float("nan") if value is None else float(value)


def _add_directions(row: LayerRow, fold: LayerFold, cells: Sequence[int]) -> None:
    chosen = list(cells)
    n = int(fold.directions.n[chosen].sum())
    total, squares = (part[chosen].sum(0).numpy() for part in (fold.directions.sum, fold.directions.squares))
    row.put("fewer than two vectors have a direction", mean_cosine=mean_cosine(n, total))
    found = rogue(cosine_shares(n, total, squares))
    columns = {"rogue_coordinate": found.coordinate, "rogue_cosine_share": found.share, "rogue_half": found.half}
    reason = "the mean cosine is 0" if n > 1 else "fewer than two vectors have a direction"
    row.put(reason, **{name: float("nan") if value is None else value for name, value in columns.items()})


def _add_shape(row: LayerRow, shape: Shape) -> None:
    for reason, numbers in shape.numbers:
        row.put(reason, **numbers)
    row.values |= shape.counts


def _add_norms(row: LayerRow, fold: LayerFold, cells: Sequence[int]) -> None:
    chosen, norms = list(cells), fold.norms
    zero = int(norms.zero[chosen].sum())
    lowest, highest = float(norms.lowest[chosen].min()), float(norms.highest[chosen].max())
    quantiles = norm_quantiles(norms.counts[chosen].sum(0).numpy(), bin_edges().numpy(), zero, lowest, highest)
    row.put("no vectors", norm_min=lowest, norm_max=highest)
    row.put(OUT_OF_BINS if np.isfinite(highest) else "no vectors", **quantiles)
    massive = [cell for cell in chosen if cell in MASSIVE_CELLS]
    row.values |= {
        "zero": zero,
        "nonfinite": int(norms.nonfinite[chosen].sum()),
        "massive": int((norms.counts[massive].sum() + norms.zero[massive].sum()).item()) if massive else 0,
    }


def _add_errors(row: LayerRow, estimates: GroupEstimates) -> None:
    """Add jackknife errors over non-empty groups of documents."""
    for column, (error, reason) in estimates.errors().items():
        row.put(reason, **{f"{column}_se": error})


def _add_sampling_errors(row: LayerRow, rare: RarePart, positions: int, special: int) -> None:
    """Combine the errors of V_W, V_B and their shares with that of the estimate for units without a vector."""
    for prefix, n in zip(WITH_RARE, (positions, positions - special), strict=True):
        error = rare.spread.se / max(n, 1)
        below = {"v_within": 1.0, "v_between": 1.0} | {
            share: row.values.get(f"{prefix}{parts[1]}") for share, parts in SHARES.items() if parts[0] != "m"
        }
        for name, size in below.items():
            if (known := row.values.get(f"{prefix}{name}_se")) is not None and size:
                row.values[f"{prefix}{name}_se"] = float(np.hypot(known, error / size))
