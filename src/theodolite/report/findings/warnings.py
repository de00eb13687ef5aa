"""What a reader should know before trusting a number: counts of what is out of the ordinary, and what to do."""

from __future__ import annotations

import math

from theodolite.naming import several
from theodolite.report.findings.finding import at, highest
from theodolite.report.numbers import count
from theodolite.report.rows import Row, defined, layer_rows, number, populations, reasons
from theodolite.report.tables import Tables
from theodolite.report.vectors import of_vectors, told_of_vectors

# The measures whose absence a reader must hear of; error bars and the many variants are in the table.
MAIN = (
    "q", "m", "v_within", "v_between", "mean_cosine", "anisotropy_svd", "participation_ratio", "effective_rank",
    "twonn", "q_cv", "tradeoff_r2", "tradeoff_slope", "norm_p50",
)  # fmt: skip
# TwoNN depends on how many vectors it is of: layers do not compare where one has less than this share of another.
FEWER = 0.75
# Ranks and dimensions are of the vectors, not of the space, where there are fewer than this many a dimension.
ENOUGH = 10


def warnings(tables: Tables) -> list[str]:
    """Return a sentence for each kind of trouble found, none where there is none."""
    rows = next((rows for name in populations(tables) if (rows := layer_rows(tables, name))), [])
    made = [
        _counted(rows, "nonfinite", "not finite", "What is not finite is left out of every number."),
        _counted(rows, "zero", "exactly zero", "A zero vector has no direction and no part in the mean cosine."),
        _counted(rows, "massive", "massive", _way(populations(tables))),
        _duplicates(rows),
        _undefined(rows),
    ]
    return [told_of_vectors(text) if of_vectors(tables) else text for text in made if text]


def too_few(tables: Tables) -> str:
    """Say that there are few vectors for their dimension, where that is so; a reader should hear it first."""
    rows = [row for name in populations(tables)[:1] for row in defined(layer_rows(tables, name), "n")]
    fewest = min(rows, key=lambda row: number(row, "n") / max(number(row, "dim"), 1), default={})
    n, dim = number(fewest, "n"), number(fewest, "dim")
    if not n < ENOUGH * dim:
        return ""
    why = (
        "ranks and dimensions are bounded by the number of vectors, not by the model"
        if n <= dim
        else f"with fewer than {ENOUGH} a dimension, ranks and dimensions come out too low"
    )
    said = f"{several(n, 'position')} in {several(dim, 'dimension')}: {why}."
    return told_of_vectors(said) if of_vectors(tables) else said


def _way(known: list[str]) -> str:
    """Say what to do about massive activations in this survey."""
    if "all" not in known:
        return "They are in this population too, and can make its variance, spectrum and norms."
    can = "They can make the variance, the spectrum and the norms of all positions"
    if "without-massive" in known:
        return f"{can}; the population without-massive leaves them out."
    return f"{can}; survey again with --populations all,without-massive to see the rest alone."


def _counted(rows: list[Row], column: str, what: str, advice: str) -> str:
    top = highest(rows, column)
    if top is None or number(top, column) <= 0:
        return ""
    layers = sum(number(row, column) > 0 for row in rows)
    most, seen = number(top, column), number(top, "n")
    seen += most if column == "nonfinite" else 0  # n counts those that are finite
    of = f"{count(most)} of {several(seen, 'position')}" if math.isfinite(seen) else several(most, "position")
    where = f"{at(top)}, the most of the {several(layers, 'layer')} where this happens" if layers > 1 else at(top)
    return f"{of} {'is' if round(most) == 1 else 'are'} {what} {where}. {advice}"


def _duplicates(rows: list[Row]) -> str:
    top = highest(rows, "sample_duplicates")
    if top is None or number(top, "sample_duplicates") <= 0:
        return ""
    most, kept = number(top, "sample_duplicates"), number(top, "twonn_n")
    if not math.isfinite(kept):
        return f"The sample held {several(most, 'duplicate')} {at(top)}, dropped before TwoNN."
    said = (
        f"{count(most)} of the {count(most + kept)} sampled vectors {at(top)} "
        f"{'is a duplicate' if round(most) == 1 else 'are duplicates'}, dropped before TwoNN, which is of "
        f"{count(kept)} there"
    )
    largest = max(number(row, "twonn_n") for row in defined(rows, "twonn_n"))
    if kept < FEWER * largest:
        return f"{said} and of {count(largest)} at other layers: it depends on their number, so compare with care."
    return f"{said}."


def _undefined(rows: list[Row]) -> str:
    """Tell which of the main measures are undefined somewhere, those with one reason together."""
    said: dict[str, list[str]] = {}
    for column in MAIN:
        why = next((reasons(row)[column] for row in rows if column in reasons(row)), "")
        if why:
            said.setdefault(why, []).append(column)
    if not said:
        return ""
    told = "; ".join(f"{', '.join(columns)} ({why})" for why, columns in list(said.items())[:4])
    more = f"; and for {several(len(said) - 4, 'more reason')}" if len(said) > 4 else ""
    return (
        f"Undefined at one layer or more: {told}{more}. The column undefined of layers.parquet says where and why."
    )
