"""The claims of the papers: verdicts follow from intervals, and numbers of other pages are on those pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from manual import reference_surveys
from manual.claims import from_tables
from manual.claims.claim_list import PAPERS, TITLES
from manual.claims.page import page
from manual.claims.verdicts import HELD, NOT, OPEN, Finding, apart, combine, decide
from manual.pages import DOCS
from manual.reference_surveys import (
    COLUMNS,
    CORPORA,
    EXCERPTS,
    fit_units,
    list_rows,
    list_runs,
    read_reference_table,
)

from theodolite.corpora.catalogue.entries import MODELS
from theodolite.statistics.cells import POPULATIONS


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [
        (0.3, 0.05, HELD),
        (0.3, 0.052, OPEN),
        (0.1, 0.05, NOT),
        (0.1, 0.06, OPEN),
        (0.3, np.nan, HELD),
        (0.1, np.nan, NOT),
    ],
)
def test_a_number_decides_only_if_its_interval_is_on_one_side(value: float, error: float, verdict: str) -> None:
    assert decide(value, error, 0.2) == verdict


def test_an_undefined_number_decides_nothing_and_a_part_that_failed_decides() -> None:
    assert decide(np.nan, 0.1) == OPEN
    assert combine(HELD, HELD) == HELD
    assert combine(HELD, OPEN) == OPEN
    assert combine(OPEN, NOT, HELD) == NOT


def test_the_difference_of_two_rows_has_the_error_of_independent_numbers() -> None:
    later, earlier = pd.Series({"x": 5.0, "x_se": 3.0}), pd.Series({"x": 1.0, "x_se": 4.0})
    assert apart(later, earlier, "x") == (4.0, 5.0)


def table(**columns: Sequence[Any]) -> pd.DataFrame:
    """A reference table of one encoder and one corpus; the columns are by layer."""
    layers = len(next(iter(columns.values())))
    names = ["embeddings", *(f"block {number}" for number in range(1, layers))]
    rows = pd.DataFrame({"layer": range(layers), "layer_name": names, **columns})
    return rows.assign(
        kind="encoder", model="m", corpus="c", population="all", causal=False, norm_placement="post"
    )


def find(monkeypatch: pytest.MonkeyPatch, test: Any, rows: pd.DataFrame) -> list[Finding]:
    monkeypatch.setattr(from_tables, "read_reference_table", lambda: rows)
    return list(test())


@pytest.mark.parametrize(
    ("shares", "rise", "error", "verdict"),
    [
        ([0.1, 0.2, 0.3], 0.2, 0.05, HELD),
        ([0.1, 0.2, 0.3], 0.2, 0.2, OPEN),
        ([0.3, 0.2, 0.1], -0.2, 0.05, NOT),
        ([0.2, 0.1, 0.3], 0.1, 0.01, NOT),  # higher at the end, but it does not rise with depth
    ],
)
def test_a_share_rises_with_depth(
    monkeypatch: pytest.MonkeyPatch, shares: list[float], rise: float, error: float, verdict: str
) -> None:
    rows = table(text_m_of_q=shares, text_m_of_q_rise=[0, 0, rise], text_m_of_q_rise_se=[0, 0, error])
    (found,) = find(monkeypatch, from_tables.mean_share_rises, rows)
    assert found.verdict == verdict


def test_the_lowest_variation_must_be_inside_and_clearly_below_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def verdict(values: list[float], error: float) -> str:
        rows = table(text_q_cv=values, text_q_cv_se=[error] * len(values))
        (found,) = find(monkeypatch, from_tables.least_variation_inside, rows)
        return found.verdict

    assert verdict([0.5, 0.3, 0.1, 0.3, 0.5], 0.01) == HELD
    assert verdict([0.5, 0.3, 0.1, 0.3, 0.5], 0.3) == OPEN
    assert verdict([0.5, 0.4, 0.3, 0.2, 0.1], 0.01) == NOT


def test_too_few_layers_cannot_decide_whether_two_curves_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    def verdict(count: int, sign: int) -> str:
        x = np.random.default_rng(0).normal(size=count)
        rows = table(m_of_q=x, mean_cosine=sign * x)
        (found,) = find(monkeypatch, from_tables.mean_share_and_cosine, rows)
        return found.verdict

    assert verdict(7, 1) == OPEN  # seven shifts cannot have a p below 1/7
    assert (verdict(40, 1), verdict(40, -1)) == (HELD, NOT)


@pytest.mark.parametrize(
    ("cosines", "rise", "verdict"),
    [([0.8, 0.4, 0.1], -0.7, HELD), ([0.1, 0.4, 0.8], 0.7, NOT), ([0.5, 0.1, 0.4], -0.1, NOT)],
)
def test_resnet_becomes_isotropic_if_its_mean_cosine_falls_with_depth(
    monkeypatch: pytest.MonkeyPatch, cosines: list[float], rise: float, verdict: str
) -> None:
    rows = table(mean_cosine=cosines, mean_cosine_rise=[0, 0, rise], mean_cosine_rise_se=[0, 0, 0.01])
    rows = rows.assign(kind="convolution", model=from_tables.RESNET)
    (found,) = find(monkeypatch, from_tables.resnet_becomes_isotropic, rows)
    assert found.verdict == verdict


def test_models_of_characters_are_apart_from_those_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table(m=[1.0, 4.0, 9.0, 16.0], mean_cosine=[0.1, 0.2, 0.3, 0.4])
    both = pd.concat([rows, rows.assign(model="antiberty")]).assign(stack="")
    assert [one.model for one in find(monkeypatch, from_tables.drift_of_text, both)] == ["m"]
    assert [one.model for one in find(monkeypatch, from_tables.drift_of_characters, both)] == ["antiberty"]


def test_a_kind_that_the_catalogue_lacks_cannot_be_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table(mean_cosine=[0.1, 0.5], mean_cosine_se=[0.01, 0.01])
    assert find(monkeypatch, from_tables.vision_models, rows) == []
    (found,) = find(monkeypatch, from_tables.vision_models, rows.assign(kind="vision"))
    assert found.verdict == HELD


def test_models_of_other_kinds_in_the_catalogue_are_surveyed_on_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = SimpleNamespace(name="vit", kind="vision")
    monkeypatch.setattr(reference_surveys, "MODELS", {**MODELS, "vit": entry})
    assert ("vit", "pictures") in [(run.model, run.corpus) for run in list_runs() if run.kind == "vision"]
    versions = dict.fromkeys(("theodolite", "torch", "transformers"), "1")
    facts = {"model": {"modality": "vision"}, "corpus": {"documents": 2}, "settings": {}, "versions": versions}
    facts |= {"times": {"finished": "2026-01-01"}, "layers": [{"index": 0, "stack": ""}]}
    layers = pd.DataFrame({"layer": [0], "layer_name": ["block 1"], "population": ["all"], "mean_cosine": [0.5]})
    rows = list_rows(facts, layers, list_runs()[0])
    assert (rows["kind"].iloc[0], rows["mean_cosine"].iloc[0]) == ("vision", 0.5)


def test_fits_over_units_are_those_of_frequent_units_that_are_not_special() -> None:
    rng = np.random.default_rng(0)
    n = np.array([5, *range(10, 30), 50])
    m = rng.uniform(1, 2, size=len(n))
    tokens = pd.DataFrame(
        {"layer": 0, "population": "all", "unit": [f"u{one}" for one in n], "n": n, "m": m, "v": 3 - m}
    )
    tokens["q"] = tokens["m"] + tokens["v"]
    tokens.loc[tokens["n"] == 50, "v"] = 1000.0  # special, such as [SEP]
    units = pd.DataFrame({"unit": tokens["unit"], "special": tokens["n"] == 50})
    (found,) = fit_units(tokens, units).to_dict("records")
    assert found["text_tradeoff_slope"] == pytest.approx(-1)
    assert found["text_q_cv"] == pytest.approx(0, abs=1e-12)
    kept = (n >= 10) & (n < 50)
    expected = np.polyfit(np.log10(n[kept]), m[kept] / 3, 1)[0]
    assert found["m_on_log_n"] == pytest.approx(expected)
    assert found["v_on_log_n"] == pytest.approx(-expected)


def test_numbers_from_other_pages_are_on_those_pages() -> None:
    for claims in PAPERS.values():
        for claim in claims:
            assert (claim.test is None) == bool(claim.page), claim.claim
            text = (DOCS / claim.page).read_text("utf-8") if claim.page else ""
            for finding in claim.findings:
                for number in re.findall(r"\d[\d,]*(?:\.\d+)?(?:e-\d+)?%?", finding.numbers):
                    assert number in text, f"{claim.page} has no {number}: {finding}"


def test_the_page_has_every_claim_and_is_current() -> None:
    text = (DOCS / "claims.md").read_text("utf-8")
    assert text == page(), "docs/claims.md is old: `make docs-renew` renews it"
    assert set(PAPERS) == set(TITLES)
    for claims in PAPERS.values():
        assert all(text.count(f"| {claim.claim} (") == 1 for claim in claims)


def test_the_reference_table_has_every_model_layer_and_population() -> None:
    rows = read_reference_table()
    assert {run.model for run in list_runs()} == set(MODELS)
    assert set(rows["population"]) == set(POPULATIONS)
    assert set(COLUMNS) <= set(rows.columns)
    for (model, _), part in rows.groupby(["model", "corpus"]):
        entry = MODELS[str(model)]
        assert len(part) == part["layer"].nunique() * len(POPULATIONS)
        assert part["layer"].nunique() > entry.layers + entry.decoder_layers
    known = {(run.model, run.corpus.rpartition("/")[2]) for run in list_runs()}
    assert set(zip(rows["model"], rows["corpus"], strict=True)) == known
    assert set(rows.loc[rows["corpus"].isin(CORPORA["text"]), "documents"]) == {EXCERPTS}
    assert all(rows[name].nunique() == 1 for name in ("theodolite", "torch", "transformers"))
