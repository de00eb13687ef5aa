"""Light and dark: by the system, by the button, for the page and for every chart on it."""

import pytest
from playwright.sync_api import Page
from tests.browser.conftest import Reader, Report, go, parts_of

ALIKE = """part => {
  const found = getComputedStyle(document.documentElement);
  const [card, ink] = ["--card", "--ink"].map((name) => found.getPropertyValue(name).trim());
  const plots = [...document.querySelectorAll(`#${part} .js-plotly-plot`)].filter((one) => one.checkVisibility());
  return plots.length && plots.every(({ layout }) => layout.paper_bgcolor === card && layout.font.color === ink);
}"""


def check(page: Page, *parts: str) -> str:
    """Check that every visible chart of these parts has the page's colours; return the page's background."""
    for part in parts:
        go(page, part)
        page.wait_for_function(ALIKE, arg=part)
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


@pytest.mark.slow
def test_the_theme_button_cycles_through_its_states(reader: Reader, one: Report) -> None:
    page = reader(one.path, "profiles", color_scheme="light")
    button = page.locator("#theme")
    light = check(page, "profiles")
    assert button.inner_text() == "Theme: system"
    button.click()
    assert (button.inner_text(), check(page, "profiles")) == ("Theme: light", light)
    button.click()
    dark = check(page, "profiles")
    assert button.inner_text() == "Theme: dark"
    assert dark != light
    button.click()
    assert (button.inner_text(), check(page, "profiles")) == ("Theme: system", light)


@pytest.mark.slow
def test_every_chart_follows_the_system_while_the_page_is_open(reader: Reader, two: Report) -> None:
    page = reader(two.path, built=True, color_scheme="dark")
    parts = parts_of(page)
    dark = check(page, *parts)
    page.emulate_media(color_scheme="light")
    assert check(page, *parts) != dark


@pytest.mark.slow
def test_a_chosen_theme_overrides_the_system(reader: Reader, one: Report) -> None:
    page = reader(one.path, "profiles", color_scheme="dark")
    dark = check(page, "profiles")
    page.locator("#theme").click()
    light = check(page, "profiles")
    assert light != dark
    page.emulate_media(color_scheme="light")
    assert check(page, "profiles") == light
