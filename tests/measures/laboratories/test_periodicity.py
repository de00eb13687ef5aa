"""Periods: planted helices are found, noise and smooth paths are not taken for one."""

import numpy as np
import pytest

from theodolite.measures.laboratories.periodicity import (
    MIN_ROWS,
    falling_spectrum,
    fisher_g,
    leading_scores,
    period_of_path,
    smooth_table,
    winding,
)

N, DIM = 128, 24


def helix(period, rng, noise=0.1, n=N):
    turn = 2 * np.pi * np.arange(n) / period
    shape = np.stack([np.cos(turn), np.sin(turn), 3 * np.arange(n) / n], axis=1)
    axes = np.linalg.qr(rng.normal(size=(DIM, 3)))[0]
    return shape @ axes.T + noise * rng.normal(size=(n, DIM))


@pytest.mark.parametrize("period", [5.7, 11.0, 22.0])
def test_a_planted_helix_is_found(period):
    rows = helix(period, np.random.default_rng(0))
    found, spectrum, null = period_of_path(rows, surrogates=99)
    # Within the path's resolution: half a step of 1/n in frequency.
    assert abs(1 / found.period - 1 / period) < 0.5 / N
    assert found.low < period < found.high
    assert found.p == 0.01  # none of 99 tables has such a peak
    assert spectrum.sum() == pytest.approx(1)
    assert len(spectrum) == len(null) == N // 2 + 1
    plane, turns, quarter = winding(leading_scores(rows)[0], found.period)
    assert turns == pytest.approx((N - 1) / period, abs=0.25)  # noise and a tilted axis turn the ends by a little
    assert quarter == pytest.approx(90, abs=5)
    assert len(set(plane)) == 2


def test_neither_noise_nor_a_smooth_path_has_a_period():
    rng = np.random.default_rng(1)
    paths = {
        "noise": lambda: rng.normal(size=(N, DIM)),
        "walk": lambda: rng.normal(size=(N, DIM)).cumsum(axis=0),
        "slow": lambda: np.apply_along_axis(np.convolve, 0, rng.normal(size=(N, DIM)), np.hanning(17), "same"),
    }
    for name, path in paths.items():
        found = [period_of_path(path(), seed, surrogates=39)[0] for seed in range(6)]
        significant = [each.p <= 0.025 and each.reason is None for each in found]
        assert sum(significant) <= 1, name  # 6 tests at 2.5%: two would happen once in 110 times


def test_fishers_test_mistakes_a_random_walk_for_a_period():
    """The tempting test: its null is white noise, which every smooth component refutes."""
    walk = np.random.default_rng(2).normal(size=(N, DIM)).cumsum(axis=0)
    assert fisher_g(leading_scores(walk)[0][:, 0])[1] < 1e-10
    assert period_of_path(walk, surrogates=39)[0].p > 0.05


def test_one_long_row_is_not_a_period():
    rows = np.random.default_rng(3).normal(size=(N, DIM)).cumsum(axis=0)
    rows[50] *= 150
    assert period_of_path(rows, surrogates=39)[0].p > 0.05


def test_fishers_p_is_right_for_white_noise():
    rng = np.random.default_rng(4)
    p = np.array([fisher_g(rng.normal(size=64))[1] for _ in range(2000)])
    for level in (0.01, 0.05, 0.5):
        assert np.mean(p <= level) == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / 2000))


def test_scores_are_those_of_a_singular_value_decomposition():
    rows = np.random.default_rng(5).normal(size=(40, 12))
    centred = rows - rows.mean(axis=0)
    _, scales, axes = np.linalg.svd(centred, full_matrices=False)
    scores, shares = leading_scores(rows, 4)
    assert np.abs(scores) == pytest.approx(np.abs(centred @ axes[:4].T), abs=1e-9)  # up to sign
    assert shares == pytest.approx((scales**2 / (scales**2).sum())[:4], abs=1e-12)


def test_the_null_has_the_expected_spectrum():
    rows = np.random.default_rng(6).normal(size=(64, 16)).cumsum(axis=0)
    expected = falling_spectrum(rows)
    assert (np.diff(expected[1:]) <= 1e-9).all()
    rng = np.random.default_rng(7)
    drawn = [
        np.square(np.abs(np.fft.rfft(smooth_table(rng, expected, (64, 16)), axis=0))).mean(axis=1)
        for _ in range(200)
    ]
    # 3,200 draws of an exponential: 1.8% each, four times that over 31 frequencies.
    assert np.mean(drawn, axis=0)[1:-1] == pytest.approx(expected[1:-1], rel=0.075)


def test_the_same_seed_gives_the_same_answer():
    rows = helix(9, np.random.default_rng(8))
    assert period_of_path(rows, 3, surrogates=9)[0] == period_of_path(rows, 3, surrogates=9)[0]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (np.ones((MIN_ROWS - 1, 4)), "too few"),
        (np.ones((MIN_ROWS, 4)), "do not vary"),
        (np.full((MIN_ROWS, 4), np.nan), "not all are finite"),
    ],
)
def test_what_has_no_period_has_a_reason(rows, why):
    found, spectrum, _ = period_of_path(rows)
    assert np.isnan(found.period)
    assert np.isnan(found.p)
    assert why in found.reason
    assert not len(spectrum)


def test_a_trend_is_not_a_period():
    turn = 2 * np.pi * np.arange(N) / N
    rows = np.stack([np.cos(turn), np.sin(turn), 0 * turn, 0 * turn], axis=1)
    found = period_of_path(rows, surrogates=19)[0]
    assert found.reason is not None or found.p > 0.05


def test_a_constant_has_no_g():
    assert np.isnan(fisher_g(np.ones(20))).all()
