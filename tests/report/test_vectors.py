"""The report of vectors from a file: it does not mention positions, tokens or layers."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from tests.report.conftest import make, vectors
from tests.report.test_page import Page, data_of

from theodolite.report import page as page_module
from theodolite.report import render
from theodolite.report.findings import collect_findings, collect_warnings
from theodolite.report.markdown import render_markdown
from theodolite.report.vectors import rewording_rules

OF_TEXTS = r"(?i)\b(positions?|tokens?|units?|documents?|layers?|blocks?|activations?)\b|over all vectors"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "read_plotly", lambda: "/* Plotly */")


def parts(source: str) -> list[str]:
    return re.findall(r'data-part="([^"]+)"', source)


def test_findings_and_warnings_are_about_vectors_and_groups() -> None:
    tables = vectors(
        massive=2, zero=1, nonfinite=1, tradeoff_slope=0.4, undefined=json.dumps({"q_cv": "one unit"})
    )
    sentences = [
        words for one in collect_findings(tables) for words in (one.headline, one.text)
    ] + collect_warnings(tables)
    assert len(sentences) >= 14
    for words in sentences:
        assert not re.search(OF_TEXTS, words.replace("layers.parquet", "")), words
        assert not re.search(r"^(highest|largest)|tightest|of all layers", words), words
    found = {one.key: one for one in collect_findings(vectors())}
    assert found["mean_cosine"].headline == "mean cosine"
    assert "The average cosine of two vectors is " in found["mean_cosine"].text
    assert "Coordinate 7 contributes 97.7% of it." in found["mean_cosine"].text
    assert "over 412 groups" in found["tradeoff"].text


def test_the_opening_counts_vectors_and_groups() -> None:
    source = render([vectors(n=599, nonfinite=1, types=1, dim=64)])
    Page(source)
    tiles = re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", source.split('class="tiles"')[1].split("</dl>")[0])
    assert tiles == [("vectors", "600"), ("group", "1"), ("coordinates", "64")]
    assert "600 vectors of tokens.npz in 1 group, measured as given, with 64 coordinates each." in source
    assert "1 of 600 vectors is not finite" in source


def test_one_layer_has_no_charts_over_layers() -> None:
    source = render([vectors()])
    # No single bar, and no map of three groups: their numbers are a table.
    assert parts(source) == ["spectra", "projection"]
    assert re.findall(r'<th scope="row">(cat|dog|bird)</th>', source)
    leads = re.findall(r'<h2 id="[^"]+-head">(.*?)</h2><p class="quiet">(.*?)</p>', source)
    assert len(leads) == 2
    assert not re.search(OF_TEXTS, " ".join(map(" ".join, leads)))
    for target in re.findall(r'href="#([^"]+)"', source):
        assert f'id="{target}"' in source, target
    # Also where a model was read at one layer.
    one = render([make(layers=1, units=20)])
    assert not {"profiles", "norms"} & set(parts(one))
    assert "choose the layer" not in one.split('id="data"')[0]
    assert {"profiles", "norms"} <= set(parts(render([make(layers=2, units=20)])))


def test_the_script_has_the_same_words_and_user_names_are_unchanged() -> None:
    source = render([vectors()])
    assert data_of(source)["rewordings"] == [list(pair) for pair in rewording_rules()]
    assert "tokens.npz" in source
    assert "groups.npz" not in source
    assert not re.search(OF_TEXTS.replace("layers?|", ""), json.dumps([
        [label, meaning] for group in data_of(source)["measures"] for _, label, meaning, *_ in group["columns"]
    ]))  # fmt: skip
    # Beside a survey of a text the page keeps the words that fit both.
    assert data_of(render([vectors(), make(layers=2, units=20)]))["rewordings"] == []


def test_the_comparison_and_the_markdown_name_no_layers() -> None:
    source = render_markdown([vectors("tokens.npz"), vectors("units.npz", mean_cosine=0.3)])
    assert "over all vectors" not in source
    assert "Layer by layer" not in source
    assert "Groups at the extremes" in render_markdown([vectors()])


def test_a_count_of_one_has_its_noun_in_the_singular() -> None:
    tables = make(layers=1, units=1, populations=("all",))
    tables.facts["corpus"]["documents"] = 1
    alone = render([tables])
    assert "<dt>document</dt><dd>1</dd>" in alone
    assert "<dt>layer</dt><dd>1</dd>" in alone
    source = render([vectors(), tables])
    assert "One row and " in source
    words = "|".join(Page(source).text)
    assert not re.findall(
        r"(?<![\d.,×])\b1 (?:documents|layers|positions|units|groups|rows|entries|types)\b", words
    )


def test_the_name_of_the_only_layer_is_not_in_any_sentence() -> None:
    tables = vectors()
    named = replace(tables, layers=tables.layers.assign(layer_name="vector"))
    assert [one.text for one in collect_findings(named)] == [one.text for one in collect_findings(tables)]
    assert collect_warnings(named) == collect_warnings(tables)
    assert "at vector" not in render([named, named])
