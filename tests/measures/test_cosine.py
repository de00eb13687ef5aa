"""The mean cosine of all pairs, in closed form and by looking at every pair."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from tests import oracles

from theodolite.measures.cosine import mean_cosine

EXACT = 1e-12
"""Absolute: float64 sums of some hundred unit vectors, against as many cosines."""
SIMULATED = 0.01
"""Absolute: 1,000 vectors of 400 dimensions; a norm fluctuates by 1/sqrt(2 x 400) = 3.5%, its mean over all by far
less, and E cos differs from the ratio of means by about 1/400."""

Array = NDArray[np.float64]


def of(x: Array) -> float:
    norms = np.linalg.norm(x, axis=1)
    kept = norms > 0
    return mean_cosine(int(kept.sum()), (x[kept] / norms[kept, None]).sum(0))


@pytest.mark.parametrize("rows", [2, 3, 200])
def test_it_is_the_mean_over_all_pairs(rows: int) -> None:
    x = np.random.default_rng(0).normal(size=(rows, 7)) + 0.4
    by_hand = [
        float(x[i] @ x[j] / math.sqrt((x[i] @ x[i]) * (x[j] @ x[j])))
        for i in range(min(rows, 40))
        for j in range(min(rows, 40))
        if i != j
    ]
    assert of(x[:40]) == pytest.approx(np.mean(by_hand), abs=EXACT)
    assert of(x) == pytest.approx(oracles.mean_cosine(x), abs=EXACT)


def test_of_numbers_between_0_and_1_it_is_three_quarters() -> None:
    assert of(np.random.default_rng(0).random((1000, 400))) == pytest.approx(0.75, abs=SIMULATED)


@pytest.mark.parametrize("mean", [0.0, 0.3, 1.0, 2.0])
def test_of_a_gaussian_off_the_origin(mean: float) -> None:
    x = np.random.default_rng(1).normal(mean, 1, size=(1000, 400))
    assert of(x) == pytest.approx(mean**2 / (1 + mean**2), abs=SIMULATED)


def test_ends_of_the_scale() -> None:
    assert of(np.tile([[3.0, 4.0]], (9, 1))) == pytest.approx(1, abs=EXACT)
    assert of(np.array([[2.0, 0.0], [-7.0, 0.0]])) == pytest.approx(-1, abs=EXACT)
    assert of(np.eye(5)) == pytest.approx(0, abs=EXACT)


@pytest.mark.parametrize("rows", [0, 1])
def test_fewer_than_two_vectors_have_no_pair(rows: int) -> None:
    assert math.isnan(mean_cosine(rows, np.zeros(4)))
