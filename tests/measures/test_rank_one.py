"""Eigenvalues and eigenvectors after a rank-one change equal those of a new solution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.devices import DEVICES
from torch import Tensor

from theodolite.measures.rank_one import add_outer_product, eigenvalues_about_mean, find_roots
from theodolite.measures.spectrum import eigenvalues, eigenvectors

ORTHOGONAL = 1e-11
"""Products of eigenvectors: the weights come from sums of dim logarithms, each with a rounding of about 1e-14."""


def random_matrix(rows: int, dim: int, seed: int) -> Tensor:
    x = torch.randn(rows, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return x.T @ x / rows


def check_update(matrix: Tensor, x: Tensor) -> None:
    """Compare with a new solution; the rounding is that of the largest eigenvalue, times dim."""
    values, vectors = add_outer_product(*torch.linalg.eigh(matrix), x)
    changed, one = matrix + torch.outer(x, x), torch.eye(len(x), dtype=torch.float64, device=x.device)
    rounding = 1e-14 * len(x) * float(changed.trace())
    torch.testing.assert_close(values, torch.linalg.eigvalsh(changed), rtol=0, atol=rounding)
    torch.testing.assert_close(vectors.T @ vectors, one, rtol=0, atol=ORTHOGONAL)
    torch.testing.assert_close(changed @ vectors, vectors * values, rtol=0, atol=rounding)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "kind", ["random", "long", "short", "equal", "zero", "few vectors", "axis", "clusters", "eigenvector", "wide"]
)
def test_an_added_outer_product_gives_the_eigenvectors_of_the_sum(kind: str, device: str) -> None:
    dim = 60
    matrix, x = random_matrix(200, dim, 1), torch.randn(dim, generator=torch.Generator().manual_seed(2)).double()
    if kind == "long":
        x *= 1e4
    if kind == "short":
        x *= 1e-7
    if kind == "equal":
        matrix = torch.eye(dim).double()
    if kind == "zero":
        matrix = torch.zeros(dim, dim).double()
    if kind == "few vectors":
        matrix = random_matrix(9, dim, 3)
    if kind == "axis":
        matrix, x = torch.arange(dim).double().diag(), 3.0 * torch.eye(dim).double()[4]
    if kind == "clusters":
        matrix = (torch.arange(dim) // 10).double().diag()
    if kind == "eigenvector":
        x = 5 * torch.linalg.eigh(matrix).eigenvectors[:, 7]
    if kind == "wide":
        axes = torch.linalg.qr(matrix).Q
        matrix = axes * torch.logspace(-16, 6, dim, dtype=torch.float64) @ axes.T
    check_update(matrix.to(device), x.to(device))


@pytest.mark.parametrize("size", [1e-20, 1e-60, 1e60])
def test_tiny_and_huge_vectors(size: float) -> None:
    check_update(torch.zeros(2, 2).double(), size * torch.tensor([0.0, 1.0]).double())
    check_update(size**2 * random_matrix(20, 8, 3), size * torch.arange(8).double())


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1e-9, 1.0, 1.0 + 1e-15, 2.0, 1e6]), min_size=1, max_size=12),
    st.lists(st.sampled_from([0.0, 1e-20, 1e-3, 1.0, -2.0, 1e4]), min_size=12, max_size=12),
)
def test_equal_eigenvalues_and_absent_coordinates_are_no_special_case(values: list[float], x: list[float]) -> None:
    check_update(torch.tensor(values).double().diag(), torch.tensor(x[: len(values)]).double())


def test_several_added_products_are_those_of_all_vectors() -> None:
    more = torch.randn(4, 50, generator=torch.Generator().manual_seed(4)).double()
    matrix = random_matrix(80, 50, 5)
    values, vectors = torch.linalg.eigh(matrix)
    for x in more:
        values, vectors = add_outer_product(values, vectors, x)
    expected = torch.linalg.eigvalsh(matrix + more.T @ more)
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-12 * float(expected.sum()))
    assert float((vectors.T @ vectors - torch.eye(50)).abs().max()) < ORTHOGONAL


def test_eigenvectors_from_the_given_weights_are_not_orthogonal() -> None:
    """The tempting formula, z_i / (p_i - x) with the z that was given, fails where poles are close together."""
    poles = torch.cat([torch.arange(20.0).double() * 1e-13 + 1, torch.tensor([2.0]).double()])
    z = torch.ones(21, dtype=torch.float64)
    roots = find_roots(poles, z.square())
    rounded = poles[roots.origin] + roots.offset  # the zeros themselves, without their distance from a pole
    plain = z[:, None] / (poles[:, None] - rounded)
    plain /= plain.norm(dim=0)
    off = (plain.T @ plain - torch.eye(21)).abs()
    assert not float(off.max()) < 1e-4
    check_update(poles.diag(), z)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["random", "far", "no mean", "few vectors", "equal variances", "one axis"])
def test_eigenvalues_about_the_mean_are_those_of_the_covariance(kind: str, device: str) -> None:
    x = torch.randn(300, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    if kind == "far":
        x += 300 * torch.arange(40.0).double()
    if kind == "no mean":
        x -= x.mean(0)
    if kind == "few vectors":
        x = x[:7] + 1
    if kind == "equal variances":
        x = torch.cat([torch.eye(40), -torch.eye(40)]).double() + 0.5
    if kind == "one axis":  # the mean is an eigenvector, so that all but one of its coordinates are 0
        x = torch.cat([x, -x])
        x[:, 3] = 5
    mean = x.mean(0)
    covariance = (x - mean).T @ (x - mean) / len(x)
    second = (covariance + torch.outer(mean, mean)).to(device)
    found = eigenvalues_about_mean(*eigenvectors(second), mean)
    np.testing.assert_allclose(found, eigenvalues(covariance), rtol=0, atol=1e-14 * float(second.trace()))
