"""Sinusoids and rotations: what depends on distance alone."""

import numpy as np
import pytest

from theodolite.measures.linking import linking_number
from theodolite.measures.sinusoid import rotary_similarity, sinusoidal, sinusoidal_as_printed


def cosines(rows):
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return units @ units.T


def spread_by_distance(rows):
    """The largest difference between two cosines at one distance."""
    found = cosines(rows)
    return max(np.ptp(np.diagonal(found, lag)) for lag in range(len(rows)))


def test_sinusoids_are_as_vaswani_has_them():
    found = sinusoidal(20, 16)
    for n in (0, 3, 19):
        for k in (0, 1, 6, 15):
            angle = n / 10000 ** (2 * (k // 2) / 16)
            assert found[n, k] == pytest.approx(np.sin(angle) if k % 2 == 0 else np.cos(angle), abs=1e-15)


def test_their_cosines_depend_on_distance_alone_and_those_of_the_printed_formula_do_not():
    assert spread_by_distance(sinusoidal(64, 512)) < 1e-12
    assert spread_by_distance(sinusoidal_as_printed(64, 512)) > 0.05


def test_rotation_leaves_what_sinusoids_leave():
    dim = 64
    frequencies = 10000.0 ** (-2 * np.arange(dim // 2) / dim)
    found = rotary_similarity(frequencies, np.arange(30.0))
    assert found == pytest.approx(cosines(sinusoidal(30, dim))[0], abs=1e-12)


def test_rotation_is_a_rotation():
    rng = np.random.default_rng(0)
    frequencies, vector = rng.random(8), np.exp(2j * np.pi * rng.random(8))  # equal weight in every plane
    for distance in (0, 1, 7):
        turned = vector * np.exp(1j * frequencies * distance)
        wanted = np.real(np.vdot(vector, turned)) / 8
        assert rotary_similarity(frequencies, np.array([float(distance)]))[0] == pytest.approx(wanted, abs=1e-12)


def circle(centre, one, other, n=100):
    angle = 2 * np.pi * np.arange(n)[:, None] / n
    return np.asarray(centre) + np.cos(angle) * np.asarray(one) + np.sin(angle) * np.asarray(other)


def test_circles_are_linked_once_twice_removed_not_at_all():
    first = circle((0, 0, 0), (1, 0, 0), (0, 1, 0))
    through = circle((1, 0, 0), (1, 0, 0), (0, 0, 1))
    apart = circle((5, 0, 0), (1, 0, 0), (0, 0, 1))
    # Midpoints of 100 edges: the integral is off by some 1e-3.
    assert abs(linking_number(first, through)) == pytest.approx(1, abs=5e-3)
    assert linking_number(first, apart) == pytest.approx(0, abs=1e-6)
    assert linking_number(first, through[::-1]) == pytest.approx(-linking_number(first, through), abs=1e-9)
