"""The plane of figure 1, against numpy's own decomposition."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.studies.norm_variance.token_set_files import fit_plane

ROUNDING = 1e-9
MEANS = np.random.default_rng(5).normal(2, 1, (12, 7)) * np.arange(1, 8)


def test_points_are_transformed_and_then_moved_with_the_origin_to_0() -> None:
    points = np.vstack([MEANS, np.zeros(7)])
    centre = points.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(points.T))  # another way to the same axes
    plane = fit_plane(MEANS)
    others = np.random.default_rng(6).normal(size=(30, 7))
    for axis in range(2):
        theirs = vectors[:, -1 - axis]
        moved = (others - centre) @ theirs - (np.zeros(7) - centre) @ theirs
        sign = np.sign(theirs[np.abs(theirs).argmax()])
        assert plane.place(others)[:, axis] == pytest.approx(sign * moved, abs=ROUNDING)
        assert plane.share[axis] == pytest.approx(values[-1 - axis] / values.sum(), rel=ROUNDING)
    assert plane.place(np.zeros((1, 7))).tolist() == [[0.0, 0.0]]


def test_the_origin_is_among_the_fitted_points() -> None:
    points = MEANS - MEANS.mean(axis=0)
    without = np.linalg.svd(points)[2][:2]
    assert np.abs(np.abs(fit_plane(MEANS).axes @ without.T) - np.eye(2)).max() > 0.01


def test_the_order_of_tokens_does_not_matter() -> None:
    assert fit_plane(MEANS[::-1]).axes == pytest.approx(fit_plane(MEANS).axes, abs=ROUNDING)


def test_means_on_a_line_have_no_second_axis() -> None:
    plane = fit_plane(np.outer([1.0, 2.0, 5.0], [0.0, 3.0, 4.0]))
    assert plane.axes[0] == pytest.approx([0, 0.6, 0.8])
    assert not plane.axes[1].any()
    assert plane.share == pytest.approx([1, 0])
