"""Charts are tested as data, and then what was drawn is read back and compared with the table."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from theodolite.report import Tables
from theodolite.report.chart import Chart
from theodolite.report.compare import compare
from theodolite.report.profiles import groups
from theodolite.report.svg import SHAPES, axes, draw

COLUMNS = [
    "norm_p50",
    "mean_cosine",
    "anisotropy_svd",
    "iso_score",
    "effective_rank",
    "participation_ratio",
    "twonn",
    "tradeoff_slope",
    "tradeoff_r2",
    "q_cv",
]
# A coordinate is written to a tenth of a pixel, so it is off by half of that at most.
PIXEL = 0.0501


def charts(tables: Tables) -> dict[str, Chart]:
    return {chart.key: chart for _, _, panels in groups(tables) for chart in panels}


def wanted(tables: Tables, column: str) -> list[tuple[str, str, float, float]]:
    rows = tables.layers.dropna(subset=[column]).sort_values("layer", kind="stable")
    return sorted(zip(rows["population"], rows["layer_name"], rows["layer"], rows[column], strict=True))


@pytest.mark.parametrize("column", COLUMNS)
def test_a_line_chart_holds_the_table(tables: Tables, column: str) -> None:
    assert sorted(charts(tables)[column.replace("_", "-")].points()) == wanted(tables, column)


@pytest.mark.parametrize("column", COLUMNS)
def test_what_is_drawn_is_the_table(tables: Tables, column: str) -> None:
    chart = charts(tables)[column.replace("_", "-")]
    across, up = axes(chart)
    drawn = re.findall(r'class="dot" transform="translate\(([-\d.]+) ([-\d.]+)\)', draw(chart, "p"))
    expected = [(across(x), up(y)) for _, _, x, y in wanted(tables, column)]
    assert np.allclose(sorted((float(x), float(y)) for x, y in drawn), sorted(expected), rtol=0, atol=PIXEL)


def test_spreads_are_the_quantiles_and_the_standard_errors(tables: Tables) -> None:
    rows = tables.layers[tables.layers["population"] == "all"]
    norm, twonn = charts(tables)["norm-p50"].series[0], charts(tables)["twonn"].series[0]
    assert (norm.low, norm.high) == (tuple(rows["norm_p05"]), tuple(rows["norm_p95"]))
    assert twonn.low == tuple(rows["twonn"] - rows["twonn_se"])
    assert twonn.high == tuple(rows["twonn"] + rows["twonn_se"])


def test_shares_are_of_q_and_make_one(tables: Tables) -> None:
    chart = charts(tables)["shares-all"]
    rows = tables.layers[tables.layers["population"] == "all"]
    for one, column in zip(chart.series, ("m", "v_between", "v_within"), strict=True):
        assert np.allclose(one.y, rows[column] / rows["q"], rtol=1e-12)
    assert np.allclose(np.sum([one.y for one in chart.series], axis=0), 1.0, rtol=1e-12)
    heights = [float(found) for found in re.findall(r"v([\d.]+)h-", draw(chart, "p"))]
    _, up = axes(chart)
    full = up(0) - up(1)
    assert np.allclose(heights, [y * full for one in chart.series for y in one.y], rtol=0, atol=2 * PIXEL)


def test_v_stays_whole_where_it_cannot_be_divided(tables: Tables) -> None:
    bare = replace(tables, layers=tables.layers.assign(v_within=np.nan, v_between=np.nan))
    assert [one.name for one in charts(bare)["shares-all"].series] == ["M/Q, the common mean", "V/Q, not divided"]


def test_the_norm_is_logarithmic_only_over_a_wide_range(tables: Tables) -> None:
    assert not charts(tables)["norm-p50"].log
    wide = tables.layers.assign(norm_p95=tables.layers["norm_p95"] * np.where(tables.layers["layer"] == 7, 100, 1))
    chart = charts(replace(tables, layers=wide))["norm-p50"]
    assert chart.log
    assert "log scale" in draw(chart, "p")


def test_a_zero_norm_does_not_break_a_log_axis(tables: Tables) -> None:
    layers = tables.layers.assign(norm_p05=0.0, norm_p95=tables.layers["norm_p95"] * 1000)
    drawn = draw(charts(replace(tables, layers=layers))["norm-p50"], "p")
    assert "nan" not in drawn
    assert "inf" not in drawn


def test_a_gap_in_the_data_is_a_gap_in_the_line(tables: Tables) -> None:
    layers = tables.layers.assign(q_cv=tables.layers["q_cv"].where(tables.layers["layer"] != 3))
    drawn = draw(charts(replace(tables, layers=layers))["q-cv"], "p")
    paths = re.findall(r'class="line" d="([^"]*)"', drawn)
    assert [path.count("M") for path in paths] == [2, 2, 2]


def test_an_undefined_column_says_so_and_why(tables: Tables) -> None:
    layers = tables.layers.assign(tradeoff_r2=np.nan)
    chart = charts(replace(tables, layers=layers))["tradeoff-r2"]
    assert chart.points() == []
    assert "undefined at every layer" in draw(chart, "p")
    assert "V is 0 for every &quot;id&quot; unit" in draw(chart, "p")


@pytest.mark.parametrize("value", [math.inf, -math.inf, None, pd.NA])
def test_no_odd_number_reaches_the_drawing(tables: Tables, value: Any) -> None:
    odd = tables.layers.astype({"mean_cosine": object, "norm_p95": object})
    odd.loc[odd["layer"] == 2, ["mean_cosine", "norm_p95"]] = value
    for chart in charts(replace(tables, layers=odd)).values():
        assert not re.search(r"\b(nan|inf)\b", re.sub(r"<title.*?</title>|<desc.*?</desc>", "", draw(chart, "p")))


def test_populations_are_told_apart_by_shape_and_keep_it(make_tables: Callable[..., Tables]) -> None:
    assert len(set(SHAPES)) == len(SHAPES)
    alone = charts(make_tables(populations=("without-massive",)))["mean-cosine"]
    together = charts(make_tables())["mean-cosine"]
    assert alone.series[0].style == together.series[2].style == 2


def test_the_compare_strip_runs_from_nought_to_one(make_tables: Callable[..., Tables]) -> None:
    surveys = [make_tables("a", layers=8), make_tables("b", layers=14), make_tables("c", layers=1)]
    whole, calm = compare(surveys)
    assert [one.name for one in whole.series] == ["a", "b", "c"]
    assert [(one.x[0], one.x[-1]) for one in whole.series] == [(0, 1), (0, 1), (0, 0)]
    rows = surveys[1].layers[surveys[1].layers["population"] == "without-massive"]
    assert calm.series[1].y == tuple(rows["mean_cosine"])
    assert axes(whole)[1].high == axes(calm)[1].high
