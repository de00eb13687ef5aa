"""What the profiles draw is the layer table, whatever is chosen; the layer moves by keyboard and by slider."""

from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page
from tests.browser.conftest import Reader, Report, go

from theodolite.report import Tables

POPULATIONS = ["all", "without-first", "without-massive"]
MEASURES = ["mean_cosine", "anisotropy_svd", "q", "norm_p50", "tradeoff_r2", "twonn", "massive"]


def drawn(page: Page, part: str = "profiles") -> dict[str, np.ndarray]:
    lines: list[Any] = page.evaluate(
        """part => document.querySelector(`#${part} .js-plotly-plot`).data
             .map(({ name, y, error_y }) => [name, Array.from(y), error_y ? Array.from(error_y.array) : []])""",
        part,
    )
    return {name: np.array(y, dtype=np.float32) for name, y, _ in lines}


def expected(tables: Tables, column: str, population: str) -> np.ndarray:
    rows = tables.layers[tables.layers["population"] == population].sort_values("layer")
    return rows[column].to_numpy(dtype=np.float32)


def check(page: Page, tables: Tables, column: str, populations: list[str]) -> None:
    found = drawn(page)
    assert list(found) == populations
    for population in populations:
        np.testing.assert_array_equal(found[population], expected(tables, column, population))


@pytest.mark.slow
def test_each_measure_draws_its_column(reader: Reader, one: Report) -> None:
    page = reader(one.path, "profiles")
    for column in MEASURES:
        page.locator("#profiles").get_by_label("Measure").select_option(column)
        check(page, one.surveys[0], column, POPULATIONS)
        label = page.evaluate("document.querySelector('#profiles .js-plotly-plot').getAttribute('aria-label')")
        assert "at 8 points" in label or "at 7 points" in label


@pytest.mark.slow
def test_every_offered_measure_can_be_chosen(reader: Reader, one: Report) -> None:
    page = reader(one.path, "profiles")
    box = page.locator("#profiles").get_by_label("Measure")
    offered = box.locator("option").evaluate_all("all => all.map(one => one.value)")
    assert len(offered) >= 15
    for column in offered:
        box.select_option(column)
        assert page.evaluate("theodolite.state.measure") == column
        assert box.input_value() == column
        assert drawn(page)


@pytest.mark.slow
def test_a_population_can_be_hidden(reader: Reader, one: Report) -> None:
    page = reader(one.path, "profiles")
    part = page.locator("#profiles fieldset")
    part.get_by_label("without-first").uncheck()
    check(page, one.surveys[0], "mean_cosine", ["all", "without-massive"])
    part.get_by_label("all", exact=True).uncheck()
    part.get_by_label("without-massive").uncheck()
    assert page.locator("#profiles .none").is_visible()
    assert page.locator("#profiles .exports").is_hidden()
    part.get_by_label("without-first").check()
    check(page, one.surveys[0], "mean_cosine", ["without-first"])
    assert page.locator("#profiles .exports").is_visible()


@pytest.mark.slow
def test_another_survey_is_drawn_and_the_layer_moves_to_the_same_depth(reader: Reader, two: Report) -> None:
    page = reader(two.path, "profiles")
    check(page, two.surveys[0], "mean_cosine", POPULATIONS)
    page.evaluate("theodolite.choose({ layer: 3 })")
    page.locator("#toolbar").get_by_label("Survey").select_option(label="smollm <b>on</b> chitchat")
    go(page, "profiles")
    page.wait_for_function("document.querySelector('#profiles .js-plotly-plot').data[0].y.length === 12")
    check(page, two.surveys[1], "mean_cosine", POPULATIONS)
    # 3 of 7 is nearest to 5 of 11.
    assert page.evaluate("theodolite.state.layer") == 5
    assert page.locator("#toolbar output").inner_text() == "block 5"
    assert page.locator("#toolbar").get_by_label("Layer").get_attribute("max") == "11"


@pytest.mark.slow
def test_positions_are_chosen_for_all_charts(reader: Reader, one: Report) -> None:
    page = reader(one.path, "profiles", "token-map")
    page.locator("#toolbar").get_by_label("Population").select_option("without-massive")
    assert page.evaluate("theodolite.state.population") == "without-massive"


@pytest.mark.slow
def test_the_slider_and_the_chart_move_the_layer_by_keyboard(reader: Reader, one: Report) -> None:
    page = reader(one.path, "profiles")
    slider = page.locator("#toolbar").get_by_label("Layer")
    slider.focus()
    page.keyboard.press("Home")
    assert page.evaluate("theodolite.state.layer") == 0
    page.keyboard.press("ArrowRight")
    assert page.evaluate("theodolite.state.layer") == 1
    assert slider.get_attribute("aria-valuetext") == "block 1"
    plot = page.locator("#profiles .js-plotly-plot")
    plot.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("theodolite.state.layer") == 2
    # A chart outside the window is drawn afterwards.
    page.wait_for_function("document.querySelector('#profiles .js-plotly-plot').layout.shapes[0].x0 === 2")
    assert slider.input_value() == "2"
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    assert page.evaluate("theodolite.state.layer") == 7


@pytest.mark.slow
def test_a_finding_links_to_its_chart(reader: Reader, two: Report) -> None:
    page = reader(two.path)
    page.locator("#toolbar").get_by_label("Survey").select_option(label="smollm <b>on</b> chitchat")
    link = page.locator("[data-measure=anisotropy_svd][data-survey='1']").first
    link.click()
    page.wait_for_function("theodolite.state.survey === 1 && theodolite.state.measure === 'anisotropy_svd'")
    page.wait_for_function("document.querySelector('#profiles .js-plotly-plot')?.data[0].y.length === 12")
    check(page, two.surveys[1], "anisotropy_svd", POPULATIONS)
    target = page.locator(".card a[href^='#definition-']").first
    target.click()
    assert page.locator(":target").evaluate("one => one.id").startswith("definition-")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["linear", "log"])
def test_the_axis_scale_follows_the_choice(reader: Reader, one: Report, kind: str) -> None:
    page = reader(one.path, "profiles")
    page.locator("#profiles").get_by_label("Axis").select_option(kind)
    page.wait_for_function(
        "kind => document.querySelector('#profiles .js-plotly-plot').layout.yaxis.type === kind", arg=kind
    )


@pytest.mark.slow
def test_another_survey_is_shown_at_the_same_depth(reader: Reader, two: Report) -> None:
    page = reader(two.path, "side-by-side")
    depths = page.evaluate("theodolite.data.surveys.map(({ layers }) => layers.map(({ depth }) => depth))")
    assert all(one[0] == 0 for one in depths)
    assert max(map(max, depths)) > 1  # a final norm, one layer after the last block
    for at, depth in enumerate(depths[0]):
        page.evaluate("at => theodolite.choose({ survey: 0, layer: at })", at)
        page.evaluate("theodolite.choose({ survey: 1 })")
        found = depths[1][page.evaluate("theodolite.state.layer")]
        assert abs(found - depth) == min(abs(other - depth) for other in depths[1])
    assert page.evaluate("document.querySelector('#side-by-side .js-plotly-plot').layout.xaxis.range[1]") > 1.05
