"""The page of a vector store in a browser: verdicts first, readable on a phone, no complaint, no request."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.browser.conftest import Reader
from tests.shared import slow

import theodolite

HOSTILE = "<img src=x onerror=alert(9)> a text without any space: " + "x" * 200


@pytest.fixture(scope="module")
def store_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the page of a store with every section: copies, unusable rows, queries, transforms, another store."""
    folder = tmp_path_factory.mktemp("store")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 16)).astype(np.float32)
    x[200:240], x[7], x[8] = x[:40], np.nan, 0.0
    table = pd.DataFrame({"id": [f"document-{row}" for row in range(300)], "text": HOSTILE, "vector": list(x)})
    table.to_parquet(folder / "store.parquet")
    before = table[:250].assign(vector=list((x + rng.normal(size=x.shape))[:250].astype(np.float32)))
    before.to_parquet(folder / "before.parquet")
    np.save(folder / "queries.npy", rng.normal(size=(50, 16)).astype(np.float32))
    theodolite.store(
        folder / "store.parquet",
        queries=folder / "queries.npy",
        against=folder / "before.parquet",
        text_column="text",
        transforms=["truncate:8", "float16"],
        out=folder / "out",
    )
    return folder / "out" / "report.html"


@pytest.mark.filterwarnings("ignore:.*have no vector or only NaN")
def test_verdicts_come_first_and_nothing_complains(reader: Reader, store_page: Path) -> None:
    page = reader(store_page)
    verdicts = page.locator(".answers .answer")
    kinds = [str(one.get_attribute("class")).split()[1] for one in verdicts.all()]
    order = ["bad", "attention", "good", "unknown"]
    assert kinds == sorted(kinds, key=order.index)
    assert kinds[0] == "bad"
    box = verdicts.first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 900  # on the first screen
    assert page.get_by_text("Do searches find the same documents?").first.is_visible()
    assert page.locator("figure.store-chart svg").count() >= 2
    assert page.locator("main img").count() == 0
    for link in page.locator("nav.contents a").all():
        assert page.locator(str(link.get_attribute("href"))).count() == 1


@pytest.mark.parametrize("width", [390, slow(768)])
@pytest.mark.filterwarnings("ignore:.*have no vector or only NaN")
def test_nothing_is_wider_than_the_window(reader: Reader, store_page: Path, width: int) -> None:
    page = reader(store_page, viewport={"width": width, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wider = page.evaluate(
        """() => [...document.querySelectorAll("main *")]
          .filter((one) => !one.closest(".scroll, svg, nav") && one.getBoundingClientRect().right > innerWidth + 1)
          .map((one) => one.outerHTML.slice(0, 80))"""
    )
    assert wider == []
