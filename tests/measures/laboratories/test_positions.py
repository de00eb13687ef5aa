"""Sinusoids, rotary similarity and untrained rows of position tables."""

import numpy as np
import pytest
from scipy.stats import beta

from theodolite.measures.laboratories.linking_number import linking_number
from theodolite.measures.laboratories.positions import (
    LEVEL,
    predicted_shares,
    rotary_similarity,
    sinusoidal,
    sinusoidal_as_printed,
    untrained_tail,
)


def cosines(rows):
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return units @ units.T


def spread_by_distance(rows):
    """The largest difference between two cosines at one distance."""
    found = cosines(rows)
    return max(np.ptp(np.diagonal(found, lag)) for lag in range(len(rows)))


def test_sinusoids_equal_the_definition_of_vaswani():
    found = sinusoidal(20, 16)
    for n in (0, 3, 19):
        for k in (0, 1, 6, 15):
            angle = n / 10000 ** (2 * (k // 2) / 16)
            assert found[n, k] == pytest.approx(np.sin(angle) if k % 2 == 0 else np.cos(angle), abs=1e-15)


def test_cosines_of_sinusoids_depend_on_distance_only_unlike_the_printed_formula():
    assert spread_by_distance(sinusoidal(64, 512)) < 1e-12
    assert spread_by_distance(sinusoidal_as_printed(64, 512)) > 0.05


def test_rotation_gives_the_cosines_of_sinusoids():
    dim = 64
    frequencies = 10000.0 ** (-2 * np.arange(dim // 2) / dim)
    found = rotary_similarity(frequencies, np.arange(30.0))
    assert found == pytest.approx(cosines(sinusoidal(30, dim))[0], abs=1e-12)


def test_rotation_is_a_rotation():
    rng = np.random.default_rng(0)
    frequencies, vector = rng.random(8), np.exp(2j * np.pi * rng.random(8))  # equal weight in every plane
    for distance in (0, 1, 7):
        turned = vector * np.exp(1j * frequencies * distance)
        expected = np.real(np.vdot(vector, turned)) / 8
        assert rotary_similarity(frequencies, np.array([float(distance)]))[0] == pytest.approx(expected, abs=1e-12)


def circle(centre, one, other, n=100):
    angle = 2 * np.pi * np.arange(n)[:, None] / n
    return np.asarray(centre) + np.cos(angle) * np.asarray(one) + np.sin(angle) * np.asarray(other)


def test_linking_numbers_of_circles():
    first = circle((0, 0, 0), (1, 0, 0), (0, 1, 0))
    through = circle((1, 0, 0), (1, 0, 0), (0, 0, 1))
    apart = circle((5, 0, 0), (1, 0, 0), (0, 0, 1))
    # Midpoints of 100 edges: the integral is off by some 1e-3.
    assert abs(linking_number(first, through)) == pytest.approx(1, abs=5e-3)
    assert linking_number(first, apart) == pytest.approx(0, abs=1e-6)
    assert linking_number(first, through[::-1]) == pytest.approx(-linking_number(first, through), abs=1e-9)


N, DIM = 96, 64


def trained(rng, n=N, dim=DIM, noise=0.3):
    """Rows that drift smoothly about a mean of their own, as learned positions do, with noise on each."""
    smooth = np.cumsum(rng.normal(size=(n, dim)), axis=0) / np.sqrt(n)
    return 0.02 * (rng.normal(size=dim) + smooth + noise * rng.normal(size=(n, dim)) / 2)


def tail_of(rows):
    return untrained_tail(rows, *predicted_shares(rows))


def planted(rng, first=64):
    rows = trained(rng)
    rows[first:] = 0.02 * rng.normal(size=(N - first, DIM))
    return rows


def test_the_share_is_that_of_a_least_squares_fit():
    rows = trained(np.random.default_rng(0))
    shares, _ = predicted_shares(rows)
    last = rows[-16:].mean(axis=0)
    for row in (1, 3, 10, N - 1):
        explained = []
        for centre in (0.0, last):
            x = rows - centre
            before = x[max(0, row - 4) : row]
            weights, *_ = np.linalg.lstsq(before.T, x[row], rcond=None)
            explained.append(1 - np.square(x[row] - weights @ before).sum() / np.square(x[row]).sum())
        assert shares[row] == pytest.approx(min(explained), abs=1e-9)  # two float64 solutions of one small system
    assert np.isnan(shares[0])


def test_p_is_uniform_for_independent_rows():
    rows = np.random.default_rng(1).normal(size=(2000, 32)) * np.exp(
        np.random.default_rng(2).normal(size=(2000, 1))
    )
    _, p = predicted_shares(rows)
    # The larger of two p is a little too large, never too small: a tail is cut short less often than stated.
    for level in (0.01, 0.1, 0.5):
        assert np.nanmean(p <= level) <= level + 3 * np.sqrt(level * (1 - level) / 2000)
    assert np.nanmean(p <= 0.5) > 0.4


def test_a_planted_tail_is_found_to_the_row():
    for seed in range(10):
        for first in (40, 64, 90):
            found = tail_of(planted(np.random.default_rng(seed), first))
            assert (found.first, found.rows) == (first, N - first)
            assert found.change_p < LEVEL
            assert found.sd == pytest.approx(0.02, rel=0.15)  # the sd of some 400 numbers or more


def test_no_tail_where_all_rows_are_trained():
    for seed in range(10):
        assert tail_of(trained(np.random.default_rng(seed))).first is None


def test_a_table_that_was_never_trained_is_reported_completely():
    found = tail_of(np.random.default_rng(3).normal(size=(N, DIM)))
    assert found.first == 0
    assert found.rows == N
    assert "complete table" in found.reason


def test_the_tail_is_found_if_norms_are_equal():
    """The tempting way: the tail's norms differ. Here they do not, and the rows are random all the same."""
    rows = planted(np.random.default_rng(4))
    norms = np.linalg.norm(rows, axis=1)
    rows[64:] *= norms[:64].mean() / norms[64:].mean()
    assert tail_of(rows).first == 64


@pytest.mark.parametrize("spoil", ["rogue", "long first", "offset", "bf16", "duplicates"])
def test_distortions_do_not_hide_the_tail(spoil):
    rows = planted(np.random.default_rng(5))
    if spoil == "rogue":
        rows[:, 7] += 3000.0
    elif spoil == "long first":
        rows[0] *= 150
    elif spoil == "offset":
        rows += np.random.default_rng(6).normal(size=DIM)
    elif spoil == "bf16":
        import torch

        rows = torch.tensor(rows).bfloat16().double().numpy()
    else:
        rows[10] = rows[11] = rows[12]
    assert tail_of(rows).first == 64


def test_rows_of_zeros_are_untrained_and_counted():
    rows = planted(np.random.default_rng(7))
    rows[64:] = 0
    found = tail_of(rows)
    assert (found.first, found.zero) == (64, 32)


@pytest.mark.parametrize("rows", [np.zeros((0, 16)), np.ones((1, 16)), np.ones((5, 2))])
def test_tables_too_small_have_a_reason(rows):
    found = tail_of(rows)
    assert found.first is None
    assert "too small" in found.reason


def test_non_finite_numbers_are_not_a_tail():
    rows = trained(np.random.default_rng(8))
    rows[-1, 0] = np.nan
    assert tail_of(rows).first is None


def test_p_is_the_beta_distributions():
    rows = trained(np.random.default_rng(9))
    rows -= rows[-16:].mean(axis=0)  # then both origins are one
    shares, p = predicted_shares(rows)
    assert p[20] == pytest.approx(beta.sf(shares[20], 2, (DIM - 4) / 2), rel=1e-6)
