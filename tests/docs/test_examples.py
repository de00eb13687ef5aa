"""Every example of README.md and the docs runs or states why it does not; every command in them exists."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import pytest
from tests.docs.pages import all_pages, blocks, indented_commands, name_of
from tests.docs.running import Page, check, check_usage
from tests.docs.stand_ins import furnish

PAGES = all_pages()
WITH_BLOCKS = [page for page in PAGES if re.search(r"^ *```", page.read_text("utf-8"), flags=re.MULTILINE)]


@pytest.mark.slow  # 21 pages, some of them on real weights
@pytest.mark.weights
@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name_of)
@pytest.mark.filterwarnings("default::theodolite.integrations.CollapseWarning")
def test_the_examples_run(
    page: Path, tmp_path: Path, small_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    mpl.use("Agg")
    furnish(tmp_path, small_model("bert"))
    monkeypatch.chdir(tmp_path)
    page_run = Page()
    for block in blocks(page):
        page_run.take(block)


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name_of)
def test_examples_that_are_not_run_parse(page: Path) -> None:
    for block in blocks(page):
        check(block)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_option_in_the_text_exists(page: Path) -> None:
    for line in indented_commands(page):
        check_usage(line, name_of(page))
