"""Spectra from the scatter matrix, against singular values of the centred vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests import oracles
from tests.hard_cases import Case, folded, hard, of_states

from theodolite.batch import Batch
from theodolite.measures.spectrum import (
    anisotropy_svd,
    effective_rank,
    eigenvalues,
    iso_score,
    participation_ratio,
)
from theodolite.statistics.cells import POPULATIONS
from theodolite.statistics.rows import Rows
from theodolite.statistics.scatter import BLOCK, Scatter

SPECTRAL = 1e-5
"""Relative, what the instrument promises: a float32 product of a batch errs by 1e-7 of the scatter about the
centre, and the measures are ratios of first and second powers of eigenvalues."""
FAR_CENTRE = 1e-6
"""Of E|x|^2, on an eigenvalue: about a far centre float32 products are as large as Q, and V is a difference."""
COLUMNS = {
    "anisotropy_svd": anisotropy_svd,
    "participation_ratio": participation_ratio,
    "effective_rank": effective_rank,
    "iso_score": iso_score,
}


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16, torch.float64], ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return hard(request.param)


def measured(scatter: Scatter, population: str) -> dict[str, float]:
    _, covariance = scatter.covariance(POPULATIONS[population])
    return {name: measure(eigenvalues(covariance.numpy())) for name, measure in COLUMNS.items()}


@pytest.mark.parametrize("population", POPULATIONS)
def test_spectral_measures_are_right(case: Case, population: str) -> None:
    truth = oracles.spectral(case.x[case.belongs(population)])
    assert measured(folded(Scatter, case), population) == pytest.approx(truth, rel=SPECTRAL)


def test_blocks_on_and_above_the_diagonal_are_enough() -> None:
    states = torch.randn(500, BLOCK + 9, generator=torch.Generator().manual_seed(2)) + 3
    case = of_states(states)
    scatter = folded(Scatter, case)
    _, covariance = scatter.covariance([0])
    truth = np.cov(case.x.T, bias=True)
    np.testing.assert_allclose(covariance.numpy(), truth, atol=SPECTRAL * np.abs(truth).max())
    scatter.recentre(torch.zeros(BLOCK + 9))
    np.testing.assert_allclose(scatter.covariance([0])[1].numpy(), truth, atol=SPECTRAL * np.abs(truth).max())


def test_a_scatter_about_zero_exceeds_the_tolerance() -> None:
    """Without a centre the variance is the difference of two float32 numbers of nine million."""
    case = hard()
    ordinary = case.x[case.belongs("without-massive")]
    scatter = folded(Scatter, case, replace(case.frame, centre=torch.zeros(case.frame.dim)))
    truth = oracles.spectral(ordinary)
    found = measured(scatter, "without-massive")
    assert any(abs(found[name] - truth[name]) > SPECTRAL * truth[name] for name in COLUMNS)
    values = eigenvalues(scatter.covariance(POPULATIONS["without-massive"])[1].numpy())
    bound = FAR_CENTRE * oracles.qmv(ordinary).q
    assert np.abs(values - oracles.spectrum(ordinary)).max() <= bound


def test_float32_sums_from_beginning_to_end_fail() -> None:
    case = hard()
    x = case.states[torch.from_numpy(case.belongs("without-massive"))]
    total, mean = torch.zeros(case.frame.dim, case.frame.dim), x.mean(dim=0)
    for rows in x.split(257):
        total += rows.T @ rows
    values = eigenvalues((total / len(x) - torch.outer(mean, mean)).double().numpy())
    truth = oracles.spectral(x.double().numpy())
    assert abs(anisotropy_svd(values) - truth["anisotropy_svd"]) > 100 * SPECTRAL * truth["anisotropy_svd"]


def test_a_population_by_subtraction_fails() -> None:
    case = hard()
    scatter, truth = folded(Scatter, case), oracles.spectral(case.x[case.belongs("without-first")])
    together = folded(Scatter, case, replace(case.frame, separate_first=False, separate_massive=False))
    left = Scatter(case.frame)
    left.n[0] = together.n.sum() - scatter.n[[1, 3]].sum()
    left.sum[0] = together.sum.sum(dim=0) - scatter.sum[[1, 3]].sum(dim=0)
    left.products[0] = together.products[0] - sum(
        scatter.products[cell] for cell in (1, 3) if cell in scatter.products
    )
    found = measured(left, "all")
    assert abs(found["anisotropy_svd"] - truth["anisotropy_svd"]) > 100 * SPECTRAL * truth["anisotropy_svd"]


def test_equal_vectors_at_the_centre_have_no_spectrum() -> None:
    scatter = folded(Scatter, of_states(torch.full((30, 4), 1.7)))
    assert not scatter.covariance([0])[1].any()


def test_cells_without_rows_hold_no_matrix() -> None:
    scatter = folded(Scatter, of_states(torch.randn(30, 4)))
    assert list(scatter.products) == [0]
    n, covariance = scatter.covariance([1, 3])
    assert n == 0
    assert not covariance.any()


def test_vectors_too_long_to_be_squared_in_float32_are_not_lost() -> None:
    states = torch.randn(300, 6, generator=torch.Generator().manual_seed(4)) * 1e22
    case = of_states(states)
    assert measured(folded(Scatter, case), "all") == pytest.approx(oracles.spectral(case.x), rel=SPECTRAL)


def few_rows(rows: int = 20, dim: int = 64) -> Case:
    """Return fewer vectors than coordinates, one coordinate at 3,000, the first vectors 150 times as long."""
    random = torch.Generator().manual_seed(5)
    states = torch.randn(rows, dim, generator=random)
    states[:3] *= 150
    states[:, 7] += 3000
    return of_states(states)


def test_fewer_vectors_than_coordinates_are_kept_instead_of_a_matrix() -> None:
    case = few_rows()
    scatter = folded(Scatter, case)
    assert not scatter.products
    vectors = scatter.few_vectors([0])
    assert vectors is not None
    assert vectors.shape == case.x.shape
    np.testing.assert_allclose(np.sort(vectors + case.frame.centre, 0), np.sort(case.x, 0), rtol=1e-6, atol=1e-4)
    assert sum(part.nbytes for part in scatter.state().values()) < 8 * case.frame.dim**2


def test_the_matrix_of_few_vectors_is_the_same() -> None:
    case = few_rows()
    scatter, truth = folded(Scatter, case), np.cov(case.x.T, bias=True)
    n, covariance = scatter.covariance([0])
    assert n == len(case.x)
    np.testing.assert_allclose(covariance.numpy(), truth, atol=SPECTRAL * np.abs(truth).max())
    second, variances = scatter.variances([0])
    np.testing.assert_allclose(variances.numpy(), np.diag(truth), rtol=SPECTRAL)
    np.testing.assert_allclose(second, np.square(case.x - case.frame.centre.numpy()).mean(0), rtol=SPECTRAL)


@pytest.mark.parametrize("size", [1, 7, 30, 64, 65, 200])
def test_vectors_become_a_matrix_when_there_are_more_than_coordinates(size: int) -> None:
    case = few_rows(rows=150)
    truth = np.cov(case.x.T, bias=True)
    for rows in (63, 64, 65, 150):
        scatter = Scatter(case.frame)
        for batch in case.batches(size):
            if int(scatter.n.sum()) < rows:
                kept = torch.arange(min(len(batch.places), rows - int(scatter.n.sum())))
                part = Batch(0, batch.states[kept], batch.places.take(kept))
                scatter.update(Rows.of(part, case.frame))
        assert bool(scatter.products) == (rows > 64)
        assert (scatter.few_vectors([0]) is None) == (rows > 64)
    np.testing.assert_allclose(scatter.covariance([0])[1], truth, atol=SPECTRAL * np.abs(truth).max())


def test_a_survey_from_before_vectors_were_kept_still_merges() -> None:
    """It has a matrix whatever its n is."""
    case = few_rows(rows=40)
    first, second = case.batches(20)
    old = Scatter(case.frame)
    old.update(Rows.of(first, case.frame))
    old._matrix(0)
    again = Scatter.restore(case.frame, {name: part.clone() for name, part in old.state().items()})
    assert "ordinary.products" in again.state()
    new = Scatter(case.frame)
    new.update(Rows.of(second, case.frame))
    assert "ordinary.vectors" in new.state()
    truth = np.cov(case.x.T, bias=True)
    for into, other in ((again, new), (new, again)):
        total = Scatter.restore(case.frame, {name: part.clone() for name, part in into.state().items()})
        total.merge(other)
        assert total.few_vectors([0]) is None
        n, covariance = total.covariance([0])
        assert n == 40
        np.testing.assert_allclose(covariance, truth, atol=SPECTRAL * np.abs(truth).max())
    again.update(Rows.of(second, case.frame))
    np.testing.assert_allclose(again.covariance([0])[1], truth, atol=SPECTRAL * np.abs(truth).max())


def test_populations_of_cells_with_and_without_a_matrix() -> None:
    """First positions are few and kept; the others have a matrix."""
    random = torch.Generator().manual_seed(6)
    case = of_states(torch.randn(300, 32, generator=random) + 5)
    places = replace(case.places, first=torch.arange(300) % 30 == 0)
    case = replace(case, places=places, frame=replace(case.frame, separate_first=True))
    scatter = folded(Scatter, case)
    assert list(scatter.products) == [0]
    assert list(scatter.vectors) == [1]
    truth = np.cov(case.x.T, bias=True)
    np.testing.assert_allclose(scatter.covariance([0, 1])[1], truth, atol=SPECTRAL * np.abs(truth).max())
    scatter.recentre(torch.full((32,), -3.0))
    np.testing.assert_allclose(scatter.covariance([0, 1])[1], truth, atol=SPECTRAL * np.abs(truth).max())
