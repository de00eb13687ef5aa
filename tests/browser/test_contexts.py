"""The text around a token, and the matches of a search over the map."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Page
from tests.browser.conftest import Reader, Report, rest
from tests.report.conftest import make

from theodolite.report import write

BEFORE, TOKEN, AFTER = "<img src=x onerror=alert(7)> &amp;", " <b>bold</b>", "</bdi><script>alert(8)</script>"
MAP = "document.querySelector('#token-map .map .js-plotly-plot')"


@pytest.fixture(scope="module")
def with_contexts(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Give a page of a survey whose text is markup."""
    tables = make("contexts", layers=3, units=60)
    unit = tables.units["unit"]
    where = {"key": range(60), "document": 0, "window": 0, "position": 7}
    contexts = pd.DataFrame({"unit": unit, **where, "before": BEFORE, "text": TOKEN, "after": AFTER})
    path: Path = tmp_path_factory.mktemp("pages") / "contexts.html"
    tables = replace(tables, contexts=contexts)
    write([tables], path)
    return Report(path, [tables])


@pytest.mark.slow
def test_the_text_around_a_token_is_shown_as_text(reader: Reader, with_contexts: Report) -> None:
    page = reader(with_contexts.path, "token-map")
    page.evaluate("theodolite.choose({ token: 20 })")
    line = page.locator("#token-map .contexts li").last
    assert line.inner_text() == f"…{BEFORE}{TOKEN}{AFTER}…"
    assert line.locator("mark").text_content() == TOKEN.strip()  # without the space before it
    assert page.locator("#token-map .contexts :is(img, b, script)").count() == 0
    # The tooltip has the same lines.
    page.locator("#token-map .map .plot").focus()
    page.keyboard.press("ArrowDown")
    assert "onerror=alert(7)" in page.locator(".tip").inner_text()
    assert page.locator(".tip :is(img, b, script)").count() == 0


def inked(page: Page) -> int:
    """Return how many pixels of the overlay have the colour of its rings."""
    return int(
        page.evaluate(
            """() => {
              const canvas = document.querySelector("#token-map canvas.overlay");
              if (!canvas || canvas.hidden) return 0;
              const { width, height } = canvas;
              const copy = Object.assign(document.createElement("canvas"), { width, height });
              const pen = copy.getContext("2d", { willReadFrequently: true });
              pen.drawImage(canvas, 0, 0);
              const { data } = pen.getImageData(0, 0, width, height);
              let dark = 0;
              for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 240 && data[at] < 60) dark += 1;
              return dark;
            }"""
        )
    )


@pytest.mark.slow
def test_searching_rings_the_matches_and_does_not_redraw_the_map(reader: Reader, with_contexts: Report) -> None:
    page = reader(with_contexts.path, "token-map", color_scheme="light")
    page.get_by_label("Minimum n").fill("1")
    page.keyboard.press("Tab")  # leaving the box applies the filter
    rest(page, 500)
    assert inked(page) == 0
    page.evaluate(f"window.drawn = 0, {MAP}.on('plotly_afterplot', () => (window.drawn += 1))")
    box = page.get_by_label("Find a token")
    box.fill("word3")
    rest(page, 100)
    many = inked(page)
    box.fill("word31")
    rest(page, 100)
    one = inked(page)
    assert 0 < one < many
    box.fill("")
    rest(page, 100)
    assert inked(page) == 0
    assert page.evaluate("window.drawn") == 0
