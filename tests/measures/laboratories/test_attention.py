"""Rows of the softmax against the softmax itself."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.measures.laboratories.attention import expected_error, extremes, row_weights

ROUNDING = 3e-6
"""Relative: sums of a few dozen float32 numbers."""


@pytest.mark.parametrize("scale", [1e-4, 1.0, 30.0])
def test_causal_rows_ignore_masked_entries(scale: float) -> None:
    scores = scale * np.random.default_rng(0).normal(size=(2, 17, 17))
    lengths = np.arange(1, 18)
    masked = np.where(np.tri(17, dtype=bool), scores, np.inf).astype(np.float32)
    truth = masked.astype(np.float64)
    rows = row_weights(masked.copy(), lengths)
    for head in range(2):
        for i in range(17):
            row = np.exp(truth[head, i, : i + 1] - truth[head, i, : i + 1].max())
            row /= row.sum()
            assert rows.maximum[head, i] == pytest.approx(row.max(), rel=ROUNDING)
            assert rows.median[head, i] == pytest.approx(np.median(row), rel=scale * 1e-5 + ROUNDING)
            assert rows.minimum[head, i] == pytest.approx(row.min(), rel=scale * 1e-5 + ROUNDING)
            assert rows.total[head, i] == pytest.approx(truth[head, i, : i + 1].sum(), rel=1e-4, abs=1e-4 * scale)
    wrong = np.exp(np.where(np.tri(17, dtype=bool), scores, 0.0))  # the tempting way: masked scores as 0
    assert not np.allclose((wrong / wrong.sum(axis=-1, keepdims=True)).max(axis=-1), rows.maximum, rtol=0.01)


def test_extreme_scores_do_not_overflow() -> None:
    rows = row_weights(np.array([[3000.0, -3000.0, 0.0]], dtype=np.float32), np.array([3]))
    assert rows.maximum.item() == 1
    assert rows.minimum.item() == 0


def test_equal_scores_and_rows_of_one() -> None:
    rows = row_weights(np.array([[[2.0, np.inf], [1.0, 1.0]]], dtype=np.float32), np.array([1, 2]))
    assert rows.maximum.tolist() == rows.minimum.tolist() == rows.median.tolist() == [[1.0, 0.5]]
    assert extremes(rows, np.array([1, 2]), 2)["maximum"] == 0.5


def test_a_mean_of_zero_has_no_relative_error() -> None:
    found = expected_error(np.zeros((1, 3)), np.ones((1, 3)))
    assert np.isnan(found).all()
