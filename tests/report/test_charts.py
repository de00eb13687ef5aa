"""Charts are tested as data, and then what was drawn is read back and compared with the table."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.report import Tables
from theodolite.report.charts import SHAPES, Chart, chart_scales, draw_svg, fit_scale, layer_chart, whole_ticks

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
    return {chart.key: chart for chart in (layer_chart(tables, column, column) for column in COLUMNS)}


def expected_values(tables: Tables, column: str) -> list[tuple[str, str, float, float]]:
    rows = tables.layers.dropna(subset=[column]).sort_values("layer", kind="stable")
    return sorted(zip(rows["population"], rows["layer_name"], rows["layer"], rows[column], strict=True))


@pytest.mark.parametrize("column", COLUMNS)
def test_a_line_chart_holds_the_table(tables: Tables, column: str) -> None:
    assert sorted(charts(tables)[column.replace("_", "-")].points()) == expected_values(tables, column)


@pytest.mark.parametrize("column", COLUMNS)
def test_what_is_drawn_is_the_table(tables: Tables, column: str) -> None:
    chart = charts(tables)[column.replace("_", "-")]
    across, up = chart_scales(chart)
    drawn = re.findall(r'class="dot" transform="translate\(([-\d.]+) ([-\d.]+)\)', draw_svg(chart, "p"))
    expected = [(across(x), up(y)) for _, _, x, y in expected_values(tables, column)]
    assert np.allclose(sorted((float(x), float(y)) for x, y in drawn), sorted(expected), rtol=0, atol=PIXEL)


def test_an_axis_is_logarithmic_only_over_a_wide_range(tables: Tables) -> None:
    assert not charts(tables)["norm-p50"].log
    wide = tables.layers.assign(norm_p50=tables.layers["norm_p50"] * np.where(tables.layers["layer"] == 7, 100, 1))
    chart = charts(replace(tables, layers=wide))["norm-p50"]
    assert chart.log
    assert "log scale" in draw_svg(chart, "p")


@pytest.mark.parametrize("least", [0.0, -1.0])
def test_values_not_above_zero_keep_the_axis_linear(tables: Tables, least: float) -> None:
    norm = tables.layers["norm_p50"] * np.where(tables.layers["layer"] == 7, 1000, 1)
    chart = charts(
        replace(tables, layers=tables.layers.assign(norm_p50=norm.where(tables.layers["layer"] > 0, least)))
    )["norm-p50"]
    assert not chart.log
    assert len(chart.points()) == 24


def test_a_gap_in_the_data_is_a_gap_in_the_line(tables: Tables) -> None:
    layers = tables.layers.assign(q_cv=tables.layers["q_cv"].where(tables.layers["layer"] != 3))
    drawn = draw_svg(charts(replace(tables, layers=layers))["q-cv"], "p")
    paths = re.findall(r'class="line" d="([^"]*)"', drawn)
    assert [path.count("M") for path in paths] == [2, 2, 2]


def test_an_undefined_column_states_the_reason(tables: Tables) -> None:
    layers = tables.layers.assign(tradeoff_r2=np.nan)
    chart = charts(replace(tables, layers=layers))["tradeoff-r2"]
    assert chart.points() == []
    assert "undefined at every layer" in draw_svg(chart, "p")
    assert "V is 0 for every &quot;id&quot; unit" in draw_svg(chart, "p")


@pytest.mark.parametrize("value", [math.inf, -math.inf, None, pd.NA])
def test_no_nan_or_infinity_reaches_the_drawing(tables: Tables, value: Any) -> None:
    odd = tables.layers.astype({"mean_cosine": object, "norm_p50": object})
    odd.loc[odd["layer"] == 2, ["mean_cosine", "norm_p50"]] = value
    for chart in charts(replace(tables, layers=odd)).values():
        assert not re.search(
            r"\b(nan|inf)\b", re.sub(r"<title.*?</title>|<desc.*?</desc>", "", draw_svg(chart, "p"))
        )


def test_populations_have_a_fixed_line_style(make_tables: Callable[..., Tables]) -> None:
    assert len(set(SHAPES)) == len(SHAPES)
    alone = charts(make_tables(populations=("without-massive",)))["mean-cosine"]
    together = charts(make_tables())["mean-cosine"]
    assert alone.series[0].style == together.series[2].style == 2


FINITE = st.floats(-1e9, 1e9).map(lambda value: float(f"{value:.6g}"))


@given(st.lists(FINITE, min_size=1, max_size=20))
def test_the_axis_holds_every_value_and_few_ticks(values: list[float]) -> None:
    axis = fit_scale(values, (0.0,), 200.0, 0.0, log=False)
    slack = 1e-6 * (axis.high - axis.low)
    assert axis.low - slack <= min(values)
    assert max(values) <= axis.high + slack
    assert 2 <= len(axis.ticks()) <= 8


@given(st.lists(st.floats(1e-8, 1e8), min_size=1, max_size=20))
def test_a_log_axis_holds_every_value(values: list[float]) -> None:
    axis = fit_scale(values, (), 200.0, 0.0, log=True)
    assert axis.low < min(values) <= max(values) < axis.high
    assert all(0 <= axis(value) <= 200 for value in values)
    assert all(axis.low <= mark <= axis.high for mark in axis.ticks())


@pytest.mark.parametrize("last", [0, 1, 7, 13, 33, 81, 200])
def test_layer_ticks_are_few_and_integers(last: int) -> None:
    marks = whole_ticks([0.0, float(last)])
    assert len(marks) <= 9
    assert marks[0] == 0
    assert all(mark == math.floor(mark) <= last for mark in marks)
