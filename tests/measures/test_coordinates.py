"""What each coordinate adds, against sums written out."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.measures.coordinates import (
    DIRECTIONS,
    SQUARES,
    between,
    coordinate_moments,
    cosine_shares,
    rogue,
    within,
)

EXACT = 1e-12
"""Relative: some hundred float64 terms."""
RNG = np.random.default_rng(0)
X = RNG.normal([0, 1, -2, 0, 5, 0.1], 1, size=(120, 6))
UNIT = RNG.integers(0, 9, size=120)


def sums() -> tuple[np.ndarray, np.ndarray]:
    n = np.array([(code == UNIT).sum() for code in range(9)])
    return n, np.stack([X[code == UNIT].sum(axis=0) for code in range(9)])


def test_between_is_the_spread_of_the_units_means() -> None:
    expected = np.zeros(6)
    for code in range(9):
        mine = X[code == UNIT]
        for i in range(6):
            expected[i] += len(mine) / 120 * (mine[:, i].mean() - X[:, i].mean()) ** 2
    n, total = sums()
    before = total.copy()
    assert between(n, total) == pytest.approx(expected, rel=EXACT)
    assert np.array_equal(total, before)


def test_between_and_within_are_the_variance() -> None:
    expected = sum((code == UNIT).sum() / 120 * X[code == UNIT].var(axis=0) for code in range(9))
    v = X.var(axis=0)
    assert within(v, v, between(*sums())) == pytest.approx(expected, rel=1e-10)


def test_within_is_0_below_the_rounding_of_its_sums() -> None:
    second, v = np.array([100.0, 100.0]), np.array([1.0, 1.0])
    left = np.array([0.5, 1.5]) * SQUARES * 100
    assert within(second, v, v - left).tolist() == [0.0, pytest.approx(left[1])]
    assert within(second, v, v + 1).tolist() == [0.0, 0.0]


def test_moments_add_up() -> None:
    q, v = coordinate_moments(X.mean(axis=0), X.var(axis=0))
    assert q == pytest.approx((X**2).mean(axis=0), rel=EXACT)
    assert np.array_equal(v, X.var(axis=0))


def test_shares_of_the_cosine_over_all_pairs() -> None:
    u = X / np.linalg.norm(X, axis=1, keepdims=True)
    products = np.zeros(6)
    for a in range(len(u)):
        for b in range(len(u)):
            if a != b:
                products += u[a] * u[b]
    found = cosine_shares(len(u), u.sum(axis=0), (u**2).sum(axis=0))
    assert found == pytest.approx(products / products.sum(), rel=1e-9)
    assert found.sum() == pytest.approx(1, abs=EXACT)


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_vectors_have_no_shares(n: int) -> None:
    assert np.isnan(cosine_shares(n, np.ones(3), np.ones(3))).all()


def test_a_cosine_that_rounding_could_make_has_no_shares() -> None:
    total, n = np.sqrt([500.0, 500.0]), 1000
    off = np.array([DIRECTIONS, 0]) * n
    assert np.isnan(cosine_shares(n, total, total**2 + 0.5 * off)).all()
    assert np.isfinite(cosine_shares(n, total, total**2 + 2 * off)).all()


def test_the_rogue_coordinate_and_the_number_that_make_half() -> None:
    shares = np.array([0.1, 0.3, 0.15, 0.25, -0.05, 0.25])
    found = rogue(shares)
    assert (found.coordinate, found.share) == (1, 0.3)
    assert found.half == 2  # 0.3 + 0.25
    assert rogue(np.full(8, 0.125)).half == 4
    assert rogue(np.array([1.4, -0.4])).half == 1
    assert rogue(np.full(4, np.nan))[::2] == (None, None)
