"""The report in a real browser: pages made once, opened from disk, and whatever the browser complains of.

A page takes seconds of a processor to draw: one or two tests of each file are quick, and the others marked slow.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tests.report.conftest import make, vectors, with_curves

from theodolite.report import Tables, write
from theodolite.report.tables import Steps

LAYER_NAME = "<b>block</b> 3 & more"
READY = "document.documentElement.dataset.ready === 'yes'"
# Ready in two seconds on a quiet machine; where it is busy, minutes.
PATIENCE = 300_000
# Where there is no graphics card Chromium draws WebGL by software, and warns that this is slow.
OF_THE_DRIVER = ("GPU stall due to ReadPixels", "Automatic fallback to software WebGL")
ARGUMENTS = ["--no-sandbox", "--enable-unsafe-swiftshader", "--use-gl=angle", "--use-angle=swiftshader"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Give the path of a browser; a skip where there is none, a failure where THEODOLITE_BROWSER says required."""
    named = os.environ.get("THEODOLITE_CHROMIUM")
    found = next(
        filter(None, map(shutil.which, [named] if named else ["chromium", "chromium-browser", "google-chrome"])),
        None,
    )
    if found:
        return found
    why = f"no browser: {named or 'chromium'} was not found. Run make browser, or set THEODOLITE_CHROMIUM."
    if os.environ.get("THEODOLITE_BROWSER") == "required":
        pytest.fail(why)
    pytest.skip(why)


_started = ExitStack()
_browsers: list[Browser] = []


@pytest.fixture
def browser(chromium: str) -> Browser:
    """Give the browser of this process, which all tests of this folder share."""
    if not _browsers:
        playwright = _started.enter_context(sync_playwright())
        _browsers.append(playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS))
        _started.callback(_browsers.clear)
        _started.callback(_browsers[0].close)
    return _browsers[0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Close the browser before other tests: its event loop would be in their way."""
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        _started.close()


@dataclass
class Reader:
    """Opens reports and remembers what went wrong on them."""

    browser: Browser
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def __call__(self, path: Path, *parts: str, built: bool = False, **options: Any) -> Page:
        """Open a report and go to some of its parts, or to all of them."""
        context = self.browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        context.set_default_timeout(PATIENCE)
        context.on("request", lambda request: self.asked.append(request.url))
        page = context.new_page()
        page.on("console", lambda said: self._hear(said.type, said.text))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        page.goto(path.as_uri())
        if options.get("java_script_enabled", True):
            page.wait_for_function(READY)
        for part in parts_of(page) if built else parts:
            go(page, part)
        return page

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(known in text for known in OF_THE_DRIVER):
            self.complaints.append(f"{kind}: {text}")

    def check(self) -> None:
        assert self.complaints == []
        assert self.dialogs == []
        assert [url[:80] for url in self.asked if not url.startswith(("file:", "data:", "blob:"))] == []


def go(page: Page, part: str) -> None:
    """Go to a part, and wait until it is built and drawn."""
    page.locator(f"#{part}").scroll_into_view_if_needed()
    page.wait_for_function(
        "key => document.querySelector(`#${key} .js-plotly-plot, #${key} .none:not([hidden])`) !== null", arg=part
    )


def rest(page: Page, milliseconds: int) -> None:
    """Wait by the page's own clock: earlier timers with no longer delay have fired by then."""
    page.evaluate("wait => new Promise((done) => setTimeout(done, wait))", milliseconds)


def parts_of(page: Page) -> list[str]:
    found: list[str] = page.evaluate("[...document.querySelectorAll('section[data-part]')].map(one => one.id)")
    return found


@pytest.fixture
def reader(browser: Browser) -> Iterator[Reader]:
    """Give a reader; at the end of the test no page may have logged an error, opened a dialog or sent requests."""
    one = Reader(browser)
    yield one
    for context in browser.contexts:
        context.close()
    one.check()


@dataclass(frozen=True)
class Report:
    """A page on disk and the tables it was made from."""

    path: Path
    surveys: list[Tables]


def hostile(name: str, **options: Any) -> Tables:
    """Make a survey whose tokens, layers and name would all be markup."""
    tables = with_curves(make(name, **options))
    names = tables.layers["layer_name"].astype(object).where(tables.layers["layer"] != 3, LAYER_NAME)
    return Tables.of({**vars(tables), "layers": tables.layers.assign(layer_name=names)})


@pytest.fixture(scope="session")
def one(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Give a page of one survey, in a folder whose name has to be quoted."""
    path = tmp_path_factory.mktemp("pages") / "ein Bericht, 100% größer #1?" / "отчёт 報告.html"
    path.parent.mkdir()
    surveys = [hostile("<img src=x onerror=alert(6)> on “chitchat”")]
    write(surveys, path)
    return Report(path, surveys)


@pytest.fixture(scope="session")
def two(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Give a page of two surveys of different depth and a series."""
    path = tmp_path_factory.mktemp("pages") / "two.html"
    surveys = [
        hostile("minilm on chitchat", units=60),
        hostile("smollm <b>on</b> chitchat", layers=12, units=40, peak=0.6),
    ]
    steps = [surveys[0].layers.assign(step=step, mean_cosine=0.001 * step) for step in (0, 10, 200)]
    series = Steps("a series", {"model": {"name": "tiny"}}, pd.concat(steps, ignore_index=True))
    write(surveys, path, series=[series])
    return Report(path, surveys)


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Give a page of vectors from a file: one layer, three groups."""
    path = tmp_path_factory.mktemp("pages") / "vectors.html"
    surveys = [vectors()]
    write(surveys, path)
    return Report(path, surveys)


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Give a page of as many tokens as a page has to bear."""
    path = tmp_path_factory.mktemp("pages") / "large.html"
    surveys = [make("large", layers=13, units=25_000)]
    write(surveys, path)
    return Report(path, surveys)
