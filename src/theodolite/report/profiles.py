"""The layer profiles of one survey as charts: four groups of three panels, a line a population."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from theodolite.report.chart import Chart, Series
from theodolite.report.rows import Row, layer_name, layer_rows, number, populations, reasons, style_of
from theodolite.report.shares import shares
from theodolite.report.tables import Tables

Group = tuple[str, str, list[Chart]]
Ends = Callable[[Row], tuple[float, float]]


def groups(tables: Tables) -> list[Group]:
    """Return (title, lead, charts) for each group of panels, in reading order."""
    return [
        ("Scale", "How long the vectors are, and what their squared length is made of.", _scale(tables)),
        ("Direction", "How much they lean the same way.", _direction(tables)),
        ("Dimension", "In how many dimensions they live.", _dimension(tables)),
        ("Units", "How the mean and the spread of each unit go together.", _units(tables)),
    ]


def line_chart(
    tables: Tables, column: str, title: str, caption: str, ends: Ends | None = None, extra: Chart | None = None
) -> Chart:
    """Return one column as a chart, a line a population; `ends` reads a row's spread, `extra` carries options."""
    known = populations(tables)
    series = tuple(_series(tables, name, style_of(name, known), column, ends) for name in known)
    said = [reasons(row).get(column, "") for name in known for row in layer_rows(tables, name)]
    words = {"key": column.replace("_", "-"), "title": title, "caption": caption, "series": series}
    base = extra or Chart("", "", "", ())
    return replace(base, **words, x_label=layer_axis(tables), reason=next((why for why in said if why), ""))  # type: ignore[arg-type]


def layer_axis(tables: Tables) -> str:
    """Name the x axis, with what its first and last layer are."""
    rows = [row for name in populations(tables)[:1] for row in layer_rows(tables, name)]
    ends = [row for row in (rows[:1] + rows[-1:]) if isinstance(row.get("layer_name"), str)]
    told = list(dict.fromkeys(f"{number(row, 'layer'):g} {layer_name(row)}" for row in ends))
    return f"layer ({' … '.join(told)})" if told else "layer"


def _series(tables: Tables, population: str, style: int, column: str, ends: Ends | None) -> Series:
    rows = layer_rows(tables, population)
    spreads = [ends(row) for row in rows] if ends else []
    return Series(
        population,
        style,
        x=tuple(number(row, "layer") for row in rows),
        y=tuple(_finite(number(row, column)) for row in rows),
        places=tuple(layer_name(row) for row in rows),
        low=tuple(low for low, _ in spreads),
        high=tuple(high for _, high in spreads),
    )


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.nan


def _around(column: str, error: str) -> Ends:
    return lambda row: (
        _finite(number(row, column) - number(row, error)),
        _finite(number(row, column) + number(row, error)),
    )


def _options(**chosen: object) -> Chart:
    return replace(Chart("", "", "", ()), **chosen)  # type: ignore[arg-type]


def _scale(tables: Tables) -> list[Chart]:
    middle = line_chart(
        tables,
        "norm_p50",
        "Norm",
        "Median length of a vector; the band holds the 5th to the 95th percentile.",
        ends=lambda row: (_finite(number(row, "norm_p05")), _finite(number(row, "norm_p95"))),
        extra=_options(spread="band", may_be_log=True),
    )
    known = populations(tables)
    stacked = [name for name in ("all", "without-massive") if name in known] or known[:1]
    return [middle, *(shares(tables, name, layer_axis(tables)) for name in stacked)]


def _direction(tables: Tables) -> list[Chart]:
    return [
        line_chart(
            tables,
            "mean_cosine",
            "Mean cosine",
            "Average cosine over all pairs of positions, ± one standard error.",
            ends=_around("mean_cosine", "mean_cosine_se"),
        ),
        line_chart(
            tables,
            "anisotropy_svd",
            "SVD anisotropy",
            "Share of the variance along its first principal direction.",
        ),
        line_chart(
            tables,
            "iso_score",
            "IsoScore",
            "1 when the variance fills all dimensions evenly, 0 when it fills one.",
        ),
    ]


def _dimension(tables: Tables) -> list[Chart]:
    log = _options(may_be_log=True)
    return [
        line_chart(
            tables, "effective_rank", "Effective rank", "Exponential of the entropy of the spectrum.", extra=log
        ),
        line_chart(
            tables, "participation_ratio", "Participation ratio", "Dimensions that carry the variance.", extra=log
        ),
        line_chart(
            tables,
            "twonn",
            "TwoNN intrinsic dimension",
            "From the two nearest neighbours in the sample, ± one standard error.",
            ends=_around("twonn", "twonn_se"),
        ),
    ]


def _units(tables: Tables) -> list[Chart]:
    return [
        line_chart(
            tables,
            "tradeoff_slope",
            "Trade-off slope",
            "Slope of V on M over units; at −1 all units have one Q.",
            extra=_options(include=(0.0, -1.0), reference=(-1.0, "Q the same for all")),
        ),
        line_chart(
            tables,
            "tradeoff_r2",
            "Trade-off R²",
            "How much of V is told by M, from 0 to 1.",
            extra=_options(include=(0.0, 1.0)),
        ),
        line_chart(tables, "q_cv", "CV of Q", "How much Q differs from unit to unit, relative to its mean."),
    ]
