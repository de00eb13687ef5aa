"""The mean cosine as papers sample it, and over all pairs of a sample, against loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.devices import DEVICES

from theodolite.measures.cosine import NO_DIRECTION, all_pairs_cosine, sampled_cosine
from theodolite.measures.uncertainty import Estimate

EXACT = 1e-12
"""Absolute: float64 throughout."""


def every_cosine(x: np.ndarray) -> np.ndarray:
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    return np.array([[u[a] @ u[b] for b in range(len(u)) if b != a] for a in range(len(u))])


def test_all_pairs() -> None:
    x = np.random.default_rng(0).normal(0.4, 1, (50, 6))
    cosines = every_cosine(x)
    found = all_pairs_cosine(x)
    assert found.value == pytest.approx(cosines.mean(), abs=EXACT)
    assert found.se == pytest.approx(2 * cosines.mean(axis=1).std(ddof=1) / np.sqrt(50), abs=EXACT)


def test_the_error_bar_is_the_spread_over_samples() -> None:
    """200 samples give a spread to 5%; three times that is allowed."""
    random = np.random.default_rng(1)
    made = [all_pairs_cosine(random.normal(0.5, 1, (200, 8))) for _ in range(200)]
    assert np.std([e.value for e in made]) == pytest.approx(np.mean([e.se for e in made]), rel=0.15)


@pytest.mark.parametrize(("make", "expected"), [("uniform", 0.75), ("normal", 0.5)])
def test_closed_forms(make: str, expected: float) -> None:
    """U[0, 1)^dim: 0.75; N(1, 1)^dim: 1/2, both as dim grows; at 768 they are off by about 1/768."""
    random = np.random.default_rng(2)
    x = random.random((3000, 768)) if make == "uniform" else random.normal(1, 1, (3000, 768))
    found = sampled_cosine(x)
    assert found.value == pytest.approx(expected, abs=4 * found.se + 2e-3)
    assert all_pairs_cosine(x).value == pytest.approx(expected, abs=2e-3)


def test_pairs_are_uniform_and_never_of_a_vector_with_itself() -> None:
    """Orthogonal vectors: a pair of equals would have a cosine of 1."""
    assert sampled_cosine(np.eye(5)).value == 0
    assert sampled_cosine(np.eye(2)).value == 0
    x = np.random.default_rng(3).normal(0.3, 1, (400, 10))
    found = sampled_cosine(x)
    assert found.value == pytest.approx(every_cosine(x).mean(), abs=4 * found.se)
    assert found.se == pytest.approx(every_cosine(x).std() / np.sqrt(1000), rel=0.1)


def test_the_same_every_time_and_for_any_type() -> None:
    x = np.random.default_rng(4).normal(size=(30, 4)).astype(np.float32)
    assert sampled_cosine(x) == sampled_cosine(x.astype(np.float64))


@pytest.mark.parametrize("device", DEVICES)
def test_vectors_in_a_tensor(device: str) -> None:
    x = np.random.default_rng(6).normal(0.2, 1, (50, 8)).astype(np.float32)
    x[7] = 0
    found, expected_value = sampled_cosine(torch.from_numpy(x).to(device)), sampled_cosine(x)
    assert (found.value, found.se) == pytest.approx((expected_value.value, expected_value.se), abs=EXACT)


def test_zero_vectors_are_excluded_and_scale_does_not_matter() -> None:
    x = np.random.default_rng(5).normal(1, 1, (40, 4))
    padded = np.concatenate([x[:20], np.zeros((3, 4)), x[20:]])
    assert sampled_cosine(padded) == sampled_cosine(x)
    assert all_pairs_cosine(padded) == all_pairs_cosine(x)
    for factor in (1e-200, 1e200):
        assert sampled_cosine(x * factor).value == pytest.approx(sampled_cosine(x).value, abs=EXACT)


@pytest.mark.parametrize("x", [np.empty((0, 3)), np.ones((1, 3)), np.zeros((5, 3))])
def test_too_few(x: np.ndarray) -> None:
    for measure in (sampled_cosine, all_pairs_cosine):
        assert np.isnan(measure(x).value)
        assert measure(x).reason == NO_DIRECTION


@pytest.mark.parametrize("cosine", [sampled_cosine, all_pairs_cosine])
def test_reversed_and_read_only_arrays(cosine: Callable[[np.ndarray], Estimate]) -> None:
    x = np.random.default_rng(3).normal(size=(30, 4)) + 1
    expected_value = cosine(x)
    assert cosine(x[::-1].copy()[::-1]) == expected_value
    x.flags.writeable = False
    assert cosine(x) == expected_value
