"""The first screen: verdicts and a chart that is drawn, and labels of axes that do not collide."""

from itertools import pairwise

import pytest
from tests.browser.conftest import Reader, Report
from tests.shared import slow

# Whether the chart is drawn within the window, and how far it reaches beyond it to the right.
CHART = """() => {
  const plot = document.querySelector(".opening .js-plotly-plot").getBoundingClientRect();
  return [plot.top, plot.bottom, plot.right - innerWidth];
}"""
LABELS = """part => [...document.querySelectorAll(`#${part} .js-plotly-plot .xtick text`)]
  .map((one) => one.getBoundingClientRect()).map(({ left, right }) => [left, right]).sort((a, b) => a[0] - b[0])"""


@pytest.mark.parametrize("which", ["one", slow("two")])
def test_a_chart_stands_beside_the_verdict(reader: Reader, which: str, request: pytest.FixtureRequest) -> None:
    report: Report = request.getfixturevalue(which)
    page = reader(report.path, viewport={"width": 1440, "height": 900})
    page.wait_for_selector(".opening .js-plotly-plot .main-svg")
    top, bottom, beyond = page.evaluate(CHART)
    assert 0 < top < bottom <= 900
    assert beyond < 0
    assert page.locator(".judgement").first.is_visible()
    assert page.locator("details.provenance[open]").count() == 0


@pytest.mark.slow
def test_labels_of_layers_do_not_touch(reader: Reader, one: Report) -> None:
    for width in (390, 700, 1440):
        page = reader(one.path, "profiles", viewport={"width": width, "height": 900})
        found = page.evaluate(LABELS, "profiles")
        assert len(found) >= 3
        assert all(right + 2 < left for (_, right), (left, _) in pairwise(found))


@pytest.mark.slow
def test_numbers_have_no_exponents(reader: Reader, one: Report) -> None:
    page = reader(one.path)
    formatted = page.evaluate("[28310000, 0.00002, 1234567, 0.25].map((x) => theodolite.formatNumber(x))")
    assert formatted == ["2.83×10⁷", "2×10⁻⁵", "1,234,567", "0.25"]
    ticks = page.evaluate(
        "[[-0.1, 4.2], [3.6, 4.4], [0.1, 0.3]].map((span) => theodolite.logTicks(...span).ticktext)"
    )
    assert ticks[0] == ["1", "10", "100", "1000", "10k"]
    assert ticks[1] == ["5000", "10k", "20k"]
    assert len(ticks[2]) >= 2
