"""Spectra from the scatter matrix, against singular values of the centred vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests import oracles
from tests.hard_cases import Case, folded, hard, of_states

from theodolite.measures.spectrum import (
    anisotropy_svd,
    effective_rank,
    eigenvalues,
    iso_score,
    participation_ratio,
)
from theodolite.statistics.cells import POPULATIONS
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
