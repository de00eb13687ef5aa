"""coordinates.parquet against a recomputation that keeps every vector, one coordinate at 3,000 among them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests import oracles
from tests.hard_cases import OFFSET, Case, hard, of_states
from tests.small_models import sentences

from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.rare_units import choose_units
from theodolite.surveys.api import survey as whole_survey
from theodolite.surveys.folder import open_survey, open_tables
from theodolite.surveys.merge import merge
from theodolite.surveys.vectors import measure
from theodolite.tables.coordinates import COORDINATES, coordinate_rows, join_coordinates
from theodolite.tables.layer_row import make_layer_row
from theodolite.tables.rare_units import find_rare

MEAN = 1e-11
"""Of the coordinate's root mean square: float64 sums about a near centre."""
SCATTER = 2e-6
"""Of E (x_i - c_i)^2: a float32 product within a batch."""
SHARE = 1e-5
"""Absolute: x/|x| is float32."""
DOCUMENTS = sentences(40, seed=71)
survey = partial(whole_survey, sample_size=64)  # neighbours of more take longer than all the rest


def rows_of(fold: LayerFold, population: str, *, with_units: bool = True) -> pd.DataFrame:
    cells = POPULATIONS[population]
    row, sums, units, *_ = make_layer_row(fold, cells, with_units=with_units)
    return coordinate_rows(
        fold,
        cells,
        sums,
        v_within=row["v_within"],
        v_between=row["v_between"],
        with_units=with_units,
        rare=find_rare(fold, cells, sums, units),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("population", POPULATIONS)
def test_every_column(population: str, dtype: torch.dtype) -> None:
    case = hard(dtype, rows=1600, offset=OFFSET)
    chosen = case.belongs(population)
    x, unit = oracles.wide(case.x[chosen]), case.unit[chosen]
    found = rows_of(case.fold(), population)
    mean, q = x.mean(axis=0), (x**2).mean(axis=0)
    v_within, v_between = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for code in np.unique(unit):
        mine = x[unit == code]
        v_within = v_within + len(mine) / len(x) * ((mine - mine.mean(axis=0)) ** 2).mean(axis=0)
        v_between = v_between + len(mine) / len(x) * (mine.mean(axis=0) - mean) ** 2
    second = ((x - case.frame.centre.double().numpy()) ** 2).mean(axis=0)
    assert found["coordinate"].tolist() == list(range(x.shape[1]))
    assert (np.abs(found["mu_i"] - mean) <= MEAN * np.sqrt(q)).all()
    assert (np.abs(found["v_between_i"] - v_between) <= 1e-9 * v_between + 1e-12 * q).all()
    assert (np.abs(found["v_within_i"] - v_within) <= SCATTER * second).all()
    assert (np.abs(found["v_i"] - ((x - mean) ** 2).mean(axis=0)) <= SCATTER * second).all()
    assert (np.abs(found["q_i"] - q) <= SCATTER * second + MEAN * q).all()
    assert found["cosine_share_i"].to_numpy() == pytest.approx(shares(case.x[chosen]), abs=SHARE)


def shares(x: np.ndarray) -> np.ndarray:
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    parts = np.array([u[:, i].sum() ** 2 - (u[:, i] ** 2).sum() for i in range(x.shape[1])])
    return parts / parts.sum()


def test_the_far_coordinate_makes_the_cosine_and_none_of_the_variance() -> None:
    found = rows_of(hard().fold(), "without-first")
    far = found["cosine_share_i"].idxmax()
    assert far == 24
    assert found["cosine_share_i"][far] > 0.99
    assert found["v_i"][far] < 3 * found["v_i"].median()


def test_float32_sums_of_raw_squares_would_lose_the_far_coordinate() -> None:
    case = hard()
    chosen = case.belongs("without-first")
    x = case.states[torch.from_numpy(chosen)][:, 24].numpy()
    naive = np.square(x).mean(dtype=np.float32) - np.square(x.mean(dtype=np.float32))
    true = x.astype(np.longdouble).var()
    assert abs(naive - true) > 0.1 * true
    assert abs(rows_of(case.fold(), "without-first")["v_i"][24] - true) < 1e-5 * true


def test_within_is_exactly_0_where_no_unit_varies() -> None:
    unit = torch.arange(300) % 7
    states = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))[unit]
    found = rows_of(of_states(states, unit).fold(), "all")
    assert found["v_within_i"].tolist() == [0.0] * 5
    assert (found["v_i"] == found["v_between_i"]).all()


def test_what_is_estimated_of_a_coordinate_is_not_above_its_variance() -> None:
    """Units do not vary in coordinate 0, so that v_between_0 is v_0: half of all estimates would exceed it."""
    random = torch.Generator().manual_seed(0)
    unit = torch.arange(900) % 300
    states = torch.randn(300, 6, generator=random)[unit]
    states[:, 1:] += torch.randn(900, 5, generator=random)
    case = of_states(states, unit)
    whole = rows_of(case.fold(), "all")
    exceeded = 0
    for seed in range(8):
        kept = choose_units(np.arange(300), np.full(300, 3), 10, sampled=30, seed=seed)
        fold = case.fold(replace(case.frame, kept=kept))
        found, row = rows_of(fold, "all"), make_layer_row(fold, POPULATIONS["all"])[0]
        for column in ("q_i", "mu_i", "v_i"):
            np.testing.assert_allclose(found[column], whole[column], rtol=2 * SCATTER)
        assert (found[["v_within_i", "v_between_i"]] >= 0).all().all()
        assert found["v_between_i"].sum() == pytest.approx(row["v_between"], rel=1e-5)
        exceeded += found["v_within_i"][0] == 0.0
    assert exceeded >= 2


def test_without_units_there_is_no_within_and_between(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(2, 1, (400, 6))
    found = measure(x, out=tmp_path / "out").coordinates
    assert found["population"].unique().tolist() == ["all", "without-massive"]
    assert found[["v_within_i", "v_between_i"]].isna().all().all()
    assert found["v_i"][:6].to_numpy() == pytest.approx(x.var(axis=0), rel=1e-6)
    assert found["q_i"][:6].to_numpy() == pytest.approx((x**2).mean(axis=0), rel=1e-6)


def test_an_empty_population_has_no_rows() -> None:
    case = of_states(torch.randn(20, 4))
    cells = (1,)
    row, sums, *_ = make_layer_row(case.fold(), cells)
    empty = coordinate_rows(case.fold(), cells, sums, v_within=row["v_within"])
    assert len(join_coordinates([(0, "all", empty)])) == 0
    assert join_coordinates([]).columns.tolist() == COORDINATES


def test_one_vector_has_no_spread_and_no_cosine() -> None:
    case: Case = of_states(torch.tensor([[3.0, 4.0]]))
    found = rows_of(case.fold(), "all")
    assert found["mu_i"].tolist() == [3.0, 4.0]
    assert found["v_i"].tolist() == [0.0, 0.0]
    assert found["cosine_share_i"].isna().all()


def totals(found: Any) -> pd.DataFrame:
    table = found.coordinates.assign(m=found.coordinates["mu_i"] ** 2)
    names = {"q_i": "q", "m": "m", "v_i": "v", "v_within_i": "v_within", "v_between_i": "v_between"}
    return table.groupby(["layer", "population"])[list(names)].sum().rename(columns=names)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_coordinates_add_up_to_the_layers(small_model: Any, family: str) -> None:
    found = survey(small_model(family), DOCUMENTS)
    layers = found.layers.set_index(["layer", "population"]).sort_index()
    mine = totals(found).sort_index()
    assert mine.index.tolist() == layers.index.tolist()
    assert mine["m"].to_numpy() == pytest.approx(layers["m"].to_numpy(), rel=1e-12)
    assert mine["v_between"].to_numpy() == pytest.approx(layers["v_between"].to_numpy(), rel=1e-9)
    for part in ("q", "v", "v_within"):
        assert mine[part].to_numpy() == pytest.approx(layers[part].to_numpy(), rel=1e-5), part
    sums = found.coordinates.groupby(["layer", "population"])["cosine_share_i"].sum()
    assert sums.to_numpy() == pytest.approx(1, abs=1e-9)


def test_saved_opened_and_merged(small_model: Any, tmp_path: Path) -> None:
    found = survey(small_model("bert"), DOCUMENTS, out=tmp_path / "whole")
    again = open_survey(tmp_path / "whole")
    pd.testing.assert_frame_equal(found.coordinates, again.coordinates, check_exact=True)
    _, tables = open_tables(tmp_path / "whole", ["coordinates"])
    pd.testing.assert_frame_equal(found.coordinates, tables["coordinates"], check_exact=True)
    assert len(found.coordinates) == 4 * 4 * 32
    parts = [
        survey(small_model("bert"), half, pilot=tmp_path / "whole") for half in (DOCUMENTS[:20], DOCUMENTS[20:])
    ]
    merged = merge(parts).coordinates
    for column in COORDINATES[3:]:
        near = 1e-5 * found.coordinates[column].abs().max()
        assert merged[column].to_numpy() == pytest.approx(found.coordinates[column].to_numpy(), rel=1e-4, abs=near)


def test_a_population_that_a_merge_lost_has_no_rows(small_model: Any) -> None:
    halves = [survey(small_model("gpt2"), half) for half in (DOCUMENTS[:20], DOCUMENTS[20:])]
    merged = merge(halves)
    assert "without-massive" in merged.facts["lost"]
    assert set(merged.coordinates["population"]) == {"all", "without-first"}
