"""Spectral and sampled columns of a row against keeping every vector, and the two tables of curves."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import skew
from tests.devices import DEVICES
from tests.hard_cases import OFFSET, Case, hard, of_states
from tests.measures.test_hubness import occurrences
from tests.measures.test_partition import by_definition

from theodolite import measure
from theodolite.measures.batches import ONE_BATCH
from theodolite.statistics.cells import POPULATIONS
from theodolite.storage.files import read_json, write_json
from theodolite.surveys.folder import _seal, open_survey, open_tables
from theodolite.surveys.merge import merge
from theodolite.tables import shape
from theodolite.tables.curves import TABLES, curve_table
from theodolite.tables.eigenproblems import MOST_DISTINCT, LayerSolutions
from theodolite.tables.layer_row import make_layer_row
from theodolite.tables.shape import SAMPLED, SHAPE, measure_shape

SPECTRAL = 1e-5
"""Relative: the scatter is a float32 product within a batch."""
SMALL = 1e-3
"""Relative: roots of small eigenvalues, of which rounding of the largest is a larger part."""
ROUNDED = 1e-6
"""Relative: float32 distances of neighbours beyond the second, where they are believed."""


def measured(fold: Any, population: str = "all") -> dict[str, Any]:
    return make_layer_row(fold, POPULATIONS[population])[0]


def reasons(row: dict[str, Any]) -> dict[str, str]:
    return json.loads(row["undefined"]) if row["undefined"] else {}


def sampled(case: Case, rows: np.ndarray) -> np.ndarray:
    """The vectors of smallest key among these rows, repeats dropped where asked for by the caller."""
    at = rows.nonzero()[0]
    keys = case.places.key.numpy()[at]
    return at[keys.argsort()][: case.frame.sample_size]


@pytest.mark.parametrize("offset", [OFFSET, 0.0], ids=["offset", "plain"])
@pytest.mark.parametrize("population", POPULATIONS)
def test_every_number_is_what_keeping_every_vector_gives(offset: float, population: str) -> None:
    case = hard(rows=1600, offset=offset)
    rows = case.belongs(population)
    row = measured(case.fold(), population)
    x = case.x[rows]
    check_spectral(row, x)
    check_rogue(row, x)
    chosen = case.x[sampled(case, rows)]
    u = chosen / np.linalg.norm(chosen, axis=1, keepdims=True)
    cosines = (u @ u.T)[~np.eye(len(u), dtype=bool)]
    assert row["sampled_cosine"] == pytest.approx(cosines.mean(), abs=4 * row["sampled_cosine_se"] + 1e-9)
    distinct = np.array(list(dict.fromkeys(map(tuple, chosen.tolist()))))
    check_neighbours(row, distinct)


def check_spectral(row: dict[str, Any], x: np.ndarray) -> None:
    spectrum = np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2
    share = np.cumsum(spectrum) / spectrum.sum()
    singular = np.sqrt(spectrum) / np.sqrt(spectrum).sum()
    assert row["effective_rank_singular"] == pytest.approx(
        math.exp(-(singular * np.log(singular)).sum()), rel=SMALL
    )
    for level in (90, 95, 99):
        assert row[f"pca_dim_{level}"] == next(k for k in range(1, len(share) + 1) if share[k - 1] >= level / 100)
    norm = np.linalg.norm
    assert row["stable_rank"] == pytest.approx(norm(x) ** 2 / norm(x, 2) ** 2, rel=SPECTRAL)


def check_rogue(row: dict[str, Any], x: np.ndarray) -> None:
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    parts = u.sum(axis=0) ** 2 - (u**2).sum(axis=0)
    shares = sorted(parts / parts.sum(), reverse=True)
    if row["rogue_coordinate"] is not None:
        assert row["rogue_coordinate"] == parts.argmax()
        assert row["rogue_cosine_share"] == pytest.approx(shares[0], rel=1e-3)
        assert row["rogue_half"] == next(k for k in range(1, len(shares) + 1) if sum(shares[:k]) >= 0.5)
    v = x.var(axis=0)
    assert row["rogue_variance_coordinate"] == v.argmax()
    assert row["rogue_variance_share"] == pytest.approx(v.max() / v.sum(), rel=SPECTRAL)


def check_neighbours(row: dict[str, Any], x: np.ndarray) -> None:
    distances = np.sort(np.linalg.norm(x[:, None] - x[None], axis=2), axis=1)[:, 1:]
    log_mu = np.log(distances[:, 1] / distances[:, 0])
    assert row["twonn_n"] == len(x)
    assert row["twonn_ml"] == pytest.approx((len(x) - 1) / log_mu.sum(), rel=1e-9)
    assert row["twonn_ml_se"] == pytest.approx(row["twonn_ml"] / math.sqrt(len(x) - 2), rel=1e-12)
    ordered, kept = np.sort(log_mu), len(x) // 5
    y = -np.log(1 - np.arange(1, kept + 1) / len(x))
    assert row["twonn_keep20"] == pytest.approx((ordered[:kept] @ y) / (ordered[:kept] @ ordered[:kept]), rel=1e-9)
    inverse = np.log(distances[:, 19:20] / distances[:, :19]).mean(axis=1)
    assert row["mle_dim"] == pytest.approx(1 / inverse.mean(), rel=ROUNDED * 1e3)
    assert row["hubness_skew"] == pytest.approx(skew(occurrences(x, 10)), rel=1e-6)


def test_the_far_coordinate_is_the_rogue_one() -> None:
    row = measured(hard().fold(), "without-first")
    assert (row["rogue_coordinate"], row["rogue_half"]) == (24, 1)
    assert row["rogue_cosine_share"] > 0.99
    assert row["rogue_variance_share"] < 0.1


def test_partition_isotropy_is_of_the_sample_along_the_axes_of_everything() -> None:
    x = torch.randn(60, 5, generator=torch.Generator().manual_seed(0)) + torch.tensor([1.0, 0, 0, 0, 0])
    row = measured(of_states(x).fold())  # 60 of a sample of 64: the sample is everything
    assert row["partition_isotropy"] == pytest.approx(float(by_definition(x.double().numpy())), rel=1e-4)
    assert row["partition_isotropy_log"] == pytest.approx(math.log(row["partition_isotropy"]))
    far = measured(of_states(x + 20_000).fold())
    assert far["partition_isotropy"] == 0
    assert far["partition_isotropy_log"] < -80_000


class TestBatches:
    def case(self, rows: int) -> Case:
        return of_states(torch.randn(rows, 6, generator=torch.Generator().manual_seed(1)), sample_size=10_000)

    def test_fewer_than_one_batch(self) -> None:
        row = measured(self.case(4095).fold(size=1000))
        for column in ("anisotropy_svd_shuffled", "anisotropy_svd_shuffled_sd", "twonn_batch", "twonn_batch_sd"):
            assert row[column] is None
            assert reasons(row)[column] == "4,095 vectors in the sample, and a batch has at least 4,096"

    def test_one_batch_has_no_spread(self) -> None:
        row = measured(self.case(4096).fold(size=1000))
        assert row["anisotropy_svd_shuffled"] == pytest.approx(row["anisotropy_svd"], rel=SPECTRAL)
        assert row["twonn_batch"] == row["twonn"]
        assert row["anisotropy_svd_shuffled_sd"] is None
        assert reasons(row)["anisotropy_svd_shuffled_sd"] == reasons(row)["twonn_batch_sd"] == ONE_BATCH

    def test_two_batches(self) -> None:
        case = self.case(8192)
        row = measured(case.fold(size=1000))
        x = case.x[sampled(case, np.ones(8192, dtype=bool))]
        made = [np.linalg.svd(part - part.mean(axis=0), compute_uv=False) ** 2 for part in (x[:4096], x[4096:])]
        shares = [part[0] / part.sum() for part in made]
        assert row["anisotropy_svd_shuffled"] == pytest.approx(np.mean(shares), rel=SPECTRAL)
        assert row["anisotropy_svd_shuffled_sd"] == pytest.approx(np.std(shares, ddof=1), rel=1e-2)
        assert row["twonn_batch"] == pytest.approx(row["twonn"], rel=0.1)  # two halves, one error bar of 2.5% each
        assert row["twonn_batch_sd"] > 0


@pytest.mark.parametrize("n", [0, 1, 2, 5, 12])
def test_few_vectors_are_null_with_a_reason(n: int) -> None:
    case = of_states(torch.randn(max(n, 1), 4, generator=torch.Generator().manual_seed(2)))
    if n == 0:
        case = replace(case, states=torch.full_like(case.states, torch.nan))
    row = measured(case.fold())
    why = reasons(row)
    assert {column for column in SHAPE if row[column] is None} == {column for column in SHAPE if column in why}
    assert row["mle_dim"] is None
    assert all(why[column] for column in SHAPE if column in why)
    assert (row["hubness_skew"] is None) == (n < 12)
    assert (row["twonn_ml"] is None) == (n < 12)
    assert (row["stable_rank"] is None) == (n < 1)


def test_a_missing_sample_is_reported() -> None:
    case = hard(rows=200)
    row = measured(case.fold(replace(case.frame, sample_size=0)))
    assert {column: reasons(row).get(column) for column in SAMPLED} == dict.fromkeys(
        SAMPLED, "the sample is empty"
    )
    assert row["stable_rank"] > 0


def test_zero_vectors_and_equal_ones() -> None:
    zero = measured(of_states(torch.zeros(50, 4)).fold())
    assert reasons(zero)["stable_rank"] == "all vectors are 0"
    assert reasons(zero)["sampled_cosine"] == "fewer than two vectors of the sample have a direction"
    assert (zero["twonn_n"], zero["sample_duplicates"]) == (1, 49)
    equal = measured(of_states(torch.ones(50, 4)).fold())
    assert equal["stable_rank"] == pytest.approx(1)
    assert equal["sampled_cosine"] == pytest.approx(1)
    assert reasons(equal)["pca_dim_90"] == "all vectors are equal"


@pytest.mark.parametrize("distinct", [1, MOST_DISTINCT, MOST_DISTINCT + 1])
@pytest.mark.parametrize("device", DEVICES)
def test_populations_that_share_a_matrix_are_solved_once(
    distinct: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First positions after a start token are few different vectors, however many there are."""
    x = torch.randn(400, 24, generator=torch.Generator().manual_seed(0)) + 1
    x[:20] = 30 * x[torch.arange(20) % distinct]
    case = of_states(x)
    fold = replace(case, places=replace(case.places, first=torch.arange(400) < 20)).fold()
    solve, solutions = shape.spectra.eigenvectors, []

    def count(moment: torch.Tensor) -> Any:
        solutions.append(len(moment))
        return solve(moment)

    monkeypatch.setattr(shape.spectra, "eigenvectors", count)
    solutions_of_layer = LayerSolutions(fold, device)
    for population in ("all", "without-first"):
        expected = measure_shape(fold, POPULATIONS[population])
        solutions.clear()
        found = measure_shape(fold, POPULATIONS[population], device, wait_for_solutions=lambda: solutions_of_layer)
        assert len(solutions) == (population == "all" or distinct > MOST_DISTINCT)
        for (reason, numbers), (other, by_column) in zip(expected.numbers, found.numbers, strict=True):
            assert reason == other
            for column, value in numbers.items():
                near = 1e-5 if column in SAMPLED else 1e-8  # some of the sample's distances are float32
                assert by_column[column] == pytest.approx(value, rel=near, abs=1e-12, nan_ok=True), column
        curve = found.spectrum["eigenvalue"]
        np.testing.assert_allclose(curve, expected.spectrum["eigenvalue"], rtol=1e-9, atol=1e-12 * curve[0])


def test_curves() -> None:
    case = hard(rows=800)
    shape = measure_shape(case.fold(), POPULATIONS["without-first"])
    x = case.x[case.belongs("without-first")]
    spectrum = np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2 / len(x)
    assert shape.spectrum["rank"].tolist() == list(range(1, 49))
    assert shape.spectrum["eigenvalue"].to_numpy() == pytest.approx(spectrum, rel=1e-4)
    assert shape.spectrum["cumulative"].to_numpy() == pytest.approx(np.cumsum(spectrum) / spectrum.sum(), rel=1e-5)
    assert shape.scales["scale"].tolist() == [1, 2, 4, 8, 16]
    n = shape.counts["twonn_n"]
    assert (shape.scales["n"] == n).all()
    row = measured(case.fold(), "without-first")
    assert shape.scales["dimension"][0] == pytest.approx(row["twonn_ml"] * n / (n - 1), rel=1e-9)


@pytest.mark.parametrize("name", TABLES)
def test_no_curves_give_an_empty_table(name: str) -> None:
    table = curve_table(name, [(0, "all", pd.DataFrame(columns=TABLES[name][2:]))])
    assert table.columns.tolist() == TABLES[name]
    assert len(table) == 0
    assert table["layer"].dtype == "int64"


class TestOnDisk:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        measure(np.random.default_rng(0).normal(1, 1, (400, 6)), out=tmp_path / "out")
        return tmp_path / "out"

    def test_saved_and_opened(self, folder: Path) -> None:
        again = open_survey(folder)
        _, tables = open_tables(folder, list(TABLES))
        for name in TABLES:
            pd.testing.assert_frame_equal(getattr(again, name), tables[name], check_exact=True)
        assert len(again.spectra) == 2 * 6
        assert again.scales.groupby("population").size().tolist() == [5, 5]
        assert again.facts["formulas"]["scales"]["dimension"] == "gride/n1-2n1"
        assert again.facts["formulas"]["spectra"]["share"] == "spectrum/shares"
        assert again.layers["rogue_coordinate"].dtype == "Int64"

    def test_a_survey_made_before_opens_without_them(self, folder: Path) -> None:
        facts = read_json(folder / "survey.json")
        for name in TABLES:
            (folder / f"{name}.parquet").unlink()
            del facts["files"][f"{name}.parquet"]
        write_json(folder / "survey.json", facts | {"checksum": _seal(facts)})
        again = open_survey(folder)
        assert (len(again.scales), len(again.spectra)) == (0, 0)
        assert len(again.layers) == 2

    def test_merged(self, tmp_path: Path) -> None:
        x = np.random.default_rng(0).normal(1, 1, (400, 6))
        whole, parts = measure(x), [measure(x[:150]), measure(x[150:])]
        for part in parts:
            part.facts.pop("lost", None)
        merged = merge(parts)
        everything = merged.spectra[merged.spectra["population"] == "all"]
        expected = whole.spectra[whole.spectra["population"] == "all"]
        assert everything["eigenvalue"].to_numpy() == pytest.approx(expected["eigenvalue"].to_numpy(), rel=1e-5)
        assert len(merged.scales)


@pytest.mark.parametrize("scale", [1e-15, 1e-25, 1e-30, 1e25])
def test_spectra_do_not_depend_on_the_scale_of_the_vectors(scale: float) -> None:
    """The square of 1e-25 is 0 in float32: one direction seemed to hold all the variance."""
    x = torch.randn(400, 6, generator=torch.Generator().manual_seed(3)) * torch.tensor([4.0, 2, 1, 1, 1, 1])
    plain, scaled = (measured(of_states(one).fold()) for one in (x, (x.double() * scale).float()))
    for column in ("anisotropy_svd", "participation_ratio", "effective_rank", "stable_rank", "iso_score"):
        assert scaled[column] == pytest.approx(plain[column], rel=1e-4)
    assert scaled["rogue_variance_share"] == pytest.approx(plain["rogue_variance_share"], rel=1e-4)
    assert scaled["norm_p50"] is None
    assert "2^-40" in reasons(scaled)["norm_p50"]
    assert scaled["norm_max"] == pytest.approx(scale * plain["norm_max"], rel=1e-4)


def test_sums_of_squares_that_underflowed_are_null_with_a_reason() -> None:
    """As a GPU's products in float32 leave them."""
    fold = of_states(torch.randn(400, 6, generator=torch.Generator().manual_seed(3)) * 1e-25).fold()
    for matrix in fold.scatter.products.values():
        matrix.zero_()
    row = measured(fold)
    assert row["anisotropy_svd"] is None
    assert reasons(row)["anisotropy_svd"] == "the squares of the vectors are too small for float32"


class TestFewVectors:
    """At most as many vectors as coordinates: numbers come from the products of the vectors with each other."""

    @staticmethod
    def states(rows: int, dim: int, offset: float = OFFSET) -> torch.Tensor:
        random = torch.Generator().manual_seed(rows)
        x = torch.randn(rows, dim, generator=random) * torch.linspace(0.1, 2, dim)
        x[:3] *= 150
        x[:, 7] += offset
        return x

    @pytest.mark.parametrize("offset", [0.0, OFFSET])
    @pytest.mark.parametrize(("rows", "dim"), [(2, 40), (20, 64), (63, 64), (64, 64)])
    def test_numbers_are_those_of_the_matrix_and_of_the_definition(
        self, rows: int, dim: int, offset: float
    ) -> None:
        case = of_states(self.states(rows, dim, offset))
        fold, dense = case.fold(), case.fold()
        dense.scatter._matrix(0)
        assert fold.scatter.few_vectors([0]) is not None
        assert dense.scatter.few_vectors([0]) is None
        row, other = measured(fold), measured(dense)
        assert row.keys() == other.keys()
        assert row["undefined"] == other["undefined"]
        for column in (*SHAPE, *(name for name in row if name.startswith(("q", "v", "m", "rogue")))):
            near = 1e-3 if column == "effective_rank_singular" else 2e-5
            if isinstance(row.get(column), float):
                assert row[column] == pytest.approx(other[column], rel=near, abs=1e-9), column
        x = case.x
        spectrum = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)[: rows - 1] ** 2
        assert row["anisotropy_svd"] == pytest.approx(spectrum[0] / spectrum.sum(), rel=SPECTRAL)
        pr = spectrum.sum() ** 2 / (spectrum**2).sum()
        assert row["participation_ratio"] == pytest.approx(pr, rel=SPECTRAL)
        assert row["iso_score"] == pytest.approx((pr - 1) / (dim - 1), rel=SPECTRAL, abs=1e-7)
        assert row["stable_rank"] == pytest.approx((x**2).sum() / np.linalg.norm(x, 2) ** 2, rel=SPECTRAL)
        curve = measure_shape(fold, [0]).spectrum
        assert len(curve) == dim
        expected = np.pad(spectrum, (0, dim - rows + 1)) / rows
        np.testing.assert_allclose(curve["eigenvalue"], expected, rtol=1e-4, atol=1e-7 * expected[0])

    def test_products_about_zero_in_float32_fail(self) -> None:
        x = self.states(20, 64)
        gram = (x @ x.T).double().numpy()
        centring = np.eye(20) - 1 / 20
        values = np.linalg.eigvalsh(centring @ gram @ centring)[::-1]
        truth = np.linalg.svd(x.double() - x.double().mean(0), compute_uv=False) ** 2
        assert abs(values[10] / truth[10] - 1) > 100 * SPECTRAL

    def test_one_vector_equal_vectors_and_none(self) -> None:
        one = measured(of_states(torch.ones(1, 9)).fold())
        assert (one["anisotropy_svd"], one["stable_rank"]) == (None, pytest.approx(1))
        assert reasons(one)["anisotropy_svd"] == "fewer than two vectors"
        equal = measured(of_states(torch.full((5, 9), 1.7)).fold())
        assert (equal["anisotropy_svd"], equal["stable_rank"]) == (None, pytest.approx(1))
        assert reasons(equal)["anisotropy_svd"] == "all vectors are equal"
        assert measured(of_states(torch.zeros(5, 9)).fold())["stable_rank"] is None

    def test_partition_isotropy_has_directions_without_any_vector(self) -> None:
        x = torch.randn(6, 30, generator=torch.Generator().manual_seed(2)) + 1
        row = measured(of_states(x).fold())
        assert row["partition_isotropy"] == pytest.approx(float(by_definition(x.double().numpy())), rel=1e-4)
