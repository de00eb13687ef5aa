import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.shared import slow

from theodolite.errors import InputError, TheodoliteError
from theodolite.report import Tables, render, write
from theodolite.report import page as page_module
from theodolite.report.tables import label_surveys

Make = Callable[..., Tables]
VOID = {"meta", "br", "hr", "img", "input", "link"}
EXPECTED = set(
    "html head meta title style body header main footer nav section article p h1 h2 h3 h4 h5 ul li a b strong "
    "small sub dl dt dd div span i bdi svg circle path g text desc figure figcaption table caption thead tbody "
    "tr th td details summary code button noscript script".split()
)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plotly's script is four megabytes and the same on every page: test_inlined.py reads it."""
    monkeypatch.setattr(page_module, "read_plotly", lambda: "/* Plotly */")


class Page(HTMLParser):
    """Everything a browser would make of the page, and whether each element is closed."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] in ("script", "style") else self.text).append(data)


def data_of(source: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', source, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_hostile_words_are_shown_as_text(make_tables: Make) -> None:
    tables = make_tables("<script>alert(9)</script> on \"x\" & '\ud800'", units=16)
    tables.facts["model"]["note"] = "</dd><script>alert(4)</script>\u202e"
    tables.facts["<i>key</i>"] = {"<u>": "<img src=x>"}
    tables.layers.loc[0, "layer_name"] = "<script>alert(5)</script>"
    tables.layers["<svg onload=x>"] = 1.0
    source = render([tables, tables])
    page = Page(source)
    assert source.encode("utf-8")
    assert page.open == []
    # Formulas are MathML, whose elements and attributes run nothing.
    assert {tag for tag in page.tags if not tag.startswith("m") or tag in ("main", "meta")} <= EXPECTED
    assert page.tags["script"] == 3
    assert page.tags["img"] == page.tags["i"] == page.tags["u"] == 0
    assert not any(name.startswith("on") for _, name, _ in page.attributes)
    words = "".join(page.text)
    for shown in ("<script>alert(9)</script>", "U+D800", "</dd><script>alert(4)</script>U+202E", "<img src=x>"):
        assert shown in words
    assert "\u202e" not in source


def test_every_token_is_in_the_data_and_can_be_seen(make_tables: Make) -> None:
    texts = data_of(render([make_tables(units=16)]))["surveys"][0]["units"]["text"]
    for shown in (
        "<script>alert(1)</script>",
        "&amp;",
        "U+D800",
        "abcU+202Edef",
        "\U0001f600",
        "(empty)",
        "##ing",
    ):
        assert shown in texts
    assert any(text.endswith("… 300 characters") for text in texts)
    assert not any(character in "\u202e\x00\x1b\n" for text in texts for character in text)


def test_the_page_requests_nothing(tables: Tables) -> None:
    source = render([tables])
    page = Page(source)
    policy = next(value for tag, name, value in page.attributes if name == "content" and "default-src" in value)
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";")}
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == ["'none'"]
    assert rules["img-src"] == ["data:", "blob:"]
    assert "'unsafe-inline'" not in rules["script-src"]
    assert not {"connect-src", "font-src", "frame-src", "worker-src", "object-src"} & set(rules)
    assert not [v for _, name, v in page.attributes if name in ("src", "href") and not v.startswith("#")]
    # A citation may name an address in words; nothing may be loaded from one.
    assert not re.search(r"@import|url\(", source)
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|sendBeacon|importScripts)\b", source)


def test_ids_are_unique_and_links_have_targets(make_tables: Make) -> None:
    page = Page(render([make_tables("a"), make_tables("b")]))
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    pointed = [value[1:] for _, name, value in page.attributes if name == "href"]
    pointed += [one for _, name, value in page.attributes if name == "aria-labelledby" for one in value.split()]
    assert set(pointed) <= set(ids)
    assert {"s0", "s1", "findings", "profiles", "numbers", "provenance", "definitions"} <= set(pointed)
    assert page.tags["h1"] == 1


def test_every_finding_has_its_figure_and_every_figure_a_name(tables: Tables) -> None:
    source = render([tables])
    cards = source.split('<li class="card">')[1:]
    assert len(cards) >= 5
    assert all('data-measure="' in card and "#definition-" in card for card in cards)
    drawn = re.findall(r'<svg class="chart"[^>]*aria-labelledby="(\S+) (\S+)"', source)
    assert len(drawn) == len(cards)
    assert all(f'<title id="{title}">' in source and f'<desc id="{desc}">' in source for title, desc in drawn)


def test_the_opening_states_what_was_surveyed(tables: Tables) -> None:
    assert (
        "minilm-l6 (bert, float32, cpu) was run on 10,000 documents of chitchat. The survey covers 131,072 "
        "positions of 500 unit types at each of 8 layers, as vectors of 384 coordinates."
    ) in render([tables])


def test_surveys_that_differ_in_adapters_or_min_count_have_different_names(tables: Tables) -> None:
    model = {"name": "m", "adapters": ["<b>law</b>"]}
    adapted = replace(tables, facts={**tables.facts, "model": model})
    rarer = replace(tables, facts={**tables.facts, "settings": {"min_count": 10}})
    assert label_surveys([tables, adapted]) == [tables.name, f"{tables.name} with the adapter <b>law</b>"]
    assert [label.rpartition(", ")[2] for label in label_surveys([tables, rarer])] == [
        "min-count 1",
        "min-count 10",
    ]
    page = render([tables, adapted])
    assert "with the adapter &lt;b&gt;law&lt;/b&gt;" in page
    assert "<b>law" not in page


def test_undefined_is_a_dash_with_a_reason(tables: Tables) -> None:
    page = render([tables])
    assert '<span class="un" title="V is 0 for every &quot;id&quot; unit">–</span>' in page
    assert ">nan<" not in page.lower()


def test_numbers_are_packed_as_bytes_and_small(make_tables: Make) -> None:
    # Three populations, two numbers of three bytes each, a third more as base64; the rest is words and page.
    layers, units = 13, 3000
    bytes_wanted = layers * units * 3 * 2 * 3 * 4 / 3
    assert len(render([make_tables(layers=layers, units=units)]).encode()) < 1.1 * bytes_wanted + 500_000


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_few_layers(make_tables: Make, layers: int) -> None:
    assert Page(render([make_tables(layers=layers, units=20)])).open == []


@pytest.mark.parametrize("population", ["all", "without-first", "without-massive", "only <b>nouns</b>"])
def test_one_population(make_tables: Make, population: str) -> None:
    tables = make_tables(populations=("all",), layers=3, units=20)
    named = {name: getattr(tables, name).assign(population=population) for name in ("layers", "tokens")}
    source = render([replace(tables, **named)])
    assert Page(source).open == []
    survey = data_of(source)["surveys"][0]
    assert survey["populations"] == list(survey["profiles"]) == list(survey["tokens"]) == [population]


@pytest.mark.parametrize(
    "column", ["q", "mean_cosine", "twonn", "norm_p50", "tradeoff_r2", "n", "layer_name", "dim"]
)
@pytest.mark.parametrize("value", [slow(np.nan), slow(None), pd.NA])
def test_an_empty_column(make_tables: Make, column: str, value: Any) -> None:
    tables = make_tables(layers=3, units=20)
    layers = tables.layers.astype({column: object})
    layers[column] = value
    assert Page(render([replace(tables, layers=layers)])).open == []
    assert Page(render([replace(tables, layers=layers.drop(columns=column))])).open == []


def test_almost_nothing_is_still_a_page(tables: Tables) -> None:
    bare = Tables("bare", {}, tables.layers[["layer", "population"]], pd.DataFrame(), pd.DataFrame())
    words = "".join(Page(render([bare, Tables("none", {}, *[pd.DataFrame()] * 3)])).text)
    assert "No measure is defined, so there are no findings." in words
    assert "The survey has no survey.json." in words
    assert "The survey has no layer table" in words


def test_a_survey_may_be_a_mapping_or_a_similar_object(tables: Tables) -> None:
    class Alike:
        def __init__(self) -> None:
            for field in fields(Tables):
                setattr(self, field.name, getattr(tables, field.name))

    mapping = {field.name: getattr(tables, field.name) for field in fields(Tables)}
    least = {name: mapping[name] for name in ("name", "facts", "layers", "tokens", "units")}
    assert render([mapping]) == render([least]) == render([Alike()]) == render([tables])  # type: ignore[list-item]


def test_errors_state_what_was_expected(tables: Tables) -> None:
    with pytest.raises(InputError, match=r"surveys: expected at least one survey"):
        render([])
    with pytest.raises(InputError, match=r"surveys: .* dict lacks tokens, units\. Pass"):
        render([{"name": "a", "facts": {}, "layers": tables.layers}])
    with pytest.raises(
        InputError, match=r"layers: expected the columns layer and population; 'a' lacks population"
    ):
        render([Tables("a", {}, tables.layers.drop(columns="population"), tables.tokens, tables.units)])


def test_the_file_is_moved_into_place(tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    write([tables], path)
    assert path.read_text("utf-8") == render([tables])
    path.write_text("before")

    def fail(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(TheodoliteError, match=r"report\.html could not be written: no"):
        write([tables], path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
