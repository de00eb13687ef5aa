"""Spectral measures in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests import oracles

from theodolite.measures.spectrum import (
    anisotropy_svd,
    effective_rank,
    eigenvalues,
    iso_score,
    participation_ratio,
)

EXACT = 1e-12
"""Relative: a handful of float64 operations."""
SIMULATED = 0.03
"""Relative: of 2,000 x 100 Gaussian numbers, whose spectrum fluctuates by about 1/100."""


@pytest.mark.parametrize(("equal", "axes"), [(1, 5), (2, 5), (3, 7), (10, 10), (100, 768)])
def test_some_axes_equal_and_the_others_nothing(equal: int, axes: int) -> None:
    spectrum = np.array([2.5] * equal + [0.0] * (axes - equal))
    assert iso_score(spectrum) == pytest.approx((equal - 1) / (axes - 1), rel=EXACT)
    assert participation_ratio(spectrum) == pytest.approx(equal, rel=EXACT)
    assert effective_rank(spectrum) == pytest.approx(equal, rel=EXACT)
    assert anisotropy_svd(spectrum) == pytest.approx(1 / equal, rel=EXACT)


def test_one_axis_of_four_and_four_of_one() -> None:
    spectrum = np.array([4.0, 1, 1, 1, 1])
    assert iso_score(spectrum) == pytest.approx(0.55, rel=EXACT)
    assert participation_ratio(spectrum) == pytest.approx(64 / 20, rel=EXACT)
    assert anisotropy_svd(spectrum) == 0.5
    assert effective_rank(spectrum) == pytest.approx(math.sqrt(2) * math.sqrt(8), rel=EXACT)


def test_an_isotropic_gaussian_is_bent_by_its_sample_size() -> None:
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


def test_nothing_is_told_of_nothing() -> None:
    for measure in (anisotropy_svd, participation_ratio, effective_rank, iso_score):
        assert math.isnan(measure(np.zeros(3)))


def test_iso_score_needs_two_dimensions() -> None:
    assert math.isnan(iso_score(np.array([2.0])))
