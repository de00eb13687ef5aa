"""Steps, cosines and angles against plain loops, and in cases where the obvious formula fails."""

from __future__ import annotations

import math

import numpy as np
import pytest

from theodolite.measures.laboratories.paths import (
    angle,
    cosine,
    parted_layers,
    radial,
    share_nearer,
    shared_direction,
    step,
    tangential,
)
from theodolite.measures.projection import principal_components

# Sums of 40 squares in float64 differ by a few of its last digits, however they are ordered.
EXACT = 1e-12
RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(2, 25, 40))
X[:, 7] += 3000  # a rogue coordinate
Y[:, 7] += 2990
Y[3] *= 150  # a massive state


def length(x: np.ndarray) -> float:
    return math.sqrt(math.fsum(value * value for value in x))


def test_steps_are_their_definitions() -> None:
    for number, (x, y) in enumerate(zip(X, Y, strict=True)):
        dot = math.fsum(a * b for a, b in zip(x, y, strict=True)) / length(x) / length(y)
        assert step(X, Y)[number] == pytest.approx(length(y - x), rel=EXACT)
        assert radial(X, Y)[number] == pytest.approx(length(y) - length(x), rel=1e-9)  # 3,000 less 2,990
        assert cosine(X, Y)[number] == pytest.approx(dot, rel=EXACT)


def test_a_step_is_its_radial_and_its_tangential_part() -> None:
    assert radial(X, Y) ** 2 + tangential(X, Y) ** 2 == pytest.approx(step(X, Y) ** 2, rel=1e-9)


def test_a_rotation_is_not_a_step_inwards() -> None:
    """The tempting split, by projection on the old direction, calls a quarter turn a step to the origin."""
    x, y = np.array([3.0, 0.0]), np.array([0.0, 3.0])
    assert (radial(x, y), tangential(x, y)) == (0.0, pytest.approx(math.sqrt(18)))
    assert (y - x) @ x / 3.0 == -3.0


def test_small_angles_keep_their_precision() -> None:
    small = 1e-9
    x, y = np.array([1.0, 0.0]), np.array([math.cos(small), math.sin(small)])
    assert angle(x, y) == pytest.approx(math.degrees(small), rel=1e-6)
    assert math.degrees(math.acos(min(1.0, x @ y))) == 0.0  # the arc cosine has lost it
    assert angle(x, -x) == pytest.approx(180.0)


@pytest.mark.filterwarnings("error")
def test_a_zero_vector_has_a_step_and_no_direction() -> None:
    zero, x = np.zeros(2), np.array([3.0, 4.0])
    assert (step(zero, x), radial(zero, x), tangential(zero, x)) == (5.0, 5.0, 0.0)
    assert np.isnan(cosine(zero, x))
    assert np.isnan(angle(zero, x))
    assert np.isnan(shared_direction(np.zeros((3, 2))))


def test_large_and_small_coordinates_neither_overflow_nor_vanish() -> None:
    assert step(np.zeros(2), np.array([3e200, 4e200])) == pytest.approx(5e200)
    assert cosine(np.array([1e-200, 0.0]), np.array([1e-200, 1e-200])) == pytest.approx(math.sqrt(0.5))


def test_the_shared_direction_is_the_mean_over_pairs() -> None:
    steps = Y - X
    pairs = [cosine(steps[i], steps[j]) for i in range(25) for j in range(25) if i != j]
    assert shared_direction(steps) == pytest.approx(np.mean(pairs), rel=1e-9)


def test_principal_components_are_those_of_the_covariance() -> None:
    found = principal_components(X, 3)
    values, vectors = np.linalg.eigh(np.cov(X.T, bias=True))
    assert found.shares == pytest.approx(values[::-1][:3] / values.sum(), rel=1e-9)
    for place in range(3):
        theirs = (X - X.mean(0)) @ vectors[:, -1 - place]
        assert abs(found.points[:, place]) == pytest.approx(abs(theirs), rel=1e-6, abs=1e-9)


def test_a_projection_does_not_depend_on_the_signs_of_eigenvectors() -> None:
    assert principal_components(X).points == pytest.approx(
        principal_components(X[::-1])[0][::-1], rel=1e-8, abs=1e-9
    )


def test_one_vector_is_projected_to_the_origin() -> None:
    found = principal_components(np.ones((1, 4)))
    assert found.points.tolist() == [[0.0, 0.0, 0.0]]
    assert np.isnan(found.shares).all()


def test_nearer_counts_pairs() -> None:
    values = np.sort(RNG.normal(size=100))
    assert share_nearer(values, 0.3) == sum(value < 0.3 for value in values) / 100
    assert np.isnan(share_nearer(values[:0], 0.3))
    assert np.isnan(share_nearer(values, float("nan")))


@pytest.mark.parametrize(
    ("parted", "expected"),
    [("...", (None, None)), ("x..", (2, None)), ("..x", (4, 4)), ("xxx", (2, 2)), ("x.x", (2, 4))],
)
def test_the_layer_of_parting(parted: str, expected: tuple[int | None, int | None]) -> None:
    assert parted_layers(np.array([2, 3, 4]), np.array([mark == "x" for mark in parted])) == expected
