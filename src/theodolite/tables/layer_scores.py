"""The columns that --layer-scores adds to a layer: LiDAR, prompt entropy and curvature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import from_numpy

from theodolite.measures.columns import FEW_FREQUENT, FEW_GROUPS, NO_UNITS, NOT_SCORED
from theodolite.measures.decomposition import frequent_text
from theodolite.measures.layer_scores import NO_SPREAD, lidar, mean_curvature, mean_entropy, spread_of_units
from theodolite.measures.spectrum import PRODUCT_ROUNDING
from theodolite.measures.uncertainty import Estimate
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.moments import UnitSums
from theodolite.tables.contextuality import population_number
from theodolite.tables.shape import TOO_WIDE, Numbers

WITHOUT_VECTOR = "some units have no vector (--min-count)"
AVERAGED = {"prompt_entropy": ("entropy", mean_entropy), "curvature": ("curvature", mean_curvature)}
COUNTS = tuple(f"{name}_windows" for name in AVERAGED)
COLUMNS = ("lidar", *(f"{name}{ending}" for name in AVERAGED for ending in ("", "_se", "_windows")))
FEWEST_UNITS = 3


def score_layer(
    fold: LayerFold, cells: Sequence[int], sums: UnitSums, special: NDArray[np.bool_] | None
) -> Iterator[Numbers]:
    """Yield the numbers by column, with the reason for those that are NaN.

    `special` says which units are special; None if the vectors have no units. (units,)
    """
    if not fold.frame.layer_scores:
        yield NOT_SCORED, dict.fromkeys(COLUMNS, float("nan"))
        return
    rank = _lidar(fold, cells, sums, special)
    yield rank.reason or "not finite", {"lidar": rank.value}
    if fold.sequences is None:
        yield TOO_WIDE, dict.fromkeys(COLUMNS[1:], float("nan"))
        return
    number = population_number(fold, cells)
    for name, (field, measure) in AVERAGED.items():
        n, total = (getattr(fold.sequences, key)[number].numpy() for key in (f"{field}_n", field))
        found = measure(n, total)
        yield found.reason or "", {name: found.value}
        yield found.reason or FEW_GROUPS, {f"{name}_se": found.se}
        yield "", {f"{name}_windows": int(n.sum())}


def _lidar(fold: LayerFold, cells: Sequence[int], sums: UnitSums, special: NDArray[np.bool_] | None) -> Estimate:
    if fold.wide or special is None or fold.frame.kept is not None:
        reason = TOO_WIDE if fold.wide else NO_UNITS if special is None else WITHOUT_VECTOR
        return Estimate.undefined(reason)
    used = frequent_text(sums.n.numpy(), special)
    if used.sum() < FEWEST_UNITS:
        return Estimate.undefined(f"{FEW_FREQUENT} that are not special")
    device = sums.sum.device
    _, covariance = fold.scatter.covariance(cells, str(device))
    between, of_used = spread_of_units(sums.n.double().to(device), sums.sum, from_numpy(used).to(device))
    rounding = PRODUCT_ROUNDING * float(covariance.trace()) / np.sqrt(fold.frame.dim)
    value = lidar(covariance.to(device) - between, of_used, rounding=rounding)
    return Estimate(value) if np.isfinite(value) else Estimate.undefined(NO_SPREAD)
