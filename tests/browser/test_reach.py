"""Accessibility: names, labels, order, and every control by keyboard."""

import pytest
from playwright.sync_api import Page
from tests.browser.conftest import Reader, Report

# Information that a screen reader needs and that is missing.
FAULTS = """() => {
  const faults = [];
  const seen = (one) => one.checkVisibility();
  const found = (id) => document.getElementById(id);
  const text = (ids) => ids.split(/\\s+/).map((id) => found(id)?.textContent || "").join(" ").trim();
  const name = (one) =>
    (one.getAttribute("aria-labelledby") && text(one.getAttribute("aria-labelledby"))) ||
    (one.getAttribute("aria-label") || "").trim() ||
    (one.labels && [...one.labels].map((label) => label.textContent).join(" ").trim()) ||
    (one.matches("button, a, summary, [role=option]") && one.textContent.trim()) || "";
  const shown = (one) => one.outerHTML.slice(0, 120);
  const every = (selector, wrong, fault) =>
    document.querySelectorAll(selector).forEach((one) => wrong(one) && faults.push(`${fault}: ${shown(one)}`));
  const roles = ["img", "region", "group", "listbox", "combobox"].map((role) => `[role=${role}]`);
  const ours = (one) => !one.closest(".js-plotly-plot") && !one.closest("defs");

  const controls = `button, a[href], summary, input, select, textarea, ${roles}`;
  every(controls, (one) => seen(one) && !name(one), "no name");
  every("img:not([alt])", () => true, "no alt");
  every("main svg", (one) => ours(one) && one.getAttribute("aria-hidden") !== "true" && !name(one), "no name");
  every("[tabindex]", (one) => one.tabIndex > 0, "tabindex over 0");
  every("table", (one) => seen(one) && !one.querySelector("th[scope]"), "no head");
  const ids = [...document.querySelectorAll("main [id], header [id]")].filter(ours).map((one) => one.id);
  faults.push(...ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `twice: #${id}`));
  const lost = (one, attribute) => !one.getAttribute(attribute).split(/\\s+/).every(found);
  for (const attribute of ["aria-labelledby", "aria-controls", "aria-describedby", "for"])
    every(`[${attribute}]`, (one) => lost(one, attribute), `${attribute} to nowhere`);
  let level = 0;
  document.querySelectorAll("h1, h2, h3, h4, h5, h6").forEach((one) => {
    const next = Number(one.tagName[1]);
    if (next > level + 1) faults.push(`h${level} to h${next}: ${shown(one)}`);
    level = next;
  });
  if (!document.documentElement.lang || !document.title) faults.push("no lang or title");
  return faults;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("which", ["one", "two"])
def test_every_element_has_an_accessible_name_and_a_landmark(
    reader: Reader, which: str, request: pytest.FixtureRequest
) -> None:
    report: Report = request.getfixturevalue(which)
    page = reader(report.path, built=True)
    assert page.evaluate(FAULTS) == []
    page.evaluate("theodolite.choose({ token: 1, layer: 2 })")
    page.get_by_label("Find a token").fill("w")
    assert page.evaluate(FAULTS) == []


def stops(page: Page, most: int = 400) -> list[str]:
    """What the tab key stops at, from the top of the page until it leaves."""
    found = []
    page.evaluate("document.activeElement.blur()")
    for _ in range(most):
        page.keyboard.press("Tab")
        control = page.evaluate(
            """() => {
              const one = document.activeElement;
              if (!one || one === document.body) return "";
              const name = one.labels?.[0]?.textContent || one.getAttribute("aria-label") || one.textContent;
              const part = one.closest("section[data-part]")?.id || "";
              return `${part}: ${name.trim().slice(0, 40)}`;
            }"""
        )
        if not control:
            break
        found.append(control)
    return found


@pytest.mark.slow
def test_the_tab_key_reaches_the_controls_in_their_order(reader: Reader, one: Report) -> None:
    page = reader(one.path, built=True)
    page.evaluate("scrollTo(0, 0)")
    reached = stops(page)
    # The first chart is beside the verdict, above the toolbar.
    expected = [": Theme: system", "profiles: Measure", "profiles: Axis", ": Population", ": Layer"]
    order = [reached.index(stop) for stop in expected]
    assert order == sorted(order)
    for part in page.evaluate("[...document.querySelectorAll('section[data-part]')].map(one => one.id)"):
        assert any(stop.startswith(f"{part}: Save as png") for stop in reached), part
    assert any(stop.startswith("token-map: Find a token") for stop in reached)


@pytest.mark.slow
def test_the_focus_is_visible(reader: Reader, one: Report) -> None:
    page = reader(one.path, "profiles")
    for selector in (
        "#theme",
        "#toolbar select",
        "#toolbar input",
        "#profiles .plot",
        "#profiles .exports button",
    ):
        page.locator(selector).first.focus()
        page.keyboard.press("Shift")  # from now on the browser assumes keyboard use
        assert page.locator(selector).first.evaluate("one => getComputedStyle(one).outlineStyle") == "solid", (
            selector
        )
