"""Spectral measures in closed form."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests import oracles
from tests.devices import DEVICES
from tests.shared import slow

from theodolite.measures import spectrum
from theodolite.measures.spectrum import (
    _solve,
    anisotropy_svd,
    effective_rank,
    effective_rank_singular,
    eigenvalues,
    eigenvectors,
    iso_score,
    largest_eigenvalue,
    participation_ratio,
    pca_dimension,
    shares,
    stable_rank,
)

EXACT = 1e-12
"""Relative: a handful of float64 operations."""
SIMULATED = 0.03
"""Relative: of 2,000 x 100 Gaussian numbers, whose spectrum fluctuates by about 1/100."""


@pytest.mark.parametrize(("equal", "axes"), [(1, 5), (2, 5), (3, 7), (10, 10), (100, 768)])
def test_some_axes_equal_and_the_others_zero(equal: int, axes: int) -> None:
    spectrum = np.array([2.5] * equal + [0.0] * (axes - equal))
    assert iso_score(spectrum) == pytest.approx((equal - 1) / (axes - 1), rel=EXACT)
    assert participation_ratio(spectrum) == pytest.approx(equal, rel=EXACT)
    assert effective_rank(spectrum) == pytest.approx(equal, rel=EXACT)
    assert effective_rank_singular(spectrum) == pytest.approx(equal, rel=EXACT)
    assert stable_rank(spectrum) == pytest.approx(equal, rel=EXACT)
    assert pca_dimension(spectrum, 0.9) == math.ceil(0.9 * equal - 1e-9)
    assert anisotropy_svd(spectrum) == pytest.approx(1 / equal, rel=EXACT)


def test_one_axis_of_four_and_four_of_one() -> None:
    spectrum = np.array([4.0, 1, 1, 1, 1])
    assert iso_score(spectrum) == pytest.approx(0.55, rel=EXACT)
    assert participation_ratio(spectrum) == pytest.approx(64 / 20, rel=EXACT)
    assert anisotropy_svd(spectrum) == 0.5
    assert effective_rank(spectrum) == pytest.approx(math.sqrt(2) * math.sqrt(8), rel=EXACT)


def test_an_isotropic_gaussian_is_biased_by_its_sample_size() -> None:
    rows, dim = 2000, 100
    x = np.random.default_rng(0).normal(size=(rows, dim))
    spectrum = eigenvalues(np.cov(x.T, bias=True))
    assert participation_ratio(spectrum) == pytest.approx(dim / (1 + dim / rows), rel=SIMULATED)
    assert anisotropy_svd(spectrum) == pytest.approx((1 + math.sqrt(dim / rows)) ** 2 / dim, rel=SIMULATED)


def test_eigenvalues_are_squared_singular_values_and_fall() -> None:
    x = np.random.default_rng(1).normal(size=(60, 8)) * np.arange(1, 9)
    found = eigenvalues(np.cov(x.T, bias=True))
    assert (np.diff(found) <= 0).all()
    assert found == pytest.approx(oracles.spectrum(x), rel=1e-10)  # eigvalsh is exact to 1e-15 of the largest
    spectral = oracles.spectral(x)
    assert anisotropy_svd(found) == pytest.approx(spectral["anisotropy_svd"])
    assert effective_rank(found) == pytest.approx(spectral["effective_rank"])


def test_rounding_below_zero_is_zero() -> None:
    assert (eigenvalues(np.diag([1.0, -1e-18])) == [1, 0]).all()


def test_empty_spectra_are_undefined() -> None:
    for measure in (
        *(anisotropy_svd, participation_ratio, effective_rank, iso_score),
        *(effective_rank_singular, stable_rank, lambda spectrum: pca_dimension(spectrum, 0.9)),
    ):
        assert math.isnan(measure(np.zeros(3)))
    assert np.isnan(shares(np.zeros(3))).all()


def test_the_effective_rank_of_singular_values_is_not_that_of_eigenvalues() -> None:
    """Roy and Vetterli's own weighs small directions more: of 4, 1, 1 with roots 2, 1, 1 over 4."""
    spectrum = np.array([4.0, 1, 1])
    entropy = -(0.5 * math.log(0.5) + 2 * 0.25 * math.log(0.25))
    assert effective_rank_singular(spectrum) == pytest.approx(math.exp(entropy), rel=EXACT)
    assert effective_rank_singular(spectrum) > effective_rank(spectrum) + 0.4


def with_zero_directions(rows: int, dim: int, rank: int, seed: int) -> torch.Tensor:
    """Return float32 vectors about 0 that span `rank` dimensions, but for the rounding of their coordinates."""
    random = torch.Generator().manual_seed(seed)
    basis = torch.randn(rank, dim, generator=random, dtype=torch.float64)
    scales = torch.logspace(0, -1, rank, dtype=torch.float64)
    return ((torch.randn(rows, rank, generator=random, dtype=torch.float64) * scales) @ basis).float()


def scatter_spectrum(vectors: torch.Tensor, batch: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the eigenvalues of the covariance as the scatter statistic makes it: float32 products per batch."""
    total = torch.zeros(vectors.shape[1], vectors.shape[1], dtype=torch.float64)
    for part in vectors.split(batch):
        total += part.T @ part
    mean = vectors.mean(0, dtype=torch.float64)
    return eigenvalues(total / len(vectors) - torch.outer(mean, mean))


@pytest.mark.parametrize(("dim", "rank"), [(32, 31), (96, 40), (384, 383)])
def test_the_effective_rank_of_singular_values_ignores_rounding(dim: int, rank: int) -> None:
    spectrum = np.concatenate([np.geomspace(1, 1e-4, rank), np.zeros(dim - rank)])
    noise = np.finfo(np.float32).eps * spectrum.mean() * np.random.default_rng(0).random(dim)
    moved = np.where(spectrum > 0, spectrum, noise)
    assert effective_rank(np.sqrt(moved)) > effective_rank(np.sqrt(spectrum)) * (1 + 1e-6)  # the tempting one
    assert effective_rank_singular(moved) == pytest.approx(effective_rank_singular(spectrum), rel=1e-9)
    assert effective_rank_singular(spectrum) == effective_rank(np.sqrt(spectrum))


@pytest.mark.parametrize(("dim", "rank"), [(32, 31), (96, 40), (256, 200)])
def test_the_effective_rank_of_singular_values_does_not_depend_on_batches(dim: int, rank: int) -> None:
    vectors = with_zero_directions(3000, dim, rank, seed=dim)
    spectra = [scatter_spectrum(vectors, batch) for batch in (100, 700, 3000)]
    tempting = [effective_rank(np.sqrt(spectrum)) for spectrum in spectra]
    found = [effective_rank_singular(spectrum) for spectrum in spectra]
    assert np.ptp(found) < 1e-6 * found[0]  # eigenvalues down to 1e-2 of the largest move by 1e-7 of themselves
    assert np.ptp(tempting) > 10 * np.ptp(found)


def test_the_effective_rank_of_singular_values_keeps_small_directions_beside_a_massive_one() -> None:
    """One direction a million times the others is real in decoders; the others must not count as rounding."""
    spectrum = np.array([1.0, *[1e-6] * 575])
    assert effective_rank_singular(spectrum) == effective_rank(np.sqrt(spectrum)) > 19


def test_the_stable_rank_is_of_norms() -> None:
    x = np.random.default_rng(2).normal(1, 1, size=(50, 6))
    spectrum = np.linalg.eigvalsh(x.T @ x / 50)[::-1]
    norm = np.linalg.norm
    assert stable_rank(spectrum) == pytest.approx(norm(x) ** 2 / norm(x, 2) ** 2, rel=1e-10)


def test_pca_dimension_counts_until_the_share_is_reached() -> None:
    spectrum = np.array([5.0, 3, 1, 0.5, 0.5])
    for share in (0.01, 0.5, 0.51, 0.8, 0.9, 0.94, 0.95, 0.99, 1.0):
        held, count = 0.0, 0
        while held < share - 1e-12:
            held, count = held + spectrum[count] / 10, count + 1
        assert pca_dimension(spectrum, share) == count, share
    tenths = np.full(10, 0.1)  # 0.1 added nine times is short of 0.9 by rounding
    assert np.cumsum(tenths)[8] < 0.9
    assert pca_dimension(tenths, 0.9) == 9


def test_shares_add_up_to_1() -> None:
    spectrum = np.random.default_rng(3).random(40)
    share, cumulative = shares(spectrum)
    assert share == pytest.approx(spectrum / sum(spectrum))
    assert cumulative == pytest.approx([sum(share[:k]) for k in range(1, 41)])
    assert cumulative[-1] == pytest.approx(1)


def test_iso_score_needs_two_dimensions() -> None:
    assert math.isnan(iso_score(np.array([2.0])))


@pytest.mark.parametrize("device", DEVICES)
def test_the_eigenproblem_of_a_tensor_is_solved_on_its_device(device: str) -> None:
    x = np.random.default_rng(0).normal(size=(300, 40)) * np.geomspace(1, 1e-3, 40)
    moment = x.T @ x / 300
    on_device = torch.from_numpy(moment).to(device)
    values, vectors = eigenvectors(on_device)
    assert vectors.device == on_device.device
    expected = eigenvalues(moment)
    for found in (values, eigenvalues(on_device)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15 * expected[0] * 40)
    directions = vectors.cpu().numpy()
    np.testing.assert_allclose(moment @ directions, directions * values[::-1], atol=1e-13)


def test_without_device_memory_for_the_solver_the_cpu_is_used() -> None:
    on_cpu = torch.eye(2)
    on_device: Any = SimpleNamespace(device=torch.device("cuda"), is_cuda=False, cpu=lambda: on_cpu)

    def solve(matrix: Any) -> Any:
        if matrix is on_device:
            raise torch.OutOfMemoryError
        return matrix

    assert _solve(solve, on_device) is on_cpu

    failures = [torch.OutOfMemoryError()]

    def solve_later(matrix: Any) -> Any:
        if failures:
            raise failures.pop()
        return matrix

    assert _solve(solve_later, on_device) is on_device  # once PyTorch has freed what it does not use
    with pytest.raises(RuntimeError):  # on the CPU there is no fallback
        _solve(torch.linalg.eigh, torch.ones(2, 3))


@pytest.mark.parametrize("kind", ["random", "flat", "rogue", "equal", "zero", "low rank"])
@pytest.mark.parametrize("dim", [600, slow(2100)])
def test_largest_eigenvalue_is_that_of_all(kind: str, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectrum, "SMALL_MATRIX", min(dim, 2049) - 1)
    x = torch.randn(dim + 100, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    if kind == "rogue":
        x[:, 3] *= 1e4
    if kind == "low rank":
        x = x[:5]
    matrix = {"flat": torch.eye(dim, dtype=torch.float64) + 1e-9 * x.T @ x, "equal": 7 * torch.eye(dim).double()}
    matrix |= {"zero": torch.zeros(dim, dim, dtype=torch.float64)}
    made = matrix.get(kind, x.T @ x)
    expected = float(np.linalg.eigvalsh(made.numpy())[-1])
    assert largest_eigenvalue(made) == pytest.approx(expected, rel=1e-11, abs=1e-300)


def test_a_few_power_iterations_miss_the_largest_eigenvalue() -> None:
    """The tempting algorithm: with a flat spectrum, fifty power iterations are far off, and nothing shows it."""
    x = torch.randn(700, 600, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    matrix, vector = x.T @ x, torch.ones(600, dtype=torch.float64)
    for _ in range(50):
        vector = matrix @ vector
        vector /= vector.norm()
    assert float(vector @ matrix @ vector) < 0.999 * largest_eigenvalue(matrix)
