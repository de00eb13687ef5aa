"""The address stores the choices: opened again it shows the same view; unknown parameters are ignored."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page
from tests.browser.conftest import PATIENCE, READY, Reader, Report, go, rest
from tests.report.conftest import make

from theodolite.report import write

STATE = "({ ...theodolite.state })"
# Builds and draws every part, also those that are not seen.
ALL_PARTS = "dispatchEvent(new Event('beforeprint')), dispatchEvent(new Event('afterprint'))"
CONTROLS = """() => Object.fromEntries([...document.querySelectorAll("section[data-part] :is(select, input)")]
  .filter((one) => one.type !== "search")
  .map((one) => [`${one.closest("section").id} ${one.labels[0].textContent.trim()}`,
                 one.type === "checkbox" ? one.checked : one.value]))"""


def address(page: Page) -> str:
    """Return the fragment of the address once the page is idle: it is not written while a slider moves."""
    rest(page, 250)
    found: str = page.evaluate("location.hash")
    return found


def at(page: Page, part: str) -> Page:
    """Scroll until a part begins at the top of the window, and wait until it is drawn."""
    page.evaluate("part => document.getElementById(part).scrollIntoView()", part)
    go(page, part)
    return page


def anew(reader: Reader, page: Page, **options: Any) -> Page:
    """Open the same address in another window."""
    other = reader.browser.new_context(viewport={"width": 1280, "height": 900}, **options).new_page()
    other.set_default_timeout(PATIENCE)
    other.on("console", lambda said: reader._hear(said.type, said.text))
    other.on("pageerror", lambda error: reader.complaints.append(f"error: {error}"))
    other.goto(page.url)
    other.wait_for_function(READY)
    return other


def edit(page: Page, words: str) -> None:
    """Replace the fragment of the address, as a user would."""
    page.evaluate(
        """words => new Promise((done) => {
          addEventListener("hashchange", () => done(), { once: true });
          location.hash = words;
        })""",
        words,
    )


@pytest.mark.slow
def test_default_choices_are_not_in_the_address(reader: Reader, two: Report) -> None:
    page = reader(two.path, built=True)
    assert address(page) == ""
    assert "#" not in page.url
    opening = page.evaluate("theodolite.survey().opening")
    other = 2 if opening != 2 else 3
    page.evaluate("layer => theodolite.choose({ layer })", other)
    assert f"layer={other}" in address(page)
    page.evaluate("layer => theodolite.choose({ layer })", opening)
    assert "=" not in address(page)


@pytest.mark.slow
def test_shared_choices_are_written_to_the_address_and_restored(reader: Reader, two: Report) -> None:
    page = at(reader(two.path), "profiles")
    bar = page.locator("#toolbar")
    bar.get_by_label("Survey").select_option(label="smollm <b>on</b> chitchat")
    bar.get_by_label("Population").select_option("without-first")
    bar.get_by_label("Layer").fill("5")
    page.locator("#profiles").get_by_label("Measure").select_option("anisotropy_svd")
    at(page, "profiles")  # the findings above are now those of the other survey, and of another height
    page.evaluate("theodolite.choose({ token: 3, step: 1 })")
    fragment = address(page)
    assert fragment.startswith(
        "#profiles&survey=smollm+%3Cb%3Eon%3C%2Fb%3E+chitchat&population=without-first&layer=5&"
    )
    assert "&measure=anisotropy_svd&" in fragment
    assert "&token=" in fragment
    assert fragment.endswith("&step=10")  # the step itself, not its index

    other = anew(reader, page)
    assert other.evaluate(STATE) == page.evaluate(STATE)
    assert other.locator("#toolbar").get_by_label("Population").input_value() == "without-first"
    assert other.locator("#toolbar output").inner_text() == "block 5"
    go(other, "profiles")
    drawn = "[...document.querySelector('#profiles .js-plotly-plot').data].map(({ name, y }) => [name, [...y]])"
    assert other.evaluate(drawn) == page.evaluate(drawn)
    assert address(other) == fragment
    # It opens where it was left, under the toolbar.
    assert 0 <= other.evaluate("document.getElementById('profiles').getBoundingClientRect().top") < 200

    page.reload()
    page.wait_for_function(READY)
    assert page.evaluate(STATE) == other.evaluate(STATE)


@pytest.mark.slow
def test_the_choices_of_each_part_are_restored(reader: Reader, two: Report) -> None:
    page = reader(two.path, built=True)
    before = page.evaluate(CONTROLS)
    # Each box of each part that has another choice is moved to its last; what all parts share is tested above.
    page.evaluate("""() => [...document.querySelectorAll("[data-part] :is(select, input)")].forEach((_, at) => {
      const one = document.querySelectorAll("[data-part] :is(select, input)")[at]; // some are made anew
      const label = one.labels[0].textContent.trim();
      if (["search", "range"].includes(one.type) || ["Measure", "Series"].includes(label)) return;
      if (one.type === "checkbox") one.checked = !one.checked;
      else if (one.type === "number") one.value = 3;
      else one.value = one.options[one.options.length - 1].value;
      one.dispatchEvent(new Event("change"));
    })""")
    page.locator("#profiles fieldset").get_by_label("without-first").check()
    page.locator("#profiles").get_by_label("Axis").select_option("linear")
    chosen = page.evaluate(CONTROLS)
    assert sum(chosen[key] != before[key] for key in before) >= 12
    fragment = address(page)
    assert "&profiles.axis=linear" in fragment
    assert "profiles.show.all=no" in fragment
    assert "without-first" not in fragment.split("profiles.show.", 1)[1].split("&")[0]
    assert "token-map.least=3" in fragment

    other = anew(reader, page)
    # Choices of parts that are not built yet are kept.
    assert address(other) == fragment
    other.evaluate(ALL_PARTS)
    assert other.evaluate(CONTROLS) == chosen

    # Without them the open page has its defaults again.
    edit(page, "layer=2")
    page.evaluate(ALL_PARTS)
    assert page.evaluate(CONTROLS) == {
        key: "2" if key == "token-map Layer" else value for key, value in before.items()
    }
    page.go_back()
    page.wait_for_function(
        "location.hash.includes('profiles.axis') && theodolite.state.layer === theodolite.survey().opening"
    )
    page.evaluate(ALL_PARTS)
    assert page.evaluate(CONTROLS) == chosen


NONSENSE = [
    "nonsense", "%", "%E0%A4%A", "&&&==&", "=", "layer", "layer=99", "layer=-1", "layer=~99", "layer=2.5",
    "population=nobody", "measure=constructor", "survey=gone&layer=x", "token=~999999", "token=never-a-token",
    "step=7&series=none", "toolbar.x=1&gone.axis=log&__proto__=1&toString=1",
    quote("<img src=x onerror=alert(1)>") + "=1",
    "norms.axis=banana&token-map.least=x&token-map.same=constructor&decomposition.beside=gone"
    "&decomposition.units=gone&spectra.view=x&projection.colour=x&token-map.special=maybe",
]  # fmt: skip


@pytest.mark.slow
def test_unknown_parameters_are_ignored(reader: Reader, one: Report) -> None:
    page = reader(one.path, built=True)
    usual, controls = page.evaluate(STATE), page.evaluate(CONTROLS)
    # On the open page one by one, then all at once on a new page, which takes seconds.
    for words in NONSENSE:
        edit(page, words)
        assert page.evaluate(STATE) == usual, words
        assert page.evaluate(CONTROLS) == controls, words
    page.goto("about:blank")
    page.goto(f"{one.path.as_uri()}#{'&'.join(NONSENSE)}")
    page.wait_for_function(READY)
    assert page.evaluate(STATE) == usual
    page.evaluate(ALL_PARTS)
    assert page.evaluate(CONTROLS) == controls
    page.evaluate("theodolite.choose({ layer: 1 })")
    assert "layer=1" in address(page)
    assert not re.search("banana|nobody|never|img|99", address(page))


@pytest.mark.slow
def test_known_parameters_are_used_beside_unknown_ones(reader: Reader, one: Report) -> None:
    page = reader(one.path)
    edit(page, "layer=3&population=nobody&measure=q&foo=bar")
    assert page.evaluate("[theodolite.state.layer, theodolite.state.population, theodolite.state.measure]") == [
        3,
        "all",
        "q",
    ]
    assert address(page) == "#layer=3&measure=q"


@pytest.mark.slow
def test_links_scroll_to_their_target_and_keep_the_choices(reader: Reader, one: Report) -> None:
    page = at(reader(one.path), "profiles")
    page.evaluate("theodolite.choose({ layer: 3 })")
    assert address(page) == "#profiles&layer=3"
    page.locator(".contents a[href='#definitions']").evaluate("link => link.click()")
    page.wait_for_function("location.hash === '#definitions&layer=3'")
    assert page.evaluate("theodolite.state.layer") == 3
    assert page.evaluate("document.getElementById('definitions').getBoundingClientRect().top") < 200
    # Opened again it is at the same place, and not under the toolbar.
    other = anew(reader, page)
    edge = other.locator("#toolbar").evaluate("bar => bar.getBoundingClientRect().bottom")
    assert edge <= other.locator("#definitions").evaluate("head => head.getBoundingClientRect().top") < 200
    # Back to what was seen there.
    page.locator(".contents a[href='#norms']").evaluate("link => link.click()")
    page.wait_for_function("location.hash === '#norms&layer=3'")
    page.evaluate("theodolite.choose({ layer: 5 })")
    assert address(page) == "#norms&layer=5"
    page.go_back()
    page.wait_for_function("location.hash === '#definitions&layer=3'")
    page.wait_for_function("theodolite.state.layer === 3")
    page.go_forward()
    page.wait_for_function("theodolite.state.layer === 5")
    assert page.locator("#toolbar").get_by_label("Layer").input_value() == "5"


@pytest.mark.slow
def test_tokens_with_the_same_text_are_distinguished(reader: Reader, one: Report) -> None:
    page = reader(one.path, "token-map")
    for text in ("a & b = c#?+%", "~1", "  the", "日本 <b>"):
        page.evaluate("text => { theodolite.survey().units.text[5] = text; }", text)
        page.evaluate("theodolite.choose({ token: -1 })")
        page.evaluate("theodolite.choose({ token: 5 })")
        fragment = address(page)
        edit(page, "token-map")
        page.evaluate("theodolite.choose({ token: -1 })")
        assert "token=" not in address(page)
        edit(page, fragment[1:])
        assert page.evaluate("theodolite.state.token") == 5, fragment
    page.evaluate("theodolite.survey().units.text[6] = theodolite.survey().units.text[5]")
    page.evaluate("theodolite.choose({ token: 6 })")
    assert "token=%7E6" in address(page)
    edit(page, "token=~6")
    assert page.evaluate("theodolite.state.token") == 6


@pytest.mark.slow
def test_a_slider_writes_the_address_once_it_stops(reader: Reader, one: Report) -> None:
    page = reader(one.path)
    page.evaluate("""() => {
      window.written = 0;
      const plain = history.replaceState.bind(history);
      history.replaceState = (...all) => ((window.written += 1), plain(...all));
      for (let turn = 0; turn < 300; turn += 1) theodolite.choose({ layer: turn % 7 });
    }""")
    assert "layer=5" in address(page)
    assert page.evaluate("window.written") == 1  # Safari rejects more than a hundred in half a minute


@pytest.mark.slow
def test_an_embedded_page_works_without_an_address(reader: Reader, one: Report) -> None:
    page = reader.browser.new_context().new_page()
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: reader.complaints.append(f"error: {error}"))
    page.set_content("<iframe style='width:1000px;height:800px'></iframe>")
    page.evaluate(
        "text => { document.querySelector('iframe').srcdoc = text; }", one.path.read_text(encoding="utf-8")
    )
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready=yes]").wait_for()
    frame.locator("#toolbar").get_by_label("Population").select_option("without-first")
    rest(page, 300)
    assert page.frames[1].evaluate("theodolite.state.population") == "without-first"


@pytest.mark.slow
def test_an_encoder_beside_a_decoder_opens_without_sinks(reader: Reader, tmp_path: Path) -> None:
    path, known = tmp_path / "mixed.html", ["all", "without-sinks"]
    surveys = []
    for name, causal in (("encoder", False), ("decoder", True)):
        tables = make(name, layers=3, units=20, populations=("all", "without-massive"))
        layers = tables.layers.replace({"population": {"without-massive": "without-sinks"}})
        facts = {**tables.facts, "model": {"name": name, "causal": causal}, "populations": known}
        surveys.append(replace(tables, facts=facts, layers=layers))
    write(surveys, path)
    page = reader(path, "side-by-side")
    shown = "[theodolite.state.survey, theodolite.state.population]"
    assert page.evaluate(shown) == [0, "without-sinks"]
    assert "Population without-sinks" in page.locator("#side-by-side").inner_text()
    assert "population" not in page.evaluate("location.hash")
    page.evaluate("theodolite.choose({ survey: 1 })")
    assert page.evaluate(shown) == [1, "without-sinks"]
