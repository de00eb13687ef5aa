"""The data of the page as text: no token can break out of it, and it is small."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.report.conftest import make, with_curves
from tests.shared import slow

import theodolite
from theodolite.report import Tables, render, write
from theodolite.report.layer_table import FRAME, render_layer_table
from theodolite.report.payload import build_payload
from theodolite.report.payload.layers import list_layers, pack_profiles
from theodolite.report.payload.pack import unpack
from theodolite.report.payload.payload import BUDGET, POINTS
from theodolite.report.payload.sample import BYTES_PER_POINT

Make = Callable[..., Tables]
HARD = [
    "</script>",
    "</SCRIPT>",
    "<!--",
    "<script>",
    "-->",
    "\u2028",
    "\u2029",
    "\ud800",
    "\udfff",
    "]]>",
    "\x00",
    '"',
    "\\",
    "\\u003c",
]


def with_texts(make_tables: Make, texts: list[str]) -> Tables:
    tables = make_tables(layers=1, populations=("all",), units=len(texts))
    keys = pd.Series([f"{place} {text}" for place, text in enumerate(texts)], dtype=object)
    tokens = tables.tokens.assign(unit=keys, n=range(len(texts), 0, -1))
    known = tables.units.assign(unit=keys, text=pd.Series(texts, dtype=object))
    return replace(tables, name=" ".join(texts), tokens=tokens, units=known)


def test_unusual_tokens_stay_inside_the_script_element(make_tables: Make) -> None:
    text = build_payload([with_texts(make_tables, HARD)])
    assert "<" not in text
    assert text.isascii()
    shown = json.loads(text)["surveys"][0]["units"]["text"]
    assert shown[:5] == HARD[:5]
    assert shown[5:9] == ["U+2028", "U+2029", "U+D800", "U+DFFF"]
    assert shown[9:] == ["]]>", "U+0000", '"', "\\", "\\u003c"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, None, pd.NA, 1e300])
def test_nan_and_infinity_are_null_in_json(make_tables: Make, value: Any) -> None:
    tables = make_tables(layers=3, units=4)
    odd = tables.layers.astype({"mean_cosine": object, "q": object})
    odd.loc[odd["layer"] == 1, ["mean_cosine", "q"]] = value
    with np.errstate(over="ignore"):
        found = json.loads(build_payload([replace(tables, layers=odd)]), parse_constant=pytest.fail)
    column = unpack(found["surveys"][0]["profiles"]["all"]["columns"]["mean_cosine"])
    assert np.isfinite(column).tolist() == [True, False, True]


def test_profiles_are_the_layer_table(tables: Tables) -> None:
    for population, found in pack_profiles(tables).items():
        rows = tables.layers[tables.layers["population"] == population].sort_values("layer")
        for column, packed in found["columns"].items():
            assert np.array_equal(unpack(packed), rows[column].to_numpy(dtype=np.float32), equal_nan=True)
        assert {"q", "mean_cosine", "mean_cosine_se", "norm_p50", "massive"} <= set(found["columns"])
        assert found["reasons"]["tradeoff_r2"] == 'V is 0 for every "id" unit'


def test_depth_is_0_at_the_embeddings_and_1_at_the_last_block(make_tables: Make) -> None:
    found = list_layers(make_tables(layers=5))
    assert [layer["depth"] for layer in found] == pytest.approx([0, 1 / 3, 2 / 3, 1, 4 / 3])
    assert [layer["name"] for layer in found] == ["embeddings", "block 1", "block 2", "block 3", "final norm"]
    assert [layer["depth"] for layer in list_layers(make_tables(layers=1))] == [0]


def test_a_population_may_lack_a_layer(make_tables: Make) -> None:
    tables = make_tables(layers=3, units=4)
    short = tables.layers[(tables.layers["population"] == "all") | (tables.layers["layer"] != 1)]
    column = pack_profiles(replace(tables, layers=short))["without-first"]["columns"]["q"]
    assert np.isfinite(unpack(column)).tolist() == [True, False, True]


@pytest.fixture(scope="module")
def large() -> Tables:
    """Give a survey with more units, contexts and neighbours than a page holds."""
    tables = make(layers=7, units=20_000)
    units = tables.units["unit"]
    words = "some words of a sentence that is long enough " * 2
    where = {"key": range(len(units)), "document": 0, "window": 0, "position": 7}
    contexts = pd.DataFrame({"unit": units, **where, "before": words, "text": "word", "after": words})
    near = {
        "layer": 1,
        "population": "all",
        "unit": units,
        "rank": 1,
        "neighbour": units[::-1].reset_index(drop=True),
    }
    return replace(tables, contexts=contexts, neighbours=pd.DataFrame({**near, "cosine": 0.5}))


@pytest.mark.parametrize("surveys", [slow(1), 3])
def test_a_page_of_large_surveys_is_smaller_than_10_megabytes(large: Tables, surveys: int) -> None:
    page = render([large] * surveys)
    assert 7_000_000 < len(page.encode()) < 10_000_000
    text = page.split('id="data">', 1)[1].split("</script>", 1)[0]
    for one in json.loads(text)["surveys"]:
        assert 100 <= len(one["units"]["text"]) < one["units"]["total"] == 20_000
        assert one["contexts"]["text"]
    # Most of it is bytes: two matrices of three bytes a number, a third more as base64.
    assert sum(map(len, re.findall(r'"data":"([^"]*)"', text))) > 0.6 * len(text)


@pytest.fixture(scope="module")
def deep() -> Tables:
    """Give a survey of a deep decoder: four populations, long texts that are not ASCII, and contexts."""
    tables = make(layers=34, units=4_000)
    # Emoji take 12 bytes of JSON, and "<" takes six.
    texts = pd.Series([f"{place}<\U0001f600é語" * 8 for place in range(len(tables.units))], dtype=object)
    reasons = json.dumps({f"measure_{place}": "the number of vectors is too small" for place in range(60)})
    undefined = {f"measure_{place}": np.nan for place in range(60)} | {"undefined": reasons}
    tokens = tables.tokens.assign(unit=np.tile(texts, len(tables.tokens) // len(texts)))
    other = tokens[tokens["population"] == "without-first"].assign(population="without-sinks")
    other["m"] *= 2
    layers = tables.layers.assign(**undefined)
    fourth = layers[layers["population"] == "without-first"].assign(population="without-sinks")
    words = "語 \U0001f600 <é> " * 10
    where = {"key": range(len(texts)), "document": 0, "window": 0, "position": 7}
    contexts = pd.DataFrame({"unit": texts, **where, "before": words, "text": texts, "after": words})
    layer = np.repeat(range(34), 600)
    near = {"layer": layer, "population": "all", "unit": [*texts[:600]] * 34, "rank": 1, "neighbour": texts[0]}
    return with_curves(
        replace(
            tables,
            layers=pd.concat([layers, fourth], ignore_index=True),
            tokens=pd.concat([tokens, other], ignore_index=True),
            units=tables.units.assign(unit=texts, text=texts, special=False),
            contexts=contexts,
            neighbours=pd.DataFrame({**near, "cosine": np.linspace(-1, 1, len(layer))}),
        ),
        ranks=600,
        points=2_000,
    )


@pytest.mark.parametrize("surveys", [1, 2, slow(6)])
def test_a_report_on_deep_surveys_is_smaller_than_10_megabytes(deep: Tables, surveys: int, tmp_path: Path) -> None:
    write([deep] * surveys, tmp_path / "report.html")
    assert 9_500_000 < (tmp_path / "report.html").stat().st_size < 10_000_000
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for one in json.loads(page.split('id="data">', 1)[1].split("</script>", 1)[0])["surveys"]:
        assert 50 <= len(one["units"]["text"]) < one["units"]["total"] == 4_000
        assert one["contexts"]["text"]
        assert one["neighbours"]["layers"][33]
        assert one["projections"]["all"][33]


@pytest.mark.slow
@pytest.mark.weights
def test_a_report_on_a_real_decoder_is_smaller_than_10_megabytes(tmp_path: Path) -> None:
    survey = theodolite.survey("smollm2-135m", "enwik8-clean", limit=2, sample_size=256)
    write([Tables.of(survey)], tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 10_000_000


def test_a_table_that_is_too_large_keeps_the_first_populations(tables: Tables) -> None:
    whole = render_layer_table(tables)
    assert render_layer_table(tables, len(whole.encode()) + FRAME) == whole
    cut = render_layer_table(tables, len(whole.encode()) // 2)
    assert len(cut.encode()) <= len(whole.encode()) // 2
    assert "of 24 rows" in cut
    rows = cut.split("<tbody>")[1].count("<tr")
    assert 8 <= rows < 24
    assert cut.count("</span>all</td>") + cut.count("</svg>all</td>") == 8


@pytest.mark.parametrize("budget", [150_000, 400_000, 1_000_000])
def test_data_fit_in_any_budget_that_holds_the_layers(deep: Tables, budget: int) -> None:
    more = {"measures": ["é" * 100]}
    assert 0.5 * budget < len(build_payload([deep], more, budget)) <= budget


def test_a_deep_survey_of_few_units_fills_the_page_with_vectors() -> None:
    tables = with_curves(make(layers=33, units=60), points=4000)
    text = build_payload([tables])
    assert len(text) < BUDGET
    planes = json.loads(text)["surveys"][0]["projections"]
    count = len(unpack(planes["all"][0]["x"]))
    # Their share of the budget would be enough for two thirds of them.
    assert count > 1.5 * POINTS * BUDGET / BYTES_PER_POINT / (33 * len(planes))
    assert len(unpack(planes["without-massive"][32]["x"])) == count


def test_surveys_on_one_page_open_with_the_same_population() -> None:
    def survey(causal: bool) -> Tables:
        tables = make(layers=2, units=4)
        facts = {**tables.facts, "model": {**tables.facts["model"], "causal": causal}}
        return replace(tables, facts={**facts, "populations": ["all", "without-sinks"]})

    def opening(*surveys: Tables) -> str:
        found = json.loads(render(surveys).split('id="data">', 1)[1].split("</script>", 1)[0])
        return str(found["population"])

    assert opening(survey(False)) == "all"
    assert opening(survey(False), survey(True)) == opening(survey(True)) == "without-sinks"


def test_a_deep_survey_uses_what_a_shallow_one_leaves() -> None:
    shallow, deep = make(layers=3, units=20), with_curves(make("deep", layers=33, units=60), points=3000)
    alone, both = build_payload([deep]), build_payload([deep, shallow])
    assert len(both) < BUDGET
    counts = [len(unpack(json.loads(text)["surveys"][0]["projections"]["all"][0]["x"])) for text in (alone, both)]
    # Half of the page would be enough for half as many vectors.
    assert counts[1] > 0.8 * counts[0]
