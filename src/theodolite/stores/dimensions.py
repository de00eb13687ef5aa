"""Answers about the coordinates of a store: dead and rogue dimensions, and how many directions the vectors use."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.measures.coordinates import cosine_shares, rogue
from theodolite.measures.spectrum import effective_rank, eigenvalues, pca_dimension
from theodolite.stores.answer import Answer, Section
from theodolite.stores.scan import Scan
from theodolite.text import format_number, format_percent, pluralize

DEAD = 1e-6
"""A coordinate is dead if its variance is below this share of the median variance, or 0."""
ROGUE = 0.5
"""A coordinate is rogue if it makes up this share of the mean cosine, or this share of the variance."""
ROUNDING = 1e-12
"""Eigenvalue of unit vectors below which it is rounding."""
Array = NDArray[np.float64]
LEAST_COSINE = 0.05
"""Mean cosine from which its shares matter."""


def describe_dimensions(scan: Scan, mean_cosine: float) -> Section:
    """Return the section "dimensions" of a store's results."""
    if scan.count < 2:
        few = "It requires two usable vectors."
        return Section("dimensions", [Answer("Do all dimensions carry information?", "unknown", few)])
    variance = scan.squares / scan.count
    shares = cosine_shares(scan.count, scan.units, np.diagonal(scan.products).copy())
    total = float(variance.sum())
    constant = scan.lowest == scan.highest
    dead = constant | (variance <= DEAD * np.median(variance))
    table = pd.DataFrame(
        {
            "dimension": np.arange(scan.dim),
            "mean": scan.mean,
            "sd": np.sqrt(np.where(constant, 0.0, variance)),
            "lowest": scan.lowest,
            "highest": scan.highest,
            "variance_share": variance / total if total else np.nan,
            "cosine_share": shares,
            "dead": dead,
        }
    )
    spectrum = _spectrum(scan)
    facts: dict[str, float | None] = {"dead": int(dead.sum())}
    measured = (effective_rank(spectrum), pca_dimension(spectrum, 0.9), pca_dimension(spectrum, 0.99))
    for name, value in zip(("effective_rank", "pca_dim_90", "pca_dim_99"), measured, strict=True):
        facts[name] = value if np.isfinite(value) else None
    answers = [_dead(dead), _rogue(table, mean_cosine), _used(scan, spectrum)]
    return Section("dimensions", answers, {"dimensions": table}, facts)


def _dead(dead: NDArray[np.bool_]) -> Answer:
    question, count = "Are there dead dimensions?", int(dead.sum())
    reason = f"variance below {DEAD:g} of the median variance, over all rows"
    if not count:
        return Answer(question, "good", f"All {len(dead):,} dimensions vary.", 0.0, reason=reason)
    named = ", ".join(map(str, np.flatnonzero(dead)[:8])) + (", …" if count > 8 else "")
    return Answer(
        question,
        "bad" if count == len(dead) else "attention",
        f"{pluralize(count, 'dimension')} of {len(dead):,} hardly {'varies' if count == 1 else 'vary'} ({named}).",
        float(count),
        reason=reason,
        advice="Remove them from documents and queries: they take space and change no ranking by distance.",
    )


def _rogue(table: pd.DataFrame, mean_cosine: float) -> Answer:
    question = "Does one dimension dominate?"
    by_variance = rogue(table["variance_share"].to_numpy())
    by_cosine = rogue(table["cosine_share"].to_numpy())
    reason = "share of each coordinate in the mean cosine and in the variance, over all rows"
    if by_variance.coordinate is None:
        return Answer(question, "unknown", "All vectors are equal, so there is no variance.", reason=reason)
    if by_cosine.coordinate is not None and by_cosine.share >= ROGUE and mean_cosine >= LEAST_COSINE:
        return Answer(
            question,
            "attention",
            f"Dimension {by_cosine.coordinate} alone makes up {format_percent(min(1.0, by_cosine.share))} "
            "of the mean "
            f"cosine ({format_number(mean_cosine, 3)}): it lifts every score.",
            by_cosine.share,
            reason=reason,
            advice="Subtract the mean from documents and queries, or remove this dimension.",
        )
    if by_variance.share >= ROGUE and len(table) > 2:
        return Answer(
            question,
            "attention",
            f"Dimension {by_variance.coordinate} alone has {format_percent(by_variance.share)} of the variance.",
            by_variance.share,
            reason=reason,
            advice="Distances are mostly differences in this dimension. Scale it down in documents and queries.",
        )
    return Answer(
        question,
        "good",
        f"No: the largest share of the variance is {format_percent(by_variance.share)} (dimension "
        f"{by_variance.coordinate}).",
        by_variance.share,
        reason=reason,
    )


def _used(scan: Scan, spectrum: Array) -> Answer:
    question = "How many dimensions do the vectors use?"
    if not spectrum.sum() > 0:
        return Answer(question, "unknown", "All vectors have the same direction, so there is no variance.")
    few = scan.count < 10 * scan.dim
    caution = f"; {scan.count:,} vectors are few for {scan.dim:,} dimensions, so it is too low" if few else ""
    most, nearly_all = (int(pca_dimension(spectrum, share)) for share in (0.9, 0.99))
    return Answer(
        question,
        "unknown" if few else "good",
        f"About {format_number(effective_rank(spectrum), 3)} of {scan.dim:,} (effective rank); {most:,} principal "
        f"components hold 90% of the variance, {nearly_all:,} hold 99%.",
        effective_rank(spectrum),
        reason=f"eigenvalues of the covariance of all unit vectors{caution}",
    )


def _spectrum(scan: Scan) -> Array:
    """Return the eigenvalues of the covariance of the unit vectors, descending; rounding errors are 0."""
    mean = scan.units / scan.count
    values = eigenvalues(scan.products / scan.count - np.outer(mean, mean))
    return np.where(values > ROUNDING, values, 0.0)
