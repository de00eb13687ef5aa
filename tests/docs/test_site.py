"""The site opens from disk: no page sends a network request, and search works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # the whole site is built

ROOT = Path(__file__).parents[2]
FETCHED = re.compile(r"<(?:script|link|img|iframe|source|video)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it as `make docs` does."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return out


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        assert FETCHED.findall(page.read_text("utf-8")) == [], page.name
    for sheet in (site / "assets").glob("*.css"):
        assert not re.search(r"@import|url\(.?https?:", sheet.read_text("utf-8"))


def test_formulas_are_mathml_and_no_fence_remains(site: Path) -> None:
    page = (site / "measures.html").read_text("utf-8")
    assert page.count("<math") > 40
    assert "language-math" not in page
    assert 'id="anisotropy-svdcentred"' in page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Open Chromium where there is one."""
    chromium = shutil.which(os.environ.get("THEODOLITE_CHROMIUM", "chromium"))
    playwright = pytest.importorskip("playwright.sync_api")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


def test_search_works_from_disk_without_network_requests(site: Path, browser: Any) -> None:
    page = browser.new_page()
    page.set_default_timeout(300_000)  # a busy machine may take minutes
    wrong, asked = [], []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.click("input.md-search__input")
    page.keyboard.type("participation ratio", delay=10)
    page.wait_for_selector(".md-search-result__item")
    assert "participation-ratio/covariance" in page.inner_text(".md-search-result")
    assert wrong == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []


# Tables that are wider than their place; and cells of at most 24 characters in more than one line.
TABLES = """() => {
  const tables = [...document.querySelectorAll(".md-typeset table:not([class])")];
  const room = (table) => table.closest(".md-typeset__scrollwrap");
  const lines = (cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return Math.round(range.getBoundingClientRect().height / parseFloat(getComputedStyle(cell).lineHeight));
  };
  const cells = tables.flatMap((table) => [...table.querySelectorAll("td")]).filter((cell) => !cell.querySelector("br"));
  return {
    tables: tables.length,
    wide: tables.filter((table) => room(table).scrollWidth > room(table).clientWidth + 1).map((table) => table.textContent.slice(0, 80)),
    wrapped: cells.filter((cell) => cell.textContent.trim().length <= 24 && lines(cell) > 1).map((cell) => cell.textContent),
  };
}"""  # noqa: E501


def test_tables_fit_a_page_of_1440_pixels_and_short_cells_do_not_wrap(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    count = 0
    for path in sorted(site.rglob("*.html")):
        page.goto(path.as_uri())
        found = page.evaluate(TABLES)
        count += found["tables"]
        assert (found["wide"], found["wrapped"]) == ([], []), path.name
    assert count > 100
