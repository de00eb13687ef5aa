"""Periods: planted helices are found, noise and smooth paths are not taken for one."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d

from theodolite.measures.laboratories import periodicity
from theodolite.measures.laboratories.periodicity import (
    MIN_ROWS,
    SurrogateTables,
    falling_spectrum,
    fisher_g,
    leading_scores,
    period_changes,
    period_of_path,
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
    turning = winding(leading_scores(rows)[0], found.period)
    # Noise turns the ends by a little.
    assert turning.phase[-1] == pytest.approx((N - 1) / period, abs=0.25)
    assert turning.quarter == pytest.approx(90, abs=8)
    assert len(set(turning.plane)) == 2
    assert np.median(turning.period) == pytest.approx(period, rel=0.03)
    assert period_changes(turning.phase) == []


def drifting_helix(rng, n=383, change=115, periods=(16.6, 25.9), noise=0.1):
    """A helix like that of learned positions: its period changes, and its axis is long and curved."""
    turns = np.cumsum(np.where(np.arange(n) < change, 1 / periods[0], 1 / periods[1]))
    time = np.linspace(0, 1, n)
    drift = 3 * np.stack([np.cos(2.2 * time), time**2, 2 * time, np.sin(3 * time)], axis=1)
    circle = np.stack([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns), 0 * turns, 0 * turns], axis=1)
    axes = np.linalg.qr(rng.normal(size=(DIM, 4)))[0]
    return (circle + drift) @ axes.T + noise * rng.normal(size=(n, DIM)), turns[-1] - turns[0]


@pytest.mark.parametrize("seed", range(3))
def test_a_drifting_axis_and_a_change_of_period_agree_with_the_turns(seed):
    rows, turns = drifting_helix(np.random.default_rng(seed))
    found = period_of_path(rows, surrogates=99)[0]
    assert found.p <= 0.02
    scores = leading_scores(rows)[0]
    turning = winding(scores, found.period)
    assert turning.phase[-1] == pytest.approx(turns, abs=0.3)
    (change,) = period_changes(turning.phase)
    assert abs(change - 115) <= 5
    assert np.median(turning.period[:90]) == pytest.approx(16.6, rel=0.03)
    assert np.median(turning.period[140:]) == pytest.approx(25.9, rel=0.03)
    # About the mean of the complete path, the tempting centre, most turns are missed.
    one, two = turning.plane
    angles = np.unwrap(np.angle(scores[:, one] + 1j * scores[:, two]))
    assert abs(angles[-1] - angles[0]) / (2 * np.pi) < turns - 3


def test_a_wave_on_a_line_has_a_period_and_no_turns():
    wave = np.cos(2 * np.pi * np.arange(N) / 9)
    rows = np.stack([wave, 0.7 * wave, np.linspace(0, 4, N), 0 * wave], axis=1)
    rows += 0.01 * np.random.default_rng(0).normal(size=rows.shape)
    turning = winding(rows[:, :3], 9)
    assert np.isnan(turning.phase).all()
    assert turning.quarter == pytest.approx(0, abs=2)
    assert period_changes(turning.phase) == []


@pytest.mark.parametrize("correlation", [0.0, 0.9, 1.0])
def test_a_constant_period_seldom_changes(correlation):
    """Phase noise of any correlation; the level is 0.01, so 6 of 200 would happen once in 60 times."""
    changed = 0
    for seed in range(200):
        noise = np.random.default_rng(seed).normal(size=300)
        for row in range(1, 300):
            noise[row] += correlation * noise[row - 1]
        phase = np.arange(300) / 15 + 0.004 * noise
        changed += bool(period_changes(phase - phase[0]))
    assert changed < 6


def low_rank(rng):
    smooth = gaussian_filter1d(rng.normal(size=(N + 60, 4)), 5, axis=0)[30:-30]
    return 3 * smooth @ rng.normal(size=(4, DIM)) + 0.1 * rng.normal(size=(N, DIM))


def autoregressive(rng):
    rows = rng.normal(size=(N + 100, DIM))
    for row in range(1, len(rows)):
        rows[row] += 0.9 * rows[row - 1]
    return rows[100:]


SMOOTH = {
    "walk": lambda rng: rng.normal(size=(N, DIM)).cumsum(axis=0),
    "autoregressive": autoregressive,
    "few directions": low_rank,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SMOOTH)
def test_the_test_has_its_level(kind):
    """Of 200 smooth paths without a period, about 5% have p <= 0.05: at most 19, four standard errors above 10."""
    paths = [SMOOTH[kind](np.random.default_rng(seed)) for seed in range(200)]
    found = [period_of_path(path, seed)[0] for seed, path in enumerate(paths)]
    assert sum(each.p <= 0.05 for each in found) <= 19
    assert max(each.surrogates for each in found) == 999


def test_paths_of_few_directions_are_not_mistaken_for_a_period():
    """Surrogates of independent columns rejected 16 of these 20 paths."""
    found = [period_of_path(low_rank(np.random.default_rng(seed)), surrogates=39)[0] for seed in range(20)]
    assert sum(each.p <= 0.05 for each in found) <= 4  # 20 tests at 5%: five would happen once in 400 times


def test_surrogates_stop_when_p_is_large():
    rows = np.random.default_rng(3).normal(size=(N, DIM))
    found = period_of_path(rows, surrogates=999)[0]
    assert found.p > 0.1
    assert found.surrogates < 999
    assert found.p == periodicity.ENOUGH / found.surrogates


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
    rng, surrogate = np.random.default_rng(7), SurrogateTables(rows)
    drawn = [np.square(np.abs(np.fft.rfft(surrogate.draw(rng), axis=0))).mean(axis=1) for _ in range(800)]
    # The power of a mixture of 25 directions of which neighbours are alike varies by less than its mean: 4% each.
    assert np.mean(drawn, axis=0)[1:-1] == pytest.approx(expected[1:-1], rel=0.15)


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
