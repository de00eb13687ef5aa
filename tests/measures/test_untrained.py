"""The untrained tail: planted ones are found, trained tables have none, and hard cases do not hide it."""

import numpy as np
import pytest
from scipy.stats import beta

from theodolite.measures.untrained import LEVEL, foretold, untrained_tail

N, DIM = 96, 64


def trained(rng, n=N, dim=DIM, noise=0.3):
    """Rows that drift smoothly about a mean of their own, as learned positions do, with noise on each."""
    smooth = np.cumsum(rng.normal(size=(n, dim)), axis=0) / np.sqrt(n)
    return 0.02 * (rng.normal(size=dim) + smooth + noise * rng.normal(size=(n, dim)) / 2)


def tail_of(rows):
    return untrained_tail(rows, *foretold(rows))


def planted(rng, first=64):
    rows = trained(rng)
    rows[first:] = 0.02 * rng.normal(size=(N - first, DIM))
    return rows


def test_the_share_is_that_of_a_least_squares_fit():
    rows = trained(np.random.default_rng(0))
    shares, _ = foretold(rows)
    last = rows[-16:].mean(axis=0)
    for row in (1, 3, 10, N - 1):
        told = []
        for centre in (0.0, last):
            x = rows - centre
            before = x[max(0, row - 4) : row]
            weights, *_ = np.linalg.lstsq(before.T, x[row], rcond=None)
            told.append(1 - np.square(x[row] - weights @ before).sum() / np.square(x[row]).sum())
        assert shares[row] == pytest.approx(min(told), abs=1e-9)  # two float64 solutions of one small system
    assert np.isnan(shares[0])


def test_p_is_even_for_rows_drawn_without_regard_to_each_other():
    rows = np.random.default_rng(1).normal(size=(2000, 32)) * np.exp(
        np.random.default_rng(2).normal(size=(2000, 1))
    )
    _, p = foretold(rows)
    # The larger of two p is a little too large, never too small: a tail is cut short less often than is said.
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


def test_a_table_that_was_never_trained_is_told_whole():
    found = tail_of(np.random.default_rng(3).normal(size=(N, DIM)))
    assert found.first == 0
    assert found.rows == N
    assert "whole table" in found.reason


def test_norms_tell_nothing_where_the_test_does():
    """The tempting way: the tail's norms differ. Here they do not, and the rows are random all the same."""
    rows = planted(np.random.default_rng(4))
    norms = np.linalg.norm(rows, axis=1)
    rows[64:] *= norms[:64].mean() / norms[64:].mean()
    assert tail_of(rows).first == 64


@pytest.mark.parametrize("spoil", ["rogue", "long first", "offset", "bf16", "duplicates"])
def test_hard_cases_do_not_hide_the_tail(spoil):
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


def test_numbers_that_are_not_finite_are_no_tail():
    rows = trained(np.random.default_rng(8))
    rows[-1, 0] = np.nan
    assert tail_of(rows).first is None


def test_p_is_the_beta_distributions():
    rows = trained(np.random.default_rng(9))
    rows -= rows[-16:].mean(axis=0)  # then both origins are one
    shares, p = foretold(rows)
    assert p[20] == pytest.approx(beta.sf(shares[20], 2, (DIM - 4) / 2), rel=1e-6)
