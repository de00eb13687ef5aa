"""The looks of charts that carry meaning: parts of Q as in the exhibits, axis labels that do not overlap."""

from itertools import pairwise

import pytest
from playwright.sync_api import Page
from tests.browser.conftest import Reader, Report
from tests.shared import slow

from theodolite.exhibits.drawing.bars import FILLS

HATCHES = {"": "", "////": "/", "....": "."}
PIECES = """() => document.querySelector("#decomposition .js-plotly-plot").data
  .map(({ name, marker }) => [name, marker.color, marker.pattern.shape, marker.pattern.fgcolor])"""
# Positions of the labels of a vertical axis, from its top: [text, top, bottom].
NAMES = """part => [...document.querySelectorAll(`#${part} .js-plotly-plot .ytick text`)]
  .map((one) => [one.textContent, one.getBoundingClientRect().top, one.getBoundingClientRect().bottom])
  .sort((a, b) => a[1] - b[1])"""


def hue(colour: str) -> str:
    """Return whether a colour is blue, sky or orange."""
    red, green, blue = (int(colour.lstrip("#")[at : at + 2], 16) for at in (0, 2, 4))
    return "orange" if red > blue else "sky" if green > 160 else "blue"


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", slow("dark")])
def test_the_parts_of_q_have_the_colours_of_the_exhibits(reader: Reader, one: Report, scheme: str) -> None:
    page = reader(one.path, "decomposition", color_scheme=scheme)
    found = page.evaluate(PIECES)
    assert [name.split(",")[0] for name, *_ in found] == ["M", "V_W", "V_B"]
    assert [(hue(colour), shape) for _, colour, shape, _ in found] == [
        (hue(colour), HATCHES[hatch]) for colour, hatch in FILLS
    ]
    # Dark on fills that are light in both themes.
    assert {lines for *_, lines in found} == {"#1d2226"}


def named(page: Page, part: str) -> list[str]:
    """Return the labels of a part's vertical axis; no label may overlap another."""
    found = page.evaluate(NAMES, part)
    for (above, _, bottom), (below, top, _) in pairwise(found):
        assert top > bottom - 4, (above, below)
    return [text for text, _, _ in found]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([1, 3, 100, 160], {"1", "10", "100"}),
        ([1.1, 3, 5, 20], {"2", "5", "10"}),
        ([1, 3, 1e3, 1e5], {"100", "10k"}),
    ],
)
def test_names_on_a_logarithmic_axis_do_not_collide(
    reader: Reader, two: Report, values: list[float], shown: set[str]
) -> None:
    page = reader(two.path, "side-by-side")
    page.evaluate(
        """values => {
          theodolite.data.surveys.forEach(({ layers, profiles }) => {
            const made = Float32Array.from(layers, (_, at) => values[at % values.length]);
            Object.values(profiles).forEach(({ columns }) => (columns.effective_rank = { values: made }));
          });
          theodolite.choose({ measure: "effective_rank" });
        }""",
        values,
    )
    for part in ("side-by-side", "profiles"):
        page.locator(f"#{part}").scroll_into_view_if_needed()
        page.locator(f"#{part}").get_by_label("Axis").select_option("log")
        names = named(page, part)
        assert shown <= set(names)
        assert not set(names) & {"3", "4", "6", "7", "8", "9"}
