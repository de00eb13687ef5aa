"""Numbers about the shape of one population: exact ones from the covariance, others from the sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.devices import to_device
from theodolite.measures import spectrum as spectra
from theodolite.measures.batches import (
    ONE_BATCH,
    average_batches,
    batch_anisotropy,
    explain_too_few,
    split_batches,
)
from theodolite.measures.coordinates import rogue
from theodolite.measures.cosine import PARTITION_VECTORS, partition_isotropy_log, sampled_cosine
from theodolite.measures.intrinsic_dimension import (
    SCALES,
    TwoNN,
    gride,
    hubness,
    levina_bickel,
    scale_jump,
    twonn,
    twonn_from_distances,
)
from theodolite.measures.layer_scores import FEW_RANKS, alpha_req, rankme
from theodolite.measures.neighbours import Neighbourhood, neighbourhood
from theodolite.measures.projection import principal_coordinates
from theodolite.measures.uncertainty import Estimate
from theodolite.statistics.fold import MAX_MATRIX_DIM, LayerFold
from theodolite.tables.curves import scale_curve, spectrum_curve
from theodolite.tables.eigenproblems import LayerSolutions, solve_population

Array = NDArray[np.float64]
Numbers = tuple[str, dict[str, float]]
"""The reason for undefined values (NaN or infinite), and the numbers by column."""

SPECTRAL = (
    "anisotropy_svd participation_ratio effective_rank effective_rank_singular iso_score "
    "pca_dim_90 pca_dim_95 pca_dim_99 alpha_req rogue_variance_coordinate rogue_variance_share"
).split()
SAMPLED = (
    "sampled_cosine sampled_cosine_se partition_isotropy partition_isotropy_log "
    "anisotropy_svd_shuffled anisotropy_svd_shuffled_sd twonn twonn_se twonn_ml twonn_ml_se twonn_keep20 "
    "twonn_batch twonn_batch_sd scale_jump mle_dim mle_dim_se hubness_skew hubness_skew_se"
).split()
UNCENTRED = "stable_rank rankme".split()  # from the second moment
ROGUE = "rogue_coordinate rogue_cosine_share rogue_half".split()  # of the mean cosine, from sums of directions
GRAM = "sample_anisotropy_svd sample_participation_ratio sample_effective_rank".split()
SHAPE = [*SPECTRAL, *UNCENTRED, *SAMPLED, *GRAM]
COUNTS = ["twonn_n", "sample_duplicates", "sample_near_duplicates"]
EMPTY = "the sample is empty"
TOO_WIDE = f"vectors of more than {MAX_MATRIX_DIM:,} coordinates are too wide for a covariance matrix"
UNDERFLOW = "the squares of the vectors are too small for float32"
NARROW = "reported exactly in the column of the same name without sample_"


@dataclass(frozen=True)
class Shape:
    """Columns of layers.parquet with their reasons, and rows of scales.parquet and spectra.parquet."""

    numbers: list[Numbers]
    counts: dict[str, int]
    scales: pd.DataFrame
    spectrum: pd.DataFrame


def measure_shape(
    fold: LayerFold,
    cells: Sequence[int],
    device: str | None = None,
    sample: Mapping[str, Tensor] | None = None,
    wait_for_solutions: Callable[[], LayerSolutions | None] = lambda: None,
) -> Shape:
    """Measure the union of the cells: two eigenproblems of dim x dim or of n x n, and all pairs of the sample.

    With a device, both are computed there. `sample` is that of the cells, if it is known. `wait_for_solutions`
    returns the solved eigenproblems of the layer; it is called when everything else has been computed.
    """
    sample = fold.sample.population(cells) if sample is None else sample
    if not sample:
        centred, directions, numbers = _spectral(fold, cells, device, wait_for_solutions)
        nothing = dict.fromkeys((*SAMPLED, *GRAM), float("nan"))
        return Shape(
            [*numbers, (EMPTY, nothing)], dict.fromkeys(COUNTS, 0), scale_curve(), spectrum_curve(centred)
        )
    vectors, contexts = sample["vector"], sample["context"]
    gram = _gram(vectors) if fold.wide else (NARROW, dict.fromkeys(GRAM, float("nan")))
    raw = _on_device(principal_coordinates(vectors, centred=False) if fold.wide else vectors, device)
    vectors, contexts = (
        _on_device(principal_coordinates(vectors), device) if fold.wide else raw,
        _on_device(contexts, device),
    )
    near = neighbourhood(vectors, contexts=contexts).cpu()
    estimate = twonn_from_distances(near.distances[:, :2], near.duplicates)
    by_scale = [gride(near.distances, scale) for scale in SCALES]
    sampled = [*_dimensions(near, estimate, by_scale), *_batches(vectors, contexts, estimate), gram]
    centred, directions, numbers = _spectral(fold, cells, device, wait_for_solutions)
    numbers += [*_directional_numbers(raw, directions), *sampled]
    counts = dict(zip(COUNTS, (estimate.n, estimate.duplicates, near.near), strict=True))
    return Shape(numbers, counts, scale_curve(by_scale, len(near)), spectrum_curve(centred))


def measure_spectrum(
    fold: LayerFold, cells: Sequence[int], omitted: str, lacking: str | None = None, device: str | None = None
) -> Shape:
    """Return the measures that need only the eigenvalues of the covariance; all others are undefined.

    This solves one eigenproblem without eigenvectors, of dim x dim or of fewer vectors. A survey solves two.
    `omitted` is why the others are undefined, `lacking` why there is no covariance, if there is none. With a
    `device` it is solved there.
    """
    rest = (omitted, dict.fromkeys((*SAMPLED, *GRAM, *UNCENTRED), float("nan")))
    counts = dict.fromkeys(COUNTS, 0)
    lacking = TOO_WIDE if fold.wide else lacking
    n = 0 if lacking is not None else int(fold.scatter.n[list(cells)].sum())
    if n < 2:
        undefined = (lacking or "fewer than two vectors", dict.fromkeys(SPECTRAL, float("nan")))
        return Shape([undefined, rest], counts, scale_curve(), spectrum_curve(np.empty(0)))
    few = fold.scatter.few_vectors(cells)
    if few is not None:
        spectrum = np.pad(spectra.gram_eigenvalues(few.numpy()), (0, fold.frame.dim - n))
        variances = few.var(dim=0, correction=0).numpy()
    else:
        covariance = fold.scatter.covariance(cells, device)[1]
        spectrum = spectra.eigenvalues(covariance if covariance.is_cuda else covariance.numpy())
        variances = covariance.diagonal().cpu().numpy()
    numbers = spectral_numbers(spectrum) | variance_numbers(variances)
    found = [("all vectors are equal", numbers), decay_numbers(spectrum), rest]
    return Shape(found, counts, scale_curve(), spectrum_curve(spectrum))


def _spectral(
    fold: LayerFold,
    cells: Sequence[int],
    device: str | None,
    wait_for_solutions: Callable[[], LayerSolutions | None],
) -> tuple[Array, Tensor, list[Numbers]]:
    """Return the eigenvalues of the covariance, the eigenvectors of the second moment, and spectral numbers."""
    if fold.wide:
        none = dict.fromkeys((*SPECTRAL, *UNCENTRED), float("nan"))
        return np.empty(0), torch.empty(fold.frame.dim, 0), [(TOO_WIDE, none)]
    n = int(fold.scatter.n[list(cells)].sum())
    if not n:
        none = dict.fromkeys((*SPECTRAL, *UNCENTRED), float("nan"))
        return np.empty(0), torch.empty(fold.frame.dim, 0), [("fewer than two vectors", none)]
    centred, second, directions, variances = solve_population(fold, cells, device, wait_for_solutions())
    if _underflowed(fold, cells, n, float(second.sum())):
        none = dict.fromkeys((*SPECTRAL, *UNCENTRED), float("nan"))
        return np.empty(0), torch.empty(fold.frame.dim, 0), [(UNDERFLOW, none)]
    values = (spectra.stable_rank(second), rankme(second))
    uncentred: Numbers = ("all vectors are 0", dict(zip(UNCENTRED, values, strict=True)))
    if n < 2:
        few: Numbers = ("fewer than two vectors", dict.fromkeys(SPECTRAL, float("nan")))
        return np.empty(0), directions, [few, uncentred]
    numbers = spectral_numbers(centred) | variance_numbers(variances)
    return centred, directions, [("all vectors are equal", numbers), decay_numbers(centred), uncentred]


def _underflowed(fold: LayerFold, cells: Sequence[int], n: int, total: float) -> bool:
    """Return whether the trace of the second moment is below what the shortest and the longest vector require.

    A GPU multiplies in float32, in which the squares of vectors of norm 1e-23 are 0.
    """
    chosen, norms = list(cells), fold.norms
    low, high = float(norms.lowest[chosen].min()), float(norms.highest[chosen].max())
    return total < 0.5 * max(low**2, high**2 / n)


def _on_device(rows: Tensor, device: str | None) -> Tensor:
    return rows if device is None else to_device(rows, torch.device(device))


def spectral_numbers(spectrum: Array) -> dict[str, float]:
    """Return the numbers from the eigenvalues of the covariance, largest first. (dim,)"""
    return {
        "anisotropy_svd": spectra.anisotropy_svd(spectrum),
        "participation_ratio": spectra.participation_ratio(spectrum),
        "effective_rank": spectra.effective_rank(spectrum),
        "effective_rank_singular": spectra.effective_rank_singular(spectrum),
        "iso_score": spectra.iso_score(spectrum),
        **{f"pca_dim_{share}": spectra.pca_dimension(spectrum, share / 100) for share in (90, 95, 99)},
    }


def decay_numbers(spectrum: Array) -> Numbers:
    """Return how the eigenvalues of the covariance decay, largest first. (dim,)"""
    return FEW_RANKS, {"alpha_req": alpha_req(spectrum)}


def variance_numbers(variances: Array) -> dict[str, float]:
    """Return the coordinate with the largest variance, and its share. (dim,)"""
    v = np.maximum(variances, 0.0)
    found = rogue(v / v.sum() if v.sum() > 0 else np.full(len(v), np.nan))
    return {
        "rogue_variance_coordinate": float("nan") if found.coordinate is None else found.coordinate,
        "rogue_variance_share": found.share,
    }


def _directional_numbers(vectors: Tensor, directions: Tensor) -> Iterator[Numbers]:
    cosine = sampled_cosine(vectors)
    yield cosine.reason or "", {"sampled_cosine": cosine.value, "sampled_cosine_se": cosine.se}
    known = directions.shape[1] > 0
    log_ratio = partition_isotropy_log(vectors[:PARTITION_VECTORS], directions) if known else float("nan")
    yield (
        "not finite" if known else TOO_WIDE,
        {"partition_isotropy": float(np.exp(log_ratio)), "partition_isotropy_log": log_ratio},
    )


def _gram(vectors: Tensor) -> Numbers:
    """Return the numbers from the spectrum of the sample, computed from its Gram matrix."""
    spectrum = spectra.gram_eigenvalues(vectors.numpy())
    values = (
        spectra.anisotropy_svd(spectrum),
        spectra.participation_ratio(spectrum),
        spectra.effective_rank(spectrum),
    )
    return "fewer than two different vectors", dict(zip(GRAM, values, strict=True))


def _dimensions(near: Neighbourhood, estimate: TwoNN, by_scale: Sequence[Estimate]) -> Iterator[Numbers]:
    found = {"twonn": estimate.keep90, "twonn_se": estimate.se}
    found |= {"twonn_ml": estimate.ml, "twonn_ml_se": estimate.ml_se, "twonn_keep20": estimate.keep20}
    yield estimate.reason or "not finite", found
    mle, hubs = levina_bickel(near.distances), hubness(near.others)
    jump = scale_jump([each for each in by_scale if each.reason is None])
    yield jump.reason or "not finite", {"scale_jump": jump.value}
    yield mle.reason or "not finite", {"mle_dim": mle.value, "mle_dim_se": mle.se}
    yield hubs.reason or "not finite", {"hubness_skew": hubs.value, "hubness_skew_se": hubs.se}


def _batches(vectors: Tensor, contexts: Tensor, whole: TwoNN) -> Iterator[Numbers]:
    """Yield the numbers from batches of the sample, which is sorted by hash and therefore shuffled."""
    parts = split_batches(len(vectors))
    few = explain_too_few(len(vectors))
    svd = average_batches([batch_anisotropy(vectors[part]) for part in parts])
    yield "all vectors are equal" if parts else few, {"anisotropy_svd_shuffled": svd.mean}
    yield ONE_BATCH if parts else few, {"anisotropy_svd_shuffled_sd": svd.sd}
    made = [whole] if len(parts) == 1 else [twonn(vectors[part], contexts=contexts[part]) for part in parts]
    dimension = average_batches([estimate.keep90 for estimate in made])
    reason = next((estimate.reason for estimate in made if estimate.reason), None)
    yield (reason or "not finite") if parts else few, {"twonn_batch": dimension.mean}
    yield (reason or ONE_BATCH) if parts else few, {"twonn_batch_sd": dimension.sd}
