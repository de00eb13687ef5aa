"""Layer scores of arrays against their definitions, their errors against replications, and their limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from theodolite import measures
from theodolite.errors import InputError
from theodolite.measures.layer_scores import alpha_req, mean_entropy
from theodolite.trajectories import matrix_entropy, turning_angles

Array = NDArray[np.float64]
EXACT = 1e-9


def decaying(rows: int, dim: int, alpha: float, seed: int = 0) -> Array:
    """Gaussian vectors whose eigenvalues decay as i^-alpha."""
    x = np.random.default_rng(seed).standard_normal((rows, dim))
    return x * np.arange(1, dim + 1) ** (-alpha / 2) + 1.0


def test_alpha_is_the_slope_of_the_logarithms() -> None:
    x = decaying(3000, 130, 1.2)
    values = np.linalg.eigvalsh(np.cov(x.T))[::-1]
    ranks = np.arange(4, 101)
    slope = np.polyfit(np.log(ranks), np.log(values[3:100]), 1, w=np.sqrt(1 / ranks))[0]
    assert measures.alpha_req(x).value == pytest.approx(-slope, rel=EXACT)
    assert alpha_req(np.arange(1.0, 400) ** -0.7) == pytest.approx(0.7, rel=EXACT)


def test_alpha_ignores_eigenvalues_that_are_rounding() -> None:
    """Thirty of 120 directions are used: the others would bend the line, whatever their rounding is."""
    clean = np.where(np.arange(120) < 30, np.arange(1.0, 121) ** -1.5, 0.0)
    rounded = clean + 1e-13 * np.random.default_rng(0).random(120)
    assert alpha_req(clean) == pytest.approx(1.5, rel=EXACT)
    assert alpha_req(rounded) == pytest.approx(1.5, rel=1e-6)
    ranks = np.arange(4, 101)
    naive = -np.polyfit(np.log(ranks), np.log(rounded[3:100]), 1, w=np.sqrt(1 / ranks))[0]
    assert naive > 5


def test_the_error_of_alpha_matches_replications() -> None:
    found = [measures.alpha_req(decaying(2000, 24, 1.0, seed)) for seed in range(80)]
    values, errors = np.array([(one.value, one.se) for one in found]).T
    assert 0.75 < errors.mean() / values.std(ddof=1) < 1.3


def test_rankme_is_of_the_vectors_as_they_are() -> None:
    x = decaying(500, 20, 1.0)
    s = np.linalg.svd(x)[1]
    p = s / s.sum()
    assert measures.rankme(x).value == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=EXACT)
    assert measures.rankme(x).value < measures.effective_rank_singular(x).value - 1  # the mean is one direction


def test_lidar_is_of_whitened_means() -> None:
    random = np.random.default_rng(0)
    units = np.repeat(np.arange(40), 15)
    x = (random.normal(size=(40, 12)) @ random.normal(size=(12, 12)))[units] + random.normal(size=(600, 12))
    means = np.stack([x[units == unit].mean(axis=0) for unit in range(40)])
    within = (x - means[units]).T @ (x - means[units]) / len(x)
    within += 1e-4 * np.trace(within) / 12 * np.eye(12)
    p = np.linalg.eigvals(np.linalg.solve(within, np.cov(means.T))).real
    p /= p.sum()
    found = measures.lidar(x, units)
    assert found.value == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=EXACT)
    assert found.n == 40
    moved = x * np.linspace(1, 8, 12)  # any linear map, but for the ridge
    assert measures.lidar(moved, units).value == pytest.approx(found.value, rel=0.01)
    assert measures.effective_rank(moved).value != pytest.approx(measures.effective_rank(x).value, rel=0.1)


def test_entropy_and_curvature_are_means_over_documents() -> None:
    random = np.random.default_rng(0)
    x, documents = random.normal(size=(90, 6)), np.repeat(["b", "a", "c"], [30, 50, 10])
    documents = documents[random.permutation(90)]  # documents may alternate; the rows of each stay in order
    entropies, angles = [], []
    for name in "abc":
        part = x[documents == name]
        p = np.linalg.eigvalsh(part.T @ part / np.square(part).sum())
        entropies.append(-(p * np.log(p)).sum() / np.log(6))
        steps = np.diff(part, axis=0)
        steps /= np.linalg.norm(steps, axis=1, keepdims=True)
        angles.append(np.degrees(np.arccos((steps[1:] * steps[:-1]).sum(axis=1))).mean())
    for found, each in ((measures.prompt_entropy, entropies), (measures.curvature, angles)):
        result = found(x, documents)
        assert result.value == pytest.approx(np.mean(each), rel=EXACT)
        assert result.se == pytest.approx(np.std(each, ddof=1) / np.sqrt(3), rel=EXACT)
        assert result.n == 3
        assert found(x[documents == "c"]).value == pytest.approx(each[2], rel=EXACT)


def test_known_curvatures() -> None:
    line, circle = np.arange(12.0)[:, None] * [1.0, 2.0], np.arange(12) * np.pi / 6
    assert measures.curvature(line).value == pytest.approx(0, abs=1e-6)
    assert measures.curvature(np.stack([np.cos(circle), np.sin(circle)], axis=1)).value == pytest.approx(30)
    noise = np.random.default_rng(0).standard_normal((4000, 300))
    assert measures.curvature(noise).value == pytest.approx(120, abs=0.3)  # as the definition says


def test_small_angles_keep_their_digits() -> None:
    """The arc cosine of 1 - 5e-17 is 0: the tempting formula finds no curvature at all."""
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 1e-8]], dtype=torch.float64)
    assert torch.deg2rad(turning_angles(x)).item() == pytest.approx(1e-8, rel=1e-6)
    a, b = x[1] - x[0], x[2] - x[1]
    assert torch.arccos(a @ b / a.norm() / b.norm()).item() == 0


@pytest.mark.parametrize("scale", [1e-200, 1e-25, 1e22, 1e200])
def test_the_scale_has_no_effect(scale: float) -> None:
    x = torch.randn(20, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert matrix_entropy(x * scale) == pytest.approx(matrix_entropy(x), rel=EXACT)
    torch.testing.assert_close(turning_angles(x * scale), turning_angles(x))


def test_errors_respect_documents() -> None:
    """Windows of one document are alike: an error over windows would be half of the truth or less."""
    values, errors, naive = [], [], []
    for seed in range(300):
        random = np.random.default_rng(seed)
        document = np.repeat(random.normal(size=40), 8)  # eight windows each, with a value of their own
        window = document + 0.3 * random.normal(size=320)
        group = np.repeat(random.integers(20, size=40), 8)
        found = mean_entropy(np.bincount(group, minlength=20), np.bincount(group, window, minlength=20))
        values.append(found.value)
        errors.append(found.se)
        naive.append(window.std(ddof=1) / np.sqrt(320))
    assert 0.85 < np.mean(errors) / np.std(values, ddof=1) < 1.2
    assert np.mean(naive) / np.std(values, ddof=1) < 0.5


def test_undefined_values_have_a_reason() -> None:
    two = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert "eigenvalues" in str(measures.alpha_req(np.random.default_rng(0).normal(size=(50, 8))).reason)
    assert "three vectors" in str(measures.curvature(two).reason)
    assert "three vectors" in str(measures.curvature(np.repeat(two, 3, axis=0)).reason)  # no step has a length
    assert "two vectors" in str(measures.prompt_entropy(two[:1]).reason)
    assert measures.prompt_entropy(two).value == 0
    assert "fewer than two units" in str(measures.lidar(two, [0, 1]).reason)
    assert "do not differ" in str(
        measures.lidar(np.repeat(np.eye(3), 12, axis=0), np.repeat([0, 1, 2], 12)).reason
    )
    assert measures.rankme(np.zeros((3, 2))).reason == "all vectors are 0"
    with pytest.raises(InputError, match="min_count: expected an integer of at least 2, got 1"):
        measures.lidar(two, [0, 1], min_count=1)
    with pytest.raises(InputError, match="documents: expected one label per vector"):
        measures.curvature(two, ["a"])
