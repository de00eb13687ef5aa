"""In print, parts share pages; afterwards the page on the screen is unchanged."""

import re

from tests.browser.conftest import Reader, Report, parts_of

HEIGHTS = "[...document.querySelectorAll('.js-plotly-plot:not([hidden])')].map((plot) => plot._fullLayout.height)"


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
