"""Switching among many large surveys is quick, measured by the processor time of the browser."""

from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from playwright.sync_api import Browser
from tests.browser.conftest import Reader, rest
from tests.report.conftest import make, with_curves

from theodolite.report import write

LIMIT = 500.0
"""Milliseconds of the browser's processes together, which draw WebGL by software here; about 330 are used."""


def processor_time(browser: Browser) -> Callable[[], float]:
    """Return a function that gives the milliseconds that the browser has used, also on a busy machine."""
    session = browser.new_browser_cdp_session()

    def read() -> float:
        found = session.send("SystemInfo.getProcessInfo")["processInfo"]
        return 1000 * sum(one["cpuTime"] for one in found if one["type"] in ("renderer", "GPU"))

    return read


@pytest.mark.slow
def test_switching_among_six_large_surveys_is_quick(browser: Browser, reader: Reader, tmp_path: Path) -> None:
    surveys = [with_curves(make(f"survey {number}", layers=13, units=25_000), points=500) for number in range(6)]
    write(surveys, tmp_path / "six.html")
    page = reader(tmp_path / "six.html", "token-map", viewport={"width": 1440, "height": 900})
    used = processor_time(browser)
    took = []
    for survey in (1, 2, 3, 4, 5, 0):
        rest(page, 300)
        before = used()
        page.evaluate(
            """survey => new Promise((done) => {
              theodolite.choose({ survey });
              requestAnimationFrame(() => requestAnimationFrame(done));
            })""",
            survey,
        )
        rest(page, 100)
        took.append(used() - before)
        assert page.evaluate("theodolite.survey().name") == f"survey {survey}"
    assert median(took) < LIMIT, took
