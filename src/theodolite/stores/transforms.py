"""Transforms of stored vectors: linear steps fitted from moments, and quantizers of FAISS.

A transform is written as steps joined by "+", such as "centre+pca:128+int8". By cosine, vectors are scaled to
length 1 before the first step and again after the last linear one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from theodolite.errors import InputError, TheodoliteError, nearest
from theodolite.measures.transforms import FLOOR
from theodolite.stores.search import check_metric

Array = NDArray[np.float64]
AS_IS = "as-is"
LINEAR = ("centre", "remove", "whiten", "pca", "svd", "truncate")
QUANTIZERS = ("float16", "int8", "binary", "pq")
NUMBERED = ("remove", "pca", "svd", "truncate", "pq", "rescore")
"""Steps with a number: directions removed or kept, bytes of a code, candidates for each result."""
PQ_CENTROIDS, PQ_POINTS = 256, 39
"""Values of a byte of a PQ code, and the most training vectors for each: FAISS asks for at least 39."""
_TYPES = {"float16": torch.float16, "float32": torch.float32}
_BLAS_THRESHOLD = 20  # the default of earlier releases of FAISS; 1.15 has 128,000


@dataclass
class Moments:
    """Mean and scatter of vectors. `update` and `merge` follow Chan, Golub and LeVeque (1983), in float64."""

    dim: int
    count: int = 0
    mean: Array = field(default_factory=lambda: np.zeros(0))
    scatter: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        if not self.count:
            self.mean, self.scatter = np.zeros(self.dim), np.zeros((self.dim, self.dim))

    def update(self, vectors: NDArray[Any]) -> None:
        """Add vectors (rows, dim), all finite."""
        if not len(vectors):
            return
        mean = vectors.mean(axis=0, dtype=np.float64)
        centred = vectors - mean
        self.merge(Moments(self.dim, len(vectors), mean, centred.T @ centred))

    def merge(self, other: Moments) -> None:
        """Add the moments of other vectors."""
        count = self.count + other.count
        if not other.count:
            return
        step, share = other.mean - self.mean, other.count / count
        self.scatter = self.scatter + other.scatter + np.outer(step, step) * (self.count * share)
        self.mean = self.mean + step * share
        self.count = count

    @property
    def covariance(self) -> Array:
        """The covariance matrix, divided by the number of vectors. (dim, dim)"""
        return self.scatter / max(self.count, 1)


@dataclass(frozen=True, eq=False)
class Step:
    """x -> (x - shift) matrix, or the first `keep` coordinates of x."""

    shift: NDArray[np.float32] | None = None
    matrix: NDArray[np.float32] | None = None
    keep: int | None = None

    def __call__(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the vectors after this step."""
        if self.keep is not None:
            return vectors[:, : self.keep]
        moved = vectors if self.shift is None else vectors - self.shift
        return moved if self.matrix is None else np.asarray(moved @ self.matrix)


@dataclass(frozen=True, eq=False)
class StoreTransform:
    """A fitted transform of the documents and the queries of a store.

    name        its steps, such as "centre+pca:128+int8"
    metric      that of the store
    dim, width  number of coordinates before and after it
    dtype       type in which numbers are stored: "float16", "float32", or "uint8" for codes
    quantizer   "int8", "binary", "pq:16" or None
    rescore     number of candidates for each result that are scored again with the original vectors; 0: none
    codec       the trained quantizer of FAISS, without vectors
    """

    name: str
    metric: str
    dim: int
    width: int
    steps: tuple[Step, ...] = ()
    dtype: str = "float32"
    quantizer: str | None = None
    rescore: int = 0
    codec: Any = None

    @property
    def score_metric(self) -> str:
        """The metric by which decoded documents and prepared queries are compared."""
        return "dot" if self.quantizer == "binary" or (self.quantizer and self.metric == "cosine") else self.metric

    @property
    def bytes(self) -> int:
        """Bytes of a stored vector, without the original that rescoring needs."""
        if self.quantizer == "binary":
            return -(-self.width // 8)
        if self.quantizer:
            return int(self.codec.sa_code_size())
        return self.width * np.dtype(self.dtype).itemsize

    def project(self, vectors: NDArray[Any], *, prepared: bool = False) -> NDArray[np.float32]:
        """Return documents or queries after the linear steps: (rows, dim) -> (rows, width).

        prepared: the vectors are those that `prepare_vectors` returns for this metric.
        """
        if vectors.ndim != 2 or vectors.shape[1] != self.dim:
            raise InputError(f"{self.name} requires vectors (rows, {self.dim}) (got {vectors.shape}).")
        moved = vectors if prepared else prepare_vectors(vectors, self.metric)
        for step in self.steps:
            moved = step(moved)
        return scale_to_unit(moved) if self.metric == "cosine" and self.steps else moved

    def encode(self, vectors: NDArray[Any], *, prepared: bool = False) -> NDArray[Any]:
        """Return what is stored for each document: floats (rows, width), or codes (rows, bytes)."""
        moved = self.project(vectors, prepared=prepared)
        if self.quantizer is None:
            return torch.from_numpy(moved).to(_TYPES[self.dtype]).numpy()  # faster than NumPy for float16
        if self.quantizer == "binary":
            return np.packbits(moved > 0, axis=1)
        finite = np.where(np.isfinite(moved), moved, np.float32(0))
        return np.asarray(self.codec.sa_encode(np.ascontiguousarray(finite)))

    def decode(self, stored: NDArray[Any]) -> NDArray[np.float32]:
        """Return the vectors that stored codes stand for: (rows, width); -1 and 1 for bits."""
        if self.quantizer is None:
            return torch.from_numpy(stored).float().numpy()
        if self.quantizer == "binary":
            bits = np.unpackbits(stored, axis=1, count=self.width)
            return bits.astype(np.float32) * np.float32(2) - np.float32(1)
        return np.asarray(self.codec.sa_decode(np.ascontiguousarray(stored)))

    def queries(self, vectors: NDArray[Any]) -> NDArray[np.float32]:
        """Return queries as they are compared with decoded documents by `score_metric`. (queries, width)

        Binary queries are signs: their dot product with decoded documents is width - 2 x Hamming distance, and
        `encode` returns their bits.
        """
        moved = self.project(vectors)
        return np.where(moved > 0, np.float32(1), np.float32(-1)) if self.quantizer == "binary" else moved


def parse_transform(text: str) -> list[tuple[str, int]]:
    """Return the steps of a transform with their numbers, 0 for steps without one.

    >>> parse_transform("centre+pca:128+int8")
    [('centre', 0), ('pca', 128), ('int8', 0)]
    """
    steps = []
    for part in [] if text == AS_IS else text.split("+"):
        name, colon, number = part.strip().partition(":")
        known = [*LINEAR, *QUANTIZERS, "rescore"]
        if name not in known:
            raise InputError(
                f"--transform {text!r}: unknown step {name!r} (known: {AS_IS}, {', '.join(known)})."
                f"{nearest(name, known)}"
            )
        if (name in NUMBERED) != bool(colon) or (colon and not (number.isdecimal() and int(number) > 0)):
            wanted = f"write {name}:N with a whole number N from 1" if name in NUMBERED else f"write {name}"
            raise InputError(f"--transform {text!r}: {wanted} (got {part.strip()!r}).")
        steps.append((name, int(number or 0)))
    kinds = [0 if name in LINEAR else 2 if name == "rescore" else 1 for name, _ in steps]
    if kinds != sorted(kinds) or kinds.count(1) > 1 or kinds.count(2) > 1 or (2 in kinds and 1 not in kinds):
        raise InputError(
            f"--transform {text!r}: write linear steps first ({', '.join(LINEAR)}), then at most one of "
            f"{', '.join(QUANTIZERS)}, and rescore:N after it."
        )
    return steps


def fit_transform(
    text: str, moments: Moments, sample: NDArray[Any], metric: str, *, dtype: str = "float32"
) -> StoreTransform:
    """Fit a transform to the moments of a store, and its quantizer to a sample of original vectors (rows, dim).

    For the metric cosine the moments are those of vectors of length 1. dtype: how the store keeps numbers.
    """
    check_metric(metric)
    mean, covariance = moments.mean, moments.covariance
    steps: list[Step] = []
    quantizer, rescore, dtype = None, 0, "float16" if dtype == "float16" else "float32"
    for name, number in parse_transform(text):
        if name in LINEAR:
            step = _FIT[name](text, mean, covariance, number)
            mean, covariance = _move_moments(step, mean, covariance)
            steps.append(step)
        elif name == "float16":
            dtype = "float16"
        elif name == "rescore":
            rescore = number
        else:
            quantizer = f"pq:{number}" if name == "pq" else name
    linear = StoreTransform(text, metric, moments.dim, len(mean), tuple(steps), dtype, rescore=rescore)
    if quantizer is None:
        return linear
    codec = None if quantizer == "binary" else _train(text, quantizer, linear.project(sample), metric)
    return StoreTransform(text, metric, moments.dim, len(mean), tuple(steps), "uint8", quantizer, rescore, codec)


def _move_moments(step: Step, mean: Array, covariance: Array) -> tuple[Array, Array]:
    if step.keep is not None:
        return mean[: step.keep], covariance[: step.keep, : step.keep]
    moved = mean if step.shift is None else np.zeros_like(mean)
    if step.matrix is None:
        return moved, covariance
    matrix = step.matrix.astype(np.float64)
    return moved @ matrix, matrix.T @ covariance @ matrix


def _centre(text: str, mean: Array, covariance: Array, number: int) -> Step:
    return Step(mean.astype(np.float32))


def _remove(text: str, mean: Array, covariance: Array, number: int) -> Step:
    _check_number(text, "remove", number, len(mean) - 1)
    top = _axes(covariance)[1][:, :number]
    return Step(mean.astype(np.float32), (np.eye(len(mean)) - top @ top.T).astype(np.float32))


def _whiten(text: str, mean: Array, covariance: Array, number: int) -> Step:
    values, axes = _axes(covariance)
    rank = int((values > FLOOR * values[0]).sum())
    if not rank:
        raise InputError(f"--transform {text!r}: the vectors are all equal, so they cannot be whitened.")
    root = (axes[:, :rank] / np.sqrt(values[:rank])) @ axes[:, :rank].T
    return Step(mean.astype(np.float32), root.astype(np.float32))


def _pca(text: str, mean: Array, covariance: Array, number: int) -> Step:
    _check_number(text, "pca", number, len(mean))
    return Step(mean.astype(np.float32), _axes(covariance)[1][:, :number].astype(np.float32))


def _svd(text: str, mean: Array, covariance: Array, number: int) -> Step:
    _check_number(text, "svd", number, len(mean))
    return Step(matrix=_axes(covariance + np.outer(mean, mean))[1][:, :number].astype(np.float32))


def _truncate(text: str, mean: Array, covariance: Array, number: int) -> Step:
    _check_number(text, "truncate", number, len(mean))
    return Step(keep=number)


_FIT: dict[str, Callable[[str, Array, Array, int], Step]] = {
    "centre": _centre,
    "remove": _remove,
    "whiten": _whiten,
    "pca": _pca,
    "svd": _svd,
    "truncate": _truncate,
}


def _check_number(text: str, name: str, number: int, most: int) -> None:
    if number > most:
        raise InputError(f"--transform {text!r}: {name} requires a number from 1 to {most} (got {number}).")


def _axes(matrix: Array) -> tuple[Array, Array]:
    """Return eigenvalues, largest first, and eigenvectors whose largest coordinate is positive."""
    values, axes = np.linalg.eigh(matrix)
    values, axes = np.maximum(values[::-1], 0.0), axes[:, ::-1]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    return values, axes * np.where(largest < 0, -1.0, 1.0)


def prepare_vectors(vectors: NDArray[Any], metric: str) -> NDArray[np.float32]:
    """Return the vectors in float32 as every transform begins with them: by cosine, with length 1."""
    return scale_to_unit(vectors) if metric == "cosine" else vectors.astype(np.float32)


def scale_to_unit(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return the vectors with length 1; zero vectors stay zero."""
    wide = vectors.astype(np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", wide, wide, dtype=np.float64))[:, None]
    wide /= np.where(norms > 0, norms, 1.0).astype(np.float32)
    return wide


def import_faiss() -> Any:
    """Return the module faiss, or raise an error that says how to install it."""
    try:
        import faiss
    except ImportError as error:
        raise TheodoliteError(
            "int8 and pq are quantizers of FAISS, which is not installed: pip install 'theodolite[stores]'."
        ) from error
    return faiss


def _train(text: str, quantizer: str, vectors: NDArray[np.float32], metric: str) -> Any:
    """Return a trained quantizer of FAISS."""
    faiss, width = import_faiss(), vectors.shape[1]
    vectors = np.ascontiguousarray(vectors[np.isfinite(vectors).all(axis=1)])
    kind = faiss.METRIC_L2 if metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
    if quantizer == "int8":
        codec = faiss.IndexScalarQuantizer(width, faiss.ScalarQuantizer.QT_8bit, kind)
        fewest = 1
    else:
        codes = int(quantizer.partition(":")[2])
        if width % codes:
            raise InputError(
                f"--transform {text!r}: {quantizer} splits {width} coordinates into {codes} equal parts, which is "
                f"not possible. Use a divisor of {width}."
            )
        vectors = vectors[: PQ_CENTROIDS * PQ_POINTS]
        codec, fewest = faiss.IndexPQ(width, codes, 8, kind), PQ_CENTROIDS
        codec.pq.cp.min_points_per_centroid = 1  # few points are reported with the results, not on stderr
    if len(vectors) < fewest:
        raise InputError(
            f"--transform {text!r}: {quantizer} requires at least {fewest} finite vectors (got {len(vectors)})."
        )
    with _fast_assignment(faiss):
        codec.train(vectors)
    return codec


@contextmanager
def _fast_assignment(faiss: Any) -> Iterator[None]:
    """Make FAISS find nearest centroids by blocks: for parts of few coordinates it is ten times as fast.

    One thread: the tasks are so small that on a busy machine threads mostly wait for each other.
    """
    before, threads = faiss.cvar.distance_compute_blas_threshold, faiss.omp_get_max_threads()
    faiss.cvar.distance_compute_blas_threshold = min(before, _BLAS_THRESHOLD)
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = before
        faiss.omp_set_num_threads(threads)
