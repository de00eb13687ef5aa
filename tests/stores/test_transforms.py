"""Transforms against their definitions in float64 and against FAISS; moments; bad input; files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.stores.apply import TRANSFORM, VECTORS, apply_transform, load_transform
from theodolite.stores.reader import ArrayReader
from theodolite.stores.transforms import Moments, StoreTransform, fit_transform, parse_transform, scale_to_unit

Array = NDArray[Any]
OFFSET = 50.0


@pytest.fixture(scope="module")
def vectors() -> Array:
    rng = np.random.default_rng(0)
    scales = np.linspace(3, 0.5, 16)
    return np.asarray(rng.normal(size=(3_000, 16)) * scales @ np.linalg.qr(rng.normal(size=(16, 16)))[0] + 0.5)


def fit(text: str, vectors: Array, metric: str = "euclidean") -> StoreTransform:
    moments = Moments(vectors.shape[1])
    moments.update(scale_to_unit(vectors) if metric == "cosine" else vectors)
    return fit_transform(text, moments, vectors, metric)


@given(seed=st.integers(0, 2**32 - 1), cuts=st.lists(st.integers(0, 60), max_size=3))
def test_moments_of_any_split_are_those_of_the_whole(seed: int, cuts: list[int]) -> None:
    x = np.random.default_rng(seed).normal(size=(60, 4)) + OFFSET
    whole, merged = Moments(4), Moments(4)
    for part in np.split(x, sorted(cuts)):
        one = Moments(4)
        one.update(part)
        merged.merge(one)
        whole.update(part)
    for found in (whole, merged):
        np.testing.assert_allclose(found.mean, x.mean(0), rtol=1e-12)
        np.testing.assert_allclose(found.covariance, np.cov(x.T, bias=True), atol=1e-5)
    # Raw float32 products lose the covariance behind an offset.
    raw = x.astype(np.float32) + np.float32(1000)
    assert np.abs(raw.T @ raw / 60 - np.outer(raw.mean(0), raw.mean(0)) - np.cov(x.T, bias=True)).max() > 1e-2


def test_linear_steps_are_their_definitions(vectors: Array) -> None:
    mean, covariance = vectors.mean(0), np.cov(vectors.T, bias=True)
    values, axes = np.linalg.eigh(covariance)
    centred = vectors - mean
    np.testing.assert_allclose(fit("centre", vectors).project(vectors), centred, atol=1e-4)
    top = axes[:, -2:]
    np.testing.assert_allclose(
        fit("remove:2", vectors).project(vectors), centred - centred @ top @ top.T, atol=1e-4
    )
    np.testing.assert_allclose(np.cov(fit("whiten", vectors).project(vectors).T, bias=True), np.eye(16), atol=1e-4)
    found = fit("pca:5", vectors).project(vectors)
    np.testing.assert_allclose(found @ found.T, (centred @ axes[:, -5:]) @ (centred @ axes[:, -5:]).T, atol=1e-2)
    np.testing.assert_allclose(np.cov(found.T, bias=True), np.diag(values[:-6:-1]), atol=1e-3)
    right = np.linalg.svd(vectors, full_matrices=False)[2][:5]
    found = fit("svd:5", vectors).project(vectors)
    np.testing.assert_allclose(found @ found.T, vectors @ right.T @ right @ vectors.T, atol=1e-2)
    np.testing.assert_array_equal(fit("truncate:3", vectors).project(vectors), vectors[:, :3].astype(np.float32))
    both = fit("pca:5+whiten", vectors).project(vectors)
    np.testing.assert_allclose(np.cov(both.T, bias=True), np.eye(5), atol=1e-4)


def test_by_cosine_vectors_have_length_one_before_and_after(vectors: Array) -> None:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = unit - unit.mean(0)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(fit("centre", vectors, "cosine").project(vectors), expected, atol=1e-5)


def test_codes_are_those_of_faiss(vectors: Array) -> None:
    faiss = pytest.importorskip("faiss")
    x = vectors.astype(np.float32)
    scalar = faiss.IndexScalarQuantizer(16, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_L2)
    scalar.train(x)
    found = fit("int8", vectors)
    np.testing.assert_array_equal(found.encode(vectors), scalar.sa_encode(x))
    assert np.abs(found.decode(found.encode(vectors)) - x).max() <= np.ptp(x, axis=0).max() / 255
    product = faiss.IndexPQ(16, 4, 8)
    product.train(x)
    found = fit("pq:4", vectors)
    np.testing.assert_array_equal(found.encode(vectors), product.sa_encode(x))
    assert found.bytes == 4


def test_products_of_signs_are_hamming_distances(vectors: Array) -> None:
    found = fit("centre+truncate:11+binary", vectors)
    bits = found.project(vectors) > 0
    distances = (bits[:20, None] != bits[None, :50]).sum(-1)
    products = found.queries(vectors[:20]) @ found.decode(found.encode(vectors[:50])).T
    np.testing.assert_array_equal(products, 11 - 2 * distances)
    assert found.bytes == 2


@pytest.mark.parametrize("text", ["centre+pca:8", "truncate:8+binary", "pca:8+int8", "remove:1+pq:4", "float16"])
def test_written_vectors_and_transform_treat_queries_alike(text: str, vectors: Array, tmp_path: Path) -> None:
    if "int8" in text or "pq" in text:
        pytest.importorskip("faiss")
    reader = ArrayReader(vectors, name="x", digest="0")
    made = apply_transform(reader, text, tmp_path / "out", metric="cosine")
    loaded = load_transform(tmp_path / "out")
    stored = np.load(tmp_path / "out" / VECTORS)
    np.testing.assert_array_equal(stored, made.encode(vectors))
    assert stored.nbytes == len(vectors) * made.bytes
    np.testing.assert_array_equal(loaded.queries(vectors[:9]), made.queries(vectors[:9]))
    np.testing.assert_array_equal(loaded.encode(vectors), stored)  # products of fewer rows may round differently
    np.testing.assert_array_equal(loaded.decode(stored[:9]), made.decode(stored[:9]))
    with pytest.raises(InputError, match=r"has vectors.npy already. Use another folder or "):
        apply_transform(reader, text, tmp_path / "out")
    assert load_transform(tmp_path / "out" / TRANSFORM).name == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("center", "unknown step 'center' .* Did you mean 'centre'"),
        ("pca", "write pca:N with a whole number N from 1 .got 'pca'."),
        ("pca:x", "write pca:N"),
        ("int8:4", "write int8 .got 'int8:4'."),
        ("int8+centre", "write linear steps first"),
        ("int8+binary", "write linear steps first"),
        ("centre+rescore:4", "write linear steps first"),
    ],
)
def test_wrong_transforms_are_rejected(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_transform(text)


def test_numbers_that_do_not_fit_the_store_are_rejected(vectors: Array) -> None:
    with pytest.raises(InputError, match=r"pca requires a number from 1 to 16 \(got 17\)"):
        fit("pca:17", vectors)
    with pytest.raises(InputError, match="remove requires a number from 1 to 15"):
        fit("remove:16", vectors)
    with pytest.raises(InputError, match="the vectors are all equal"):
        fit("whiten", np.ones((10, 3)))
    with pytest.raises(InputError, match=r"requires vectors \(rows, 16\)"):
        fit("centre", vectors).project(vectors[:, :3])
    pytest.importorskip("faiss")
    with pytest.raises(InputError, match="Use a divisor of 16"):
        fit("pq:5", vectors)
    with pytest.raises(InputError, match=r"requires at least 256 finite vectors \(got 100\)"):
        fit("pq:4", vectors[:100])
