"""CKA, maps and neighbours from sums against kernel matrices, least squares and loops over rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes
from torch import Tensor

from theodolite.measures.laboratories import bridge as measures
from theodolite.statistics.pairs import PairSums

DIGITS = 1e-12
"""Relative; sums are float64 about a centre near the mean."""


def sum_rows(x: Tensor, y: Tensor, parts: int = 1, centre: float | None = None) -> PairSums:
    """Return the sums of several merged parts, about the first rows or a constant."""
    centres = (x[:8].mean(0), y[:8].mean(0)) if centre is None else (x[0] * 0 + centre, y[0] * 0 + centre)
    merged = PairSums(*centres)
    for a, b in zip(x.tensor_split(parts), y.tensor_split(parts), strict=True):
        part = PairSums(*centres)
        part.update(a, b)
        merged.merge(part)
    return merged


def all_sums(x: Tensor, y: Tensor, parts: int = 1) -> tuple[PairSums, PairSums, PairSums]:
    return sum_rows(x, y, parts), sum_rows(x, x, parts), sum_rows(y, y, parts)


def hsic_by_kernels(x: Tensor, y: Tensor) -> float:
    """Song et al. 2012, equation 5, with n x n kernel matrices."""
    n = len(x)
    k, m = (np.asarray(v @ v.T) for v in (x, y))
    k, m = k - np.diag(np.diag(k)), m - np.diag(np.diag(m))
    one = np.ones(n)
    value = np.trace(k @ m) + (one @ k @ one) * (one @ m @ one) / ((n - 1) * (n - 2))
    return float((value - 2 / (n - 2) * (one @ k @ m @ one)) / (n * (n - 3)))


def related(n: int, dim_x: int, dim_y: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return vectors with a common part, a large mean and one rogue coordinate."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 5))
    x = common @ rng.normal(size=(5, dim_x)) + rng.normal(size=(n, dim_x)) + 4
    y = np.tanh(common @ rng.normal(size=(5, dim_y))) + rng.normal(size=(n, dim_y)) - 2
    x[:, 0] *= 50
    return torch.from_numpy(x), torch.from_numpy(y)


def test_cka_of_seven_merged_parts_equals_kernel_matrices_to_twelve_digits() -> None:
    x, y = related(301, 24, 16)
    expected = hsic_by_kernels(x, y) / (hsic_by_kernels(x, x) * hsic_by_kernels(y, y)) ** 0.5
    assert measures.debiased_cka(*all_sums(x, y, parts=7)) == pytest.approx(expected, rel=DIGITS)
    centre = np.eye(301) - 1 / 301
    k, m = centre @ np.asarray(x @ x.T) @ centre, centre @ np.asarray(y @ y.T) @ centre
    biased = (k * m).sum() / np.sqrt((k * k).sum() * (m * m).sum())
    assert measures.biased_cka(*all_sums(x, y, parts=7)) == pytest.approx(biased, rel=DIGITS)


def test_a_far_centre_loses_the_digits() -> None:
    """Why the sums are about a centre: about 0 they cancel if the mean is far away."""
    x, y = related(301, 24, 16)
    expected = hsic_by_kernels(x, y)
    far = measures.unbiased_hsic(sum_rows(x + 1e6, y + 1e6, centre=0.0))
    near = measures.unbiased_hsic(sum_rows(x + 1e6, y + 1e6))
    assert near == pytest.approx(expected, rel=1e-6)
    assert far != pytest.approx(expected, rel=1e-6)


def test_unrelated_vectors_have_debiased_cka_near_zero_and_biased_cka_near_one() -> None:
    found = []
    for seed in range(40):
        x, y = (torch.from_numpy(np.random.default_rng([seed, s]).normal(size=(60, 400))) for s in (0, 1))
        sums = all_sums(x, y)
        found.append((measures.debiased_cka(*sums), measures.biased_cka(*sums)))
    debiased, biased = np.array(found).T
    assert abs(debiased.mean()) < 4 * debiased.std() / np.sqrt(40)
    assert np.abs(debiased).max() < 0.1
    assert biased.min() > 0.85


def test_shuffled_rows_have_debiased_cka_near_zero() -> None:
    x, y = related(500, 24, 16)
    assert measures.debiased_cka(*all_sums(x, y)) > 0.1
    shuffled = [
        measures.debiased_cka(*all_sums(x, y[np.random.default_rng(seed).permutation(500)])) for seed in range(30)
    ]
    assert abs(np.mean(shuffled)) < 4 * np.std(shuffled) / np.sqrt(30)
    assert np.abs(shuffled).max() < 0.05


def test_rotated_scaled_and_moved_copies_have_cka_one() -> None:
    x, _ = related(80, 12, 3)
    rotation = torch.linalg.qr(
        torch.randn(12, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    )[0]
    assert measures.debiased_cka(*all_sums(x, 3 * x @ rotation + 100)) == pytest.approx(1, abs=1e-10)


def test_cka_is_undefined_for_few_rows_and_constant_vectors() -> None:
    x, y = related(40, 3, 3)
    assert np.isnan(measures.debiased_cka(*all_sums(x[:3], y[:3])))
    constant = torch.ones(40, 3, dtype=torch.float64)
    assert np.isnan(measures.debiased_cka(*all_sums(constant, y)))


def test_the_linear_map_equals_least_squares() -> None:
    x, y = related(400, 12, 9)
    fit, other = slice(0, 300), slice(300, 400)
    found = measures.fit_linear(sum_rows(x[fit], y[fit], 7), sum_rows(x[fit], x[fit], 7))
    design = np.column_stack([x[fit], np.ones(300)])
    solution = np.linalg.lstsq(design, y[fit].numpy(), rcond=None)[0]
    expected = np.column_stack([x[other], np.ones(100)]) @ solution
    np.testing.assert_allclose(found(x[other]), expected, rtol=1e-8, atol=1e-8)
    truth = y[other].numpy()
    r2 = 1 - ((truth - expected) ** 2).sum() / ((truth - truth.mean(0)) ** 2).sum()
    sums = sum_rows(x[other], y[other], 3), sum_rows(x[other], x[other], 3)
    assert measures.held_out_r2(found, *sums) == pytest.approx(r2, rel=1e-10)


def test_a_coordinate_without_variance_is_no_obstacle() -> None:
    x, y = related(200, 6, 4)
    padded = torch.column_stack([x, x[:, 1:2] - x[:, 2:3], torch.full((200, 1), 7.0, dtype=torch.float64)])
    plain = measures.fit_linear(sum_rows(x, y), sum_rows(x, x))
    found = measures.fit_linear(sum_rows(padded, y), sum_rows(padded, padded))
    torch.testing.assert_close(found(padded), plain(x), rtol=1e-6, atol=1e-6)


def test_procrustes_equals_scipy() -> None:
    x, y = related(200, 8, 8)
    found, scale = measures.fit_procrustes(sum_rows(x, y, 7))
    a, b = (np.asarray(v - v.mean(0)) for v in (x, y))
    rotation, total = orthogonal_procrustes(a, b)
    assert scale == pytest.approx(total / (a**2).sum(), rel=1e-10)
    np.testing.assert_allclose(found.matrix, scale * rotation, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("dim_x", "dim_y"), [(4, 9), (9, 4)])
def test_procrustes_pads_the_smaller_space(dim_x: int, dim_y: int) -> None:
    x, y = related(200, dim_x, dim_y)
    found, scale = measures.fit_procrustes(sum_rows(x, y))
    a, b = (np.pad(np.asarray(v - v.mean(0)), ((0, 0), (0, 9 - v.shape[1]))) for v in (x, y))
    rotation, total = orthogonal_procrustes(a, b)
    assert scale == pytest.approx(total / (a**2).sum(), rel=1e-10)
    np.testing.assert_allclose(found.matrix, (scale * rotation)[:dim_x, :dim_y], rtol=1e-7, atol=1e-10)


def test_neighbours_equal_loops() -> None:
    x, y = related(60, 6, 5, seed=3)
    k = 4

    def near(queries: Tensor, vectors: Tensor, i: int) -> list[int]:
        cosines = [float(torch.cosine_similarity(queries[i], vectors[j], dim=0)) for j in range(60)]
        return sorted((j for j in range(60) if j != i), key=lambda j: -cosines[j])[:k]

    shared = np.mean([len(set(near(x, x, i)) & set(near(y, y, i))) / k for i in range(60)])
    churned = np.mean([near(x, x, i)[0] not in near(y, y, i) for i in range(60)])
    assert measures.mutual_knn(x, y, k) == pytest.approx(shared)
    assert measures.neighbour_churn(x, y, k) == pytest.approx(churned)
    mapped = y + 0.3 * x[:, :5]
    recall = np.mean([len(set(near(mapped, y, i)) & set(near(y, y, i))) / k for i in range(60)])
    assert measures.mapped_recall(mapped, y, k) == pytest.approx(recall)
    assert measures.mapped_recall(y, y, k) == measures.mutual_knn(x, 2 * x, k) == 1
