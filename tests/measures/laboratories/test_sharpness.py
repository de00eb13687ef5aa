"""Rows of attention and vectors by head against their definitions, written out."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.measures.laboratories.attention import add_head_sums, head_sums, sharpness, summarise_heads

ROUNDING = 1e-12
"""Relative: both sides sum in float64."""


def test_sharpness_is_that_of_the_entries_that_are_not_masked() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, 6, 6)) * 4
    lengths = np.arange(1, 7)
    weights = np.full((3, 6, 6), 1e9)  # whatever is behind the mask
    for head in range(3):
        for row in range(6):
            seen = np.exp(scores[head, row, : row + 1])
            weights[head, row, : row + 1] = seen / seen.sum()
    found = sharpness(weights, lengths)
    for head in range(3):
        for row in range(6):
            seen = weights[head, row, : row + 1]
            entropy = -sum(w * np.log(w) for w in seen)
            assert found.maximum[head, row] == pytest.approx(max(seen), rel=ROUNDING)
            assert found.entropy[head, row] == pytest.approx(entropy, abs=ROUNDING)
            if row:
                assert found.share[head, row] == pytest.approx(entropy / np.log(row + 1), rel=ROUNDING)
    assert np.isnan(found.share[:, 0]).all()
    # The tempting way divides by the log of the row's width, masked entries and all.
    assert not np.allclose(found.share[:, 1:5], found.entropy[:, 1:5] / np.log(6))


def test_hard_rows() -> None:
    sure = sharpness(np.array([[0.0, 1.0, 0.0]]), np.array([3]))  # 0 log 0 is 0
    assert (sure.maximum.tolist(), sure.entropy.tolist(), sure.share.tolist()) == ([1.0], [0.0], [0.0])
    even = sharpness(np.full((1, 8), 1 / 8, dtype=np.float16), np.array([8]))
    assert even.share[0] == pytest.approx(1.0)
    lost = sharpness(np.array([[np.nan, 0.5]]), np.array([2]))
    assert np.isnan(lost.entropy[0])


def test_vectors_by_head_whatever_the_split() -> None:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(2, 40, 5)) + 1
    vectors[:, :, 3] = 3000  # a rogue coordinate
    vectors[:, 0] *= 150  # a long first position
    vectors[1, 7] = 0  # no direction
    whole = summarise_heads(head_sums(vectors))
    parts = summarise_heads(
        add_head_sums([head_sums(vectors[:, :1]), head_sums(vectors[:, 1:13]), head_sums(vectors[:, 13:])])
    )
    assert parts == pytest.approx(whole, rel=1e-9)
    norms = np.mean([np.linalg.norm(row) for head in vectors for row in head])
    means = np.mean([np.linalg.norm(head.mean(axis=0)) for head in vectors])
    cosines = []
    for head in vectors:
        rows = [row / np.linalg.norm(row) for row in head if row.any()]
        cosines.append(np.mean([a @ b for i, a in enumerate(rows) for j, b in enumerate(rows) if i != j]))
    assert whole == pytest.approx((norms, means, np.mean(cosines)), rel=1e-9)


def test_too_few_vectors_are_nan() -> None:
    one = summarise_heads(head_sums(np.ones((2, 1, 3))))
    assert one[:2] == pytest.approx((np.sqrt(3), np.sqrt(3)))
    assert np.isnan(one[2])
    assert np.isnan(summarise_heads(head_sums(np.ones((2, 0, 3))))).all()
    assert np.isnan(summarise_heads(head_sums(np.zeros((1, 4, 3))))[2])
