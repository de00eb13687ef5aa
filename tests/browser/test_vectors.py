"""A page of vectors only: texts are not mentioned, there is no slider for one layer and no chart of one point."""

import re

import pytest
from playwright.sync_api import Page
from tests.browser.conftest import Reader, Report

OF_TEXTS = r"(?i)\b(positions?|tokens?|units?|documents?|layers?|blocks?|activations?)\b"
# What is seen above the numbers and the definitions, which have names of columns in them; and what is only heard.
WORDS = """() => [...document.querySelectorAll("#findings, #toolbar, section[data-part]")].flatMap((part) =>
  [part.innerText, ...[...part.querySelectorAll("[aria-label], [placeholder]")]
    .filter((one) => one.checkVisibility())
    .flatMap((one) => [one.getAttribute("aria-label"), one.getAttribute("placeholder")])]).filter(Boolean)"""


def words(page: Page) -> list[str]:
    found: list[str] = page.evaluate(WORDS)
    return [text.replace("tokens.npz", "") for text in found]


@pytest.mark.slow
def test_texts_and_layers_are_not_mentioned(reader: Reader, alone: Report) -> None:
    page = reader(alone.path, built=True)
    for token in (-1, 1):
        page.evaluate("token => theodolite.choose({ token })", token)
        assert [found for text in words(page) for found in re.findall(OF_TEXTS, text)] == []
    assert page.locator("#token-map, #decomposition").count() == 0  # three dots, and a single bar
    assert page.locator("#findings th", has_text="dog").is_visible()


@pytest.mark.slow
def test_there_is_no_layer_slider(reader: Reader, alone: Report, one: Report) -> None:
    page = reader(alone.path, built=True)
    page.evaluate("theodolite.choose({ token: 1 })")
    assert page.locator("input[type=range]:visible").count() == 0
    assert page.locator("#profiles, #norms, #token-map .path figure:visible").count() == 0
    traces = "document.querySelector('#spectra .js-plotly-plot').data.map(({ name }) => name)"
    assert page.evaluate(traces) == ["vectors"]
    other = reader(one.path, "decomposition", "spectra")
    assert other.evaluate(traces)[0] == "other layers"
    assert other.locator("#toolbar input[type=range]").is_visible()


@pytest.mark.slow
def test_a_count_has_the_right_noun(reader: Reader, alone: Report) -> None:
    page = reader(alone.path)
    assert page.evaluate("[0, 1, 2000].map((n) => theodolite.pluralize(n, 'time'))") == [
        "0 times",
        "1 time",
        "2,000 times",
    ]
