"""The jackknife: exact for a mean, honest for the rest."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.measures.uncertainty import jackknife


def test_the_error_of_a_mean_is_the_standard_error() -> None:
    values = np.random.default_rng(0).normal(size=(20, 3))
    errors = jackknife(20, lambda group: np.delete(values, group, axis=0).mean(axis=0))
    assert errors == pytest.approx(values.std(axis=0, ddof=1) / np.sqrt(20))


def test_the_error_of_a_ratio_equals_the_spread_over_other_groups() -> None:
    rng = np.random.default_rng(1)

    def groups() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.stack([rng.normal(10, 2, 20), rng.normal(5, 0.5, 20)])

    def ratio(parts: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        return float(parts[0].sum() / parts[1].sum())

    def error(parts: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        return float(jackknife(20, lambda group: np.array([ratio(np.delete(parts, group, axis=1))]))[0])

    seen = np.std([ratio(groups()) for _ in range(2000)])
    estimated = np.mean([error(groups()) for _ in range(100)])
    assert estimated == pytest.approx(
        seen, rel=0.1
    )  # the mean of 100 errors, each known to 16%, and the s.d. of 2,000


def test_equal_groups_have_no_error() -> None:
    assert jackknife(5, lambda group: np.array([2.0])) == [0]


@pytest.mark.parametrize("groups", [0, 1])
def test_fewer_than_two_groups_have_no_error(groups: int) -> None:
    assert np.isnan(jackknife(groups, lambda group: np.array([2.0]))).all()
