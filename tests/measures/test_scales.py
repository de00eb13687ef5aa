"""Gride and Levina-Bickel: their laws without geometry, their definitions, and shapes of known dimension."""

from __future__ import annotations

from math import isnan, log

import pytest
import torch
from scipy.optimize import minimize_scalar
from tests.measures.test_twonn import cloud, points, random
from torch import Tensor

from theodolite.measures.intrinsic_dimension import SCALES, gride, levina_bickel, twonn
from theodolite.measures.neighbours import neighbourhood

SOLVED = 1e-6
"""Relative: where a search without derivatives finds the top of a likelihood."""


def drawn(d: float, n: int, k: int, seed: int = 0) -> Tensor:
    """Distances of a Poisson process of dimension d: the volumes r^d are sums of exponentials. (n, k)"""
    steps = -torch.rand(n, k, dtype=torch.float64, generator=random(seed)).log()
    return steps.cumsum(1).pow(1 / d)


def log_likelihood(d: float, distances: Tensor, scale: int) -> float:
    """Of the paper's density of mu, d (mu^d - 1)^(n2 - n1 - 1) / (mu^((n2 - 1) d + 1) B(n2 - n1, n1))."""
    total = 0.0
    for near, far in distances[:, [scale - 1, 2 * scale - 1]].tolist():
        mu = far / near
        total += log(d) + (scale - 1) * log(mu**d - 1) - ((2 * scale - 1) * d + 1) * log(mu)
    return total


@pytest.mark.parametrize("scale", SCALES)
def test_gride_maximises_the_likelihood(scale: int) -> None:
    distances = drawn(6.0, 200, 32)
    best = minimize_scalar(
        lambda d: -log_likelihood(d, distances, scale), bounds=(1, 30), method="bounded", options={"xatol": 1e-9}
    )
    found = gride(distances, scale)
    assert found.value == pytest.approx(best.x, rel=SOLVED)
    step = 1e-3  # the curvature by differences, which loses half the digits
    bend = sum(w * log_likelihood(best.x + s, distances, scale) for w, s in ((1, -step), (-2, 0), (1, step)))
    assert found.se == pytest.approx((-bend / step**2) ** -0.5, rel=1e-4)


@pytest.mark.parametrize("scale", SCALES)
def test_gride_of_distances_drawn_from_the_law(scale: int) -> None:
    """200 repetitions give a mean to 1/14 and a spread to 1/20 of the standard error; four such are allowed.

    The estimate is biased of order 1/n, like any likelihood's: less than a tenth of its error.
    """
    made = [gride(drawn(7.0, 500, 32, seed), scale) for seed in range(200)]
    values = torch.tensor([estimate.value for estimate in made])
    error = made[0].se
    assert float(values.mean()) == pytest.approx(7.0, abs=0.4 * error)
    assert float(values.std()) == pytest.approx(error, rel=0.25)


def test_at_the_smallest_scale_gride_is_twonn() -> None:
    vectors = cloud()
    estimate, n = twonn(vectors), len(vectors)
    assert gride(neighbourhood(vectors).distances, 1).value == pytest.approx(estimate.ml * n / (n - 1), rel=1e-12)


def test_levina_bickel_is_its_definition_and_unbiased() -> None:
    distances = drawn(7.0, 300, 20)
    inverse = [sum(log(row[19] / r) for r in row[:19]) / 19 for row in distances.tolist()]
    found = levina_bickel(distances)
    assert found.value == pytest.approx(300 / sum(inverse), rel=1e-12)
    made = torch.tensor([levina_bickel(drawn(7.0, 300, 20, seed)).value for seed in range(200)])
    assert float(made.mean()) == pytest.approx(7.0, abs=0.4 * found.se)
    assert float(made.std()) == pytest.approx(found.se, rel=0.25)
    plain = torch.tensor([sum(1 / i for i in inverse) / 300])  # averaging dimensions is biased by 18/17 and more
    assert float(plain) > found.value + 2 * found.se


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_cube_has_its_dimension_at_every_scale(d: int) -> None:
    """Borders pull large scales down, by 13% at d = 5 and n1 = 16; the error bars are 1 to 3%."""
    found = neighbourhood(points("cube", d, 0))
    for scale in SCALES:
        assert gride(found.distances, scale).value == pytest.approx(d, rel=0.16)
    assert levina_bickel(found.distances).value == pytest.approx(d, rel=0.16)


def test_noise_is_seen_at_small_scales_only() -> None:
    """What the curve is for: a plane with a little noise in 10 more coordinates."""
    plane = torch.rand(2000, 2, generator=random(), dtype=torch.float64)
    noise = torch.randn(2000, 10, generator=random(1), dtype=torch.float64) * 4e-3
    found = neighbourhood(torch.cat([plane, noise], 1))
    curve = [gride(found.distances, scale).value for scale in SCALES]
    assert curve[0] > 3.5
    assert curve[-1] < 2.6
    assert curve == sorted(curve, reverse=True)


def test_undefined_with_a_reason() -> None:
    few = neighbourhood(cloud(12)).distances
    assert isnan(gride(few, 16).value)
    assert gride(few, 16).reason == "12 distinct vectors, and a scale of 16 needs 33"
    assert levina_bickel(few).reason == "12 distinct vectors, and the 20 nearest others need 21"
    assert gride(few, 4).reason is None
    simplex = torch.ones(40, 32, dtype=torch.float64)
    assert gride(simplex, 4).reason == "every vector has neighbours 4 and 8 at the same distance"
    assert levina_bickel(simplex).reason == "every vector has its 20 nearest others at the same distance"
    gone = torch.cat([torch.zeros(40, 1, dtype=torch.float64), simplex], 1)
    assert gride(gone, 1).reason == "distances that are too small or too large for float64"
    assert levina_bickel(gone).reason == "distances that are too small or too large for float64"


def test_some_ties_are_accepted() -> None:
    lattice = torch.cartesian_prod(*[torch.arange(9.0)] * 3)
    found = gride(neighbourhood(lattice).distances, 8)
    assert found.reason is None
    assert 2 < found.value < 8  # shells of equal distance, so no law's dimension
