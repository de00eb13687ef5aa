"""Quantiles from a histogram whose bins are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from theodolite.measures.norms import LEVELS, norm_quantiles

EDGES = np.exp2(np.arange(12.0))


def quantiles(counts: list[int], zero: int = 0, lowest: float = 1.0, highest: float = 2048.0) -> dict[str, float]:
    padded = np.array(counts + [0] * (len(EDGES) - 1 - len(counts)))
    return norm_quantiles(padded, EDGES, zero, lowest, highest)


def test_within_a_bin_they_are_interpolated_by_ratio() -> None:
    assert quantiles([0, 100])["norm_p50"] == pytest.approx(2 * math.sqrt(2))
    assert quantiles([50, 50])["norm_p50"] == pytest.approx(2)


def test_they_rise_with_the_level() -> None:
    values = list(quantiles([3, 0, 40, 1, 0, 12]).values())
    assert values == sorted(values)


def test_never_beyond_what_was_seen() -> None:
    found = quantiles([0, 0, 5], lowest=5.0, highest=5.5)
    assert set(found.values()) <= {5.0, 5.5} | {value for value in found.values() if 5 <= value <= 5.5}
    assert found["norm_p99"] == 5.5
    assert found["norm_p01"] == 5.0


def test_zero_vectors_are_below_all_others() -> None:
    found = quantiles([0, 30], zero=70)
    assert found["norm_p50"] == 0
    assert found["norm_p75"] > 2


def test_no_counts_have_no_quantiles() -> None:
    found = quantiles([])
    assert found.keys() == LEVELS.keys()
    assert all(math.isnan(value) for value in found.values())


def test_only_zero_vectors() -> None:
    assert set(quantiles([], zero=3, highest=0.0).values()) == {0.0}


def test_norms_outside_the_bins_have_no_quantiles() -> None:
    """The ends hold all that is beyond them: the tempting value, the edge, is far from them."""
    below = quantiles([90, 0, 10], lowest=1e-9, highest=7.9)
    assert np.isnan(below["norm_p50"])
    assert below["norm_p95"] == pytest.approx(4 * 2**0.5)
    above = quantiles([0, 50, *[0] * 8, 50], lowest=2.0, highest=1e30)
    assert above["norm_p25"] == pytest.approx(2 * 2**0.5)
    assert np.isnan(above["norm_p75"])
    assert quantiles([90, 10], lowest=1.0, highest=4.0)["norm_p50"] == pytest.approx(2 ** (5 / 9))
