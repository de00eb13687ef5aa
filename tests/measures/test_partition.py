"""Partition-function isotropy against sums of exponentials in 200 digits' worth of range."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from theodolite.measures.cosine import partition_isotropy_log

EXACT = 1e-12
"""Relative: float64 exponents, some hundred terms."""


def by_definition(x: np.ndarray) -> Decimal:
    """min over max of Z(a), exponentials summed as decimals, which do not overflow."""
    _, directions = np.linalg.eigh(x.T @ x)
    z = [
        sum((Decimal(float(sign * (a @ row))).exp() for row in x), Decimal(0))
        for a in directions.T
        for sign in (1, -1)
    ]
    return min(z) / max(z)


def directions(x: np.ndarray) -> np.ndarray:
    return np.linalg.eigh(x.T @ x)[1]


@pytest.mark.parametrize("offset", [0.0, 0.5, 3.0, 20_000.0])
def test_the_definition(offset: float) -> None:
    x = np.random.default_rng(0).normal(size=(60, 5))
    x[:, 2] += offset
    found = partition_isotropy_log(x, directions(x))
    assert found == pytest.approx(float(by_definition(x).ln()), rel=1e-9, abs=EXACT)


def test_without_log_space_it_overflows() -> None:
    x = np.random.default_rng(0).normal(size=(60, 5)) + 20_000
    with np.errstate(over="ignore", invalid="ignore"):
        z = np.exp(x @ directions(x)).sum(axis=0)
    assert np.isinf(z.max())
    assert np.isfinite(partition_isotropy_log(x, directions(x)))


def test_a_symmetric_cross_is_isotropic_and_an_asymmetric_one_is_not() -> None:
    cross = np.concatenate([np.eye(4), -np.eye(4)])
    assert partition_isotropy_log(cross, np.eye(4)) == pytest.approx(0, abs=EXACT)
    leaning = cross + 0.7
    assert partition_isotropy_log(leaning, directions(leaning)) < -2 * 0.7


def test_a_gaussian_about_0_and_its_mean() -> None:
    """E exp(a.x) = exp(a.mu + 1/2) of unit variances: along the mean the ratio is exp(-2 |mu|)."""
    x = np.random.default_rng(1).normal(size=(40_000, 3)) + np.array([1.0, 0, 0])
    assert partition_isotropy_log(x, np.eye(3)) == pytest.approx(-2.0, abs=0.05)  # sums err by about 1/100


def test_reversed_and_read_only_arrays() -> None:
    x = np.random.default_rng(2).normal(size=(30, 4)) + 1
    expected = partition_isotropy_log(x, directions(x))
    forbidden = x.copy()
    forbidden.flags.writeable = False
    assert partition_isotropy_log(x[::-1], directions(x)[:, ::-1]) == pytest.approx(expected, rel=EXACT)
    assert partition_isotropy_log(forbidden, directions(x)) == expected


def test_nothing() -> None:
    assert np.isnan(partition_isotropy_log(np.empty((0, 3)), np.eye(3)))
    assert partition_isotropy_log(np.zeros((4, 3)), np.eye(3)) == 0
