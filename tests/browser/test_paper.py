"""In print, parts share pages; afterwards the page on the screen is unchanged."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page
from tests.browser.conftest import Reader, Report, parts_of, rest
from tests.report.conftest import make

from theodolite.report import write

HEIGHTS = "[...document.querySelectorAll('.js-plotly-plot:not([hidden])')].map((plot) => plot._fullLayout.height)"


@pytest.mark.slow
def test_printed_parts_share_pages_and_the_screen_layout_is_restored(reader: Reader, one: Report) -> None:
    page = reader(one.path, built=True)
    before = page.evaluate(HEIGHTS)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    flat = page.evaluate(HEIGHTS)
    assert all(low < 0.7 * high for low, high in zip(flat, before, strict=True))
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(HEIGHTS) == before
    sheets = len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4", print_background=True)))
    assert sheets <= len(parts_of(page)) + 2  # ten were a sheet for each part; seven are enough
    page.wait_for_function(f"before => JSON.stringify({HEIGHTS}) === JSON.stringify(before)", arg=before)


BACKGROUNDS = (
    "[...document.querySelectorAll('.js-plotly-plot:not([hidden])')].map(({ layout }) => layout.paper_bgcolor)"
)


@pytest.mark.slow
def test_charts_are_printed_in_light_colours(reader: Reader, one: Report) -> None:
    page = reader(one.path, "profiles", "token-map", color_scheme="dark")
    dark = page.evaluate("theodolite.colour('card')")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert set(page.evaluate(BACKGROUNDS)) == {page.evaluate("theodolite.colour('card')")} != {dark}
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.querySelector('#token-map .js-plotly-plot').layout.paper_bgcolor") == dark
    assert page.evaluate("document.documentElement.dataset.theme === undefined")


def painted(page: Page, canvas: str) -> list[int]:
    """Return the extent of what a canvas shows, as shares of its size in thousandths."""
    found: list[int] = page.evaluate(
        """selector => {
          const canvas = document.querySelector(`#token-map .map ${selector}`);
          const { width, height } = canvas;
          const copy = Object.assign(document.createElement("canvas"), { width, height });
          const pen = copy.getContext("2d", { willReadFrequently: true });
          pen.drawImage(canvas, 0, 0);
          const { data } = pen.getImageData(0, 0, width, height);
          let [left, right, count] = [width, 0, 0];
          for (let at = 3; at < data.length; at += 4) {
            if (!data[at]) continue;
            const x = ((at - 3) / 4) % width;
            [left, right, count] = [Math.min(left, x), Math.max(right, x), count + 1];
          }
          return count ? [Math.round((1000 * left) / width), Math.round((1000 * right) / width)] : [];
        }""",
        canvas,
    )
    return found


@pytest.mark.slow
def test_points_of_webgl_are_printed_at_the_size_of_the_chart(reader: Reader, one: Report) -> None:
    page = reader(one.path, "token-map")
    rest(page, 300)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert painted(page, "canvas.printed") == painted(page, "canvas.gl-canvas-context") != []
    sizes = "selector => document.querySelector(`#token-map .map ${selector}`).clientWidth"
    width = page.evaluate("document.querySelector('#token-map .map .js-plotly-plot')._fullLayout.width")
    assert page.evaluate(sizes, "canvas.printed") == width
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("canvas.printed").count() == 0
    assert page.evaluate("document.querySelector('canvas.gl-canvas-context').hidden") is False


OVERLAPS = """() => [...document.querySelectorAll(".js-plotly-plot:not([hidden])")].flatMap((plot) => {
  const labels = [...plot.querySelectorAll(".xtick text")];
  const boxes = labels.map((label) => [label.textContent, label.getBoundingClientRect()]);
  boxes.sort(([, a], [, b]) => a.left - b.left);
  return boxes.slice(1).filter(([, box], at) => box.left < boxes[at][1].right + 2).map(([text]) => text);
})"""


@pytest.mark.slow
def test_labels_of_many_layers_do_not_overlap_in_print_or_in_a_narrow_window(
    reader: Reader, tmp_path: Path
) -> None:
    path = tmp_path / "deep.html"
    write([make("deep", layers=32, units=20)], path)
    page = reader(path, "profiles", "decomposition", "norms", viewport={"width": 1440, "height": 900})
    labels = "[...document.querySelectorAll('#profiles .xtick text')].map((label) => label.textContent)"
    wide = page.evaluate(labels)
    assert page.evaluate(OVERLAPS) == []
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    rest(page, 300)
    assert page.evaluate(OVERLAPS) == []
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.wait_for_function(f"wide => JSON.stringify({labels}) === JSON.stringify(wide)", arg=wide)
    page.set_viewport_size({"width": 480, "height": 900})
    page.wait_for_function(f"wide => {labels}.length < wide.length", arg=wide)
    rest(page, 300)
    assert page.evaluate(OVERLAPS) == []


@pytest.mark.slow
def test_links_are_not_printed_and_dates_stay_on_one_line(reader: Reader, one: Report) -> None:
    page = reader(one.path, viewport={"width": 700, "height": 900})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator(".card .links").count() > 3
    assert page.evaluate("[...document.querySelectorAll('.card .links')].every((one) => !one.checkVisibility())")
    lines = page.evaluate(
        """() => {
          const names = [...document.querySelectorAll(".facts dt")];
          const date = names.find((one) => one.textContent === "started").nextElementSibling;
          const range = document.createRange();
          range.selectNodeContents(date);
          return range.getClientRects().length;
        }"""
    )
    assert lines == 1
