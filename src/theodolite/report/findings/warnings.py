"""Warnings that belong to the numbers of a survey: unusual vectors and undefined measures, and what to do."""

from __future__ import annotations

import math

from theodolite.report.findings.finding import highest, locate
from theodolite.report.tables import (
    Row,
    Tables,
    all_rows,
    number,
    populations,
    select_defined,
    undefined_reasons,
)
from theodolite.report.vectors import hide_layer_name, is_vector_survey, reword_for_vectors
from theodolite.text import format_count, format_number, pluralize

# The measures that a warning names where they are undefined; the table has errors and variants as well.
MAIN_COLUMNS = (
    "q", "m", "v_within", "v_between", "mean_cosine", "anisotropy_svd", "participation_ratio", "effective_rank",
    "twonn", "q_cv", "tradeoff_r2", "tradeoff_slope", "norm_p50",
)  # fmt: skip
# TwoNN depends on the number of vectors: layers are not comparable if one has less than this share of another.
COMPARABLE_SHARE = 0.75
# With fewer vectors per dimension than this, ranks and dimensions describe the sample, not the space.
VECTORS_PER_DIMENSION = 10
# The dimension of a smooth shape changes less between two adjacent scales.
JUMP = 2.0


def collect_warnings(tables: Tables) -> list[str]:
    """Return one sentence per kind of problem found."""
    tables = hide_layer_name(tables)
    rows = all_rows(tables)
    found = [
        _warn_count(rows, "nonfinite", "not finite", "Values that are not finite are excluded from every number."),
        _warn_count(
            rows,
            "zero",
            "exactly zero",
            "A zero vector has no direction and does not contribute to the mean cosine.",
        ),
        _warn_count(rows, "massive", "massive", _advise_on_massive(populations(tables))),
        _warn_duplicates(rows),
        _warn_near_duplicates(rows),
        _warn_jump(rows),
        _warn_undefined(rows),
    ]
    return [reword_for_vectors(text) if is_vector_survey(tables) else text for text in found if text]


def warn_too_few(tables: Tables) -> str:
    """Return a warning if there are few vectors for their dimension; the page shows it first."""
    rows = select_defined(all_rows(tables), "n")
    fewest = min(rows, key=lambda row: number(row, "n") / max(number(row, "dim"), 1), default={})
    n, dim = number(fewest, "n"), number(fewest, "dim")
    if not n < VECTORS_PER_DIMENSION * dim:
        return ""
    why = (
        "ranks and dimensions are bounded by the number of vectors, not by the model"
        if n <= dim
        else f"with fewer than {VECTORS_PER_DIMENSION} per dimension, ranks and dimensions are underestimated"
    )
    sentence = f"{pluralize(n, 'position')} in {pluralize(dim, 'dimension')}: {why}."
    return reword_for_vectors(sentence) if is_vector_survey(tables) else sentence


def _advise_on_massive(known: list[str]) -> str:
    """Return what massive activations affect in this survey, and what to do."""
    if "all" not in known:
        return "They are in this population, and a few of them can dominate its variance, spectrum and norms."
    effect = "A few of them can dominate the variance, the spectrum and the norms of all positions"
    if "without-sinks" in known:
        return (
            f"{effect}; the population without-massive excludes them, and without-sinks excludes positions that "
            "are massive at any layer from all layers."
        )
    if "without-massive" in known:
        return f"{effect}; the population without-massive excludes them."
    return f"{effect}; to exclude them, survey again with --populations all,without-massive."


def _warn_count(rows: list[Row], column: str, what: str, advice: str) -> str:
    top = highest(rows, column)
    if top is None or number(top, column) <= 0:
        return ""
    layers = sum(number(row, column) > 0 for row in rows)
    most, seen = number(top, column), number(top, "n")
    seen += most if column == "nonfinite" else 0  # n counts those that are finite
    of = (
        f"{format_count(most)} of {pluralize(seen, 'position')}"
        if math.isfinite(seen)
        else pluralize(most, "position")
    )
    where = f"{locate(top)}, the highest count of {pluralize(layers, 'layer')}" if layers > 1 else locate(top)
    return f"{of} {'is' if round(most) == 1 else 'are'} {what} {where}. {advice}"


def _warn_duplicates(rows: list[Row]) -> str:
    top = highest(rows, "sample_duplicates")
    if top is None or number(top, "sample_duplicates") <= 0:
        return ""
    most, kept = number(top, "sample_duplicates"), number(top, "twonn_n")
    if not math.isfinite(kept):
        return f"The sample has {pluralize(most, 'duplicate')} {locate(top)}, removed before TwoNN."
    sentence = (
        f"{format_count(most)} of the {format_count(most + kept)} sampled vectors {locate(top)} "
        f"{'is a duplicate' if round(most) == 1 else 'are duplicates'}, removed before TwoNN, which uses "
        f"{format_count(kept)} vectors at this layer"
    )
    largest = max(number(row, "twonn_n") for row in select_defined(rows, "twonn_n"))
    if kept < COMPARABLE_SHARE * largest:
        return (
            f"{sentence} and {format_count(largest)} at another. It depends on their number, so compare layers "
            "with care."
        )
    return f"{sentence}."


def _warn_near_duplicates(rows: list[Row]) -> str:
    top = highest(rows, "sample_near_duplicates")
    if top is None or number(top, "sample_near_duplicates") <= 0:
        return ""
    most = number(top, "sample_near_duplicates")
    return (
        f"{format_count(most)} of the duplicates {locate(top)} {'is' if most == 1 else 'are'} not exact, but far "
        "closer to another vector than vectors usually are. TwoNN is without them, because they would decide it."
    )


def _warn_jump(rows: list[Row]) -> str:
    """Warn where the dimension at one scale is more than twice that at the next."""
    top = highest(rows, "scale_jump")
    if top is None or number(top, "scale_jump") <= JUMP:
        return ""
    factor = format_number(number(top, "scale_jump"), 2)
    return (
        f"The intrinsic dimension changes by a factor of {factor} between adjacent scales {locate(top)}. TwoNN "
        "is that of the smallest scale, where close pairs or clusters decide it; scales.parquet has the others."
    )


def _warn_undefined(rows: list[Row]) -> str:
    """List the main measures that are undefined at some layer, grouped by reason."""
    columns_by_reason: dict[str, list[str]] = {}
    for column in MAIN_COLUMNS:
        why = next((undefined_reasons(row)[column] for row in rows if column in undefined_reasons(row)), "")
        if why:
            columns_by_reason.setdefault(why, []).append(column)
    if not columns_by_reason:
        return ""
    listed = [f"{', '.join(columns)} ({why})" for why, columns in columns_by_reason.items()]
    more = f"; {pluralize(len(listed) - 4, 'more reason')}" if len(listed) > 4 else ""
    return (
        f"Undefined at one or more layers: {'; '.join(listed[:4])}{more}. The column undefined of layers.parquet "
        "states where and why."
    )
