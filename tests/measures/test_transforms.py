"""Every transform against transforming the vectors and measuring afresh."""

from __future__ import annotations

import numpy as np
import pytest
from tests import oracles

from theodolite.errors import InputError
from theodolite.measures.spectrum import stable_rank
from theodolite.measures.transforms import Transform, transforms

EXACT = 1e-9
"""Relative to the largest eigenvalue: float64 products of a few hundred rows."""


def vectors(dim: int = 6) -> np.ndarray:
    random = np.random.default_rng(0)
    x = random.normal(size=(300, dim)) @ (np.eye(dim) + 0.3 * random.normal(size=(dim, dim)))
    x[:, 2] += 3000
    x[:, 3] *= 8
    return x


def made(x: np.ndarray, *remove: int) -> dict[str, Transform]:
    found = transforms(x.mean(axis=0), np.cov(x.T, bias=True), remove)
    return {transform.name: transform for transform in found}


def afresh(x: np.ndarray, name: str) -> np.ndarray:
    """Each transform by its definition, row by row."""
    y = x - x.mean(axis=0)
    if name == "as-is":
        return x
    if name == "centred":
        return y
    if name == "standardised":
        return y / y.std(axis=0)
    _, _, axes = np.linalg.svd(y, full_matrices=False)
    if name == "whitened":
        scores = y @ axes.T
        return (scores / scores.std(axis=0)) @ axes
    for axis in axes[: int(name.removeprefix("without-top-"))]:
        y = y - np.outer(y @ axis, axis)
    return y


@pytest.mark.parametrize(
    "name", ["as-is", "centred", "standardised", "without-top-1", "without-top-4", "whitened"]
)
def test_numbers_equal_those_of_transformed_vectors(name: str) -> None:
    x = vectors()
    transform, expected = made(x, 1, 4)[name], afresh(x, name)
    largest = oracles.spectrum(expected)[0]
    assert transform(x) == pytest.approx(expected, abs=1e-7 * np.abs(expected).max())
    assert transform.spectrum == pytest.approx(oracles.spectrum(expected), abs=EXACT * largest)
    second = np.linalg.eigvalsh(expected.T @ expected / len(expected))[::-1]
    assert transform.second == pytest.approx(second, abs=EXACT * second[0])
    moment = expected.T @ expected / len(expected)
    assert transform.axes @ np.diag(transform.second) @ transform.axes.T == pytest.approx(
        moment, abs=1e-7 * second[0]
    )
    norm = np.linalg.norm
    assert stable_rank(transform.second) == pytest.approx(norm(expected) ** 2 / norm(expected, 2) ** 2, rel=1e-6)
    assert transform.kept == {"without-top-1": 5, "without-top-4": 2}.get(name, 6)


def test_whitened_vectors_are_the_identity() -> None:
    x = vectors()
    assert np.cov(made(x)["whitened"](x).T, bias=True) == pytest.approx(np.eye(6), abs=1e-9)


def test_constant_directions_are_excluded_and_counted() -> None:
    x = vectors()
    x = np.concatenate([x, x[:, :1], np.full((300, 1), 7.0)], axis=1)
    found = made(x, 7)
    assert {name: transform.kept for name, transform in found.items()} == {
        "as-is": 6,
        "centred": 6,
        "standardised": 6,
        "without-top-7": 0,
        "whitened": 6,
    }
    for name in ("standardised", "whitened"):
        assert np.abs(found[name](x)).max() < 100  # rounding was not made large
    least = np.abs(np.linalg.eigvalsh(np.cov(x.T, bias=True))).min()
    assert least < 1e-10  # whitening every direction would multiply rounding by the inverse root of this


@pytest.mark.parametrize("k", [0, -1, 6])
def test_removing_nothing_or_everything_is_rejected(k: int) -> None:
    with pytest.raises(
        InputError, match=f"--remove requires a number of directions from 1 to 5 for 6 coordinates .got {k}."
    ):
        made(vectors(), k)
