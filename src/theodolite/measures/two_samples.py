"""Do two samples of vectors come from one distribution? Permutation tests that keep documents together.

Vectors of one document resemble each other. If their labels were permuted one by one, documents would be divided
between the sides, which makes permuted sides more alike than two sets of other documents, and p too small. So a
document changes sides with all of its vectors. A document with vectors on both sides swaps them.

Most tests compare pairs of vectors of different documents: with a similarity s(x, y), the statistic is the mean of
s within the first side, plus that within the second, minus twice the mean between them. It is 0 in expectation if
the sides do not differ. What does not depend on the labels is computed once, so that a permutation costs one
product with a matrix (documents, documents).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import nan
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula
from theodolite.measures.uncertainty import jackknife

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
Labels = NDArray[np.bool_]
Number = TypeVar("Number", bound=np.floating[Any])
NEIGHBOURS = 10
GROUPS = 20
"""Groups of documents, each left out once for the standard error."""
SHRINKAGE = 0.1
"""Share of the average variance in the covariance that whitens for the test of means."""
TIES = 1e-6
"""Relative: statistics that differ by less are equal. Products are in float32."""


class Cells(NamedTuple):
    """The vectors of a document on one side, for every document and side: what changes sides as a whole.

    cell      (vectors,) the cell of each vector
    document  (cells,) its document, from 0
    second    (cells,) whether it is on the second side
    size      (cells,) its number of vectors
    """

    cell: Codes
    document: Codes
    second: Labels
    size: Codes


class Difference(NamedTuple):
    """The size of a difference, its standard error over documents, and the p-value over permutations.

    value, se: of the squared size for `mean` and `covariance`; se is NaN if unknown. coordinate: for `coordinate`
    """

    value: float
    se: float
    p: float
    coordinate: int | None = None


class Means(NamedTuple):
    """Means of a similarity over pairs within the first side, within the second, and between: (labellings,)."""

    first: Array
    second: Array
    between: Array

    @property
    def excess(self) -> Array:
        """The mean within both sides minus twice that between them."""
        return self.first + self.second - 2 * self.between


class Samples:
    """Vectors of two sides with permutations of their labels, and what several tests share.

    vectors: (vectors, dim); second: (vectors,) on the second side or not; document: (vectors,) codes; lengths:
    (vectors,) norms, if the vectors were normalised. Vectors are kept in the order of cells.
    """

    def __init__(
        self,
        vectors: Array,
        second: Labels,
        document: Codes,
        *,
        lengths: Array | None = None,
        permutations: int = 999,
        seed: int = 0,
    ) -> None:
        self.cells = make_cells(second, document)
        order = np.argsort(self.cells.cell, kind="stable")
        self.centred = (vectors - vectors.mean(axis=0))[order]
        self.lengths = (np.linalg.norm(vectors, axis=1) if lengths is None else lengths)[order]
        self.labels = permute_cells(self.cells, permutations, seed=seed)
        code = np.repeat(self.cells.document, self.cells.size)
        self.same = code[:, None] == code
        self._groups = np.random.default_rng(seed).permutation(self.cells.document.max() + 1) % GROUPS

    @cached_property
    def distances(self) -> Array:
        """Euclidean distances of all vectors. (vectors, vectors)"""
        products = self.centred @ self.centred.T
        squares = np.diag(products)
        return np.asarray(np.sqrt(np.maximum(squares[:, None] + squares - 2 * products, 0.0)))

    def compare(self, similarity: Array, size: Callable[[Means], Array]) -> Difference:
        """Test by a similarity, (vectors, vectors); `size` returns the size of a difference from its means."""
        pairs = similarity[~self.same]
        mean, spread = float(pairs.mean()), float(pairs.std()) or 1.0
        table = ((similarity - mean) / spread).astype(np.float32)
        table[self.same] = 0.0
        sums = sum_cells(sum_cells(table, self.cells).T, self.cells)

        def measure(second: NDArray[np.float32], kept: NDArray[np.float32] | None = None) -> Means:
            means = compare_sides(sums, self.cells, second, kept)
            return Means(*(spread * each + mean for each in means))

        means = measure(self.labels.astype(np.float32))
        excess = means.excess
        p = float((excess >= excess[0] - TIES * spread).mean())
        kept = self._groups[self.cells.document][:, None] != np.arange(GROUPS)
        without = size(measure((kept & self.labels[:, :1]).astype(np.float32), kept.astype(np.float32)))
        se = jackknife(GROUPS, lambda group: without[group : group + 1])
        return Difference(float(size(means)[0]), float(se[0]), p)


def make_cells(second: Labels, document: Codes) -> Cells:
    """Divide vectors into cells. second, document: (vectors,)

    >>> make_cells(np.array([False, False, True]), np.array([7, 7, 7])).size.tolist()
    [2, 1]
    """
    _, codes = np.unique(document, return_inverse=True)
    kinds, cell, size = np.unique(2 * codes + second, return_inverse=True, return_counts=True)
    return Cells(cell, kinds // 2, kinds % 2 == 1, size)


def permute_cells(cells: Cells, count: int, *, seed: int = 0) -> Labels:
    """Return which cells are on the second side: first as observed, then `count` permutations. (cells, 1 + count)

    Documents on one side are permuted between the sides; documents on both swap their cells or not.
    """
    rng = np.random.default_rng(seed)
    labels = np.repeat(cells.second[:, None], 1 + count, axis=1)
    both = np.bincount(cells.document)[cells.document] == 2
    single = np.flatnonzero(~both)
    labels[single, 1:] = cells.second[single][rng.random((len(single), count)).argsort(axis=0)]
    swap = rng.random((cells.document.max() + 1, count)) < 0.5
    labels[:, 1:] ^= swap[cells.document] & both[:, None]
    return labels


def sum_cells(table: NDArray[Number], cells: Cells) -> NDArray[Number]:
    """Return the sums over the vectors of each cell. (vectors in the order of cells, any) -> (cells, any)"""
    return np.asarray(np.add.reduceat(table, np.r_[0, np.cumsum(cells.size)[:-1]], axis=0))


def compare_sides(
    sums: NDArray[np.float32],
    cells: Cells,
    second: NDArray[np.float32],
    kept: NDArray[np.float32] | None = None,
) -> Means:
    """Return the means of a similarity within and between sides, over pairs of vectors of different documents.

    sums: (cells, cells) symmetric, 0 for two cells of one document; second: (cells, labellings), 1 on the second
    side; kept: the same shape, 0 for documents to leave out. The cost is one product of the first two.
    """
    size = cells.size.astype(np.float64)
    # Two cells of one document are never on the same side: their pairs are all between the sides.
    partner = np.bincount(cells.document, size)[cells.document] - size
    if kept is None:
        kept = np.ones((len(size), 1), dtype=np.float32)
    of_kept = sums @ kept
    inside = _dot(second, sums @ second)
    between = _dot(of_kept, second) - inside
    outside = _dot(of_kept, kept) - 2 * between - inside
    rows, others = size @ (kept - second), size @ second
    same, other_same = size**2 @ (kept - second), size**2 @ second
    with np.errstate(divide="ignore", invalid="ignore"):
        return Means(
            outside / (rows**2 - same),
            inside / (others**2 - other_same),
            between / (rows * others - (size * partner) @ second),
        )


@formula(
    "two-samples/mean",
    "tests.mean",
    definition="|difference of the means|^2, whitened with 0.9 covariance + 0.1 average variance of both sides, "
    "unbiased: the means of x . y within both sides minus twice that between them, over pairs of vectors of "
    "different documents; p over permutations of documents.",
    cost="n^2 dim of a sample; one product (documents, documents) per permutation",
    citation="after Hotelling 1931; Chen and Qin, A two-sample test for high-dimensional data, 2010",
    error="jackknife over 20 groups of documents",
)
def compare_means(samples: Samples) -> Difference:
    """Test whether the means differ; the value is squared, in standard deviations."""
    x = whiten(samples.centred)
    return samples.compare(x @ x.T, lambda means: means.excess)


@formula(
    "two-samples/coordinate",
    "tests.coordinate",
    definition="The difference of the means of one coordinate over its standard deviation, where it is largest "
    "relative to its standard deviation over permutations; p over permutations of documents, of the largest.",
    cost="n dim of a sample per permutation",
    citation="Westfall and Young, Resampling-based multiple testing, 1993",
)
def compare_coordinates(samples: Samples) -> Difference:
    """Test whether the mean of any coordinate differs, and find the one that differs most."""
    x = samples.centred
    sums = sum_cells(x, samples.cells)  # (cells, dim)
    second = samples.labels.T.astype(np.float64)
    rows = second @ samples.cells.size
    of_second = second @ sums
    differences = of_second / rows[:, None] - (sums.sum(axis=0) - of_second) / (len(x) - rows)[:, None]
    spread = np.sqrt(np.square(differences).mean(axis=0))
    ratios = np.abs(differences) / np.where(spread > 0, spread, np.inf)
    largest, coordinate = ratios.max(axis=1), int(ratios[0].argmax())
    value = float(differences[0, coordinate] / (x[:, coordinate].std() or nan))
    return Difference(value, nan, float((largest >= largest[0] * (1 - TIES)).mean()), coordinate)


@formula(
    "two-samples/covariance",
    "tests.covariance",
    definition="|difference of the second moments|^2 (Frobenius) over |second moments of both|^2, about the "
    "midpoint of the means of the sides, unbiased: the means of (x . y)^2 within both sides minus twice that "
    "between them, over pairs of vectors of different documents; p over permutations of documents.",
    cost="n^2 dim of a sample; one product (documents, documents) per permutation",
    citation="after Li and Chen, Two sample tests for high-dimensional covariance matrices, 2012",
    error="jackknife over 20 groups of documents, whose coverage has not been simulated",
)
def compare_covariances(samples: Samples) -> Difference:
    """Test whether the covariances differ; the value is squared and relative.

    About the midpoint, means that differ add the same to the second moments of both sides. About the common mean
    they would add more to those of the smaller side.
    """
    second = np.repeat(samples.cells.second, samples.cells.size)
    x = samples.centred - (samples.centred[second].mean(axis=0) + samples.centred[~second].mean(axis=0)) / 2
    whole = float(np.square(x.T @ x / len(x)).sum()) or nan
    return samples.compare(np.square(x @ x.T), lambda means: means.excess / whole)


@formula(
    "two-samples/neighbours",
    "tests.neighbours",
    definition="Of the 10 nearest neighbours of a vector in other documents, the share on its own side, weighted "
    "so that 0.5 is expected for sides of any size; p over permutations of documents.",
    cost="n^2 dim of a sample; one product (documents, documents) per permutation",
    citation="Schilling 1986; Henze 1988",
    error="jackknife over 20 groups of documents, whose coverage has not been simulated",
)
def compare_neighbours(samples: Samples) -> Difference:
    """Test whether vectors have their nearest neighbours on their own side."""
    n = len(samples.distances)
    # Equal distances are taken in a random order: in the order of rows, the first side would be preferred.
    order = np.random.default_rng(0).permutation(n)
    apart = samples.distances[:, order]
    apart[samples.same[:, order]] = np.inf
    near = order[np.argpartition(apart, NEIGHBOURS - 1, axis=1)[:, :NEIGHBOURS]]
    links = np.zeros((n, n))
    links[np.arange(n)[:, None], near] = 1.0
    return samples.compare(links + links.T, _own_share)


def _own_share(means: Means) -> Array:
    own = means.first + means.second
    return own / (own + 2 * means.between)


@formula(
    "two-samples/energy",
    "tests.energy",
    definition="Energy distance over 2 E|x - y|: 1 - (E|x - x'| + E|y - y'|)/(2 E|x - y|), over pairs of vectors "
    "of different documents; p over permutations of documents.",
    cost="n^2 dim of a sample; one product (documents, documents) per permutation",
    citation="Szekely and Rizzo, Testing for equal distributions in high dimension, 2004",
    error="jackknife over 20 groups of documents, whose coverage has not been simulated",
)
def compare_distances(samples: Samples) -> Difference:
    """Test by the energy distance, which is 0 only for equal distributions."""
    return samples.compare(-samples.distances, _energy_share)


def _energy_share(means: Means) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(means.excess / (-2 * means.between))


@formula(
    "two-samples/length",
    "tests.length",
    definition="The energy distance of the norms of vectors, over 2 E||x| - |y||; p over permutations of "
    "documents.",
    cost="n^2 of a sample; one product (documents, documents) per permutation",
    citation="Szekely and Rizzo, Testing for equal distributions in high dimension, 2004",
    error="jackknife over 20 groups of documents, whose coverage has not been simulated",
)
def compare_lengths(samples: Samples) -> Difference:
    """Test whether norms differ."""
    lengths = samples.lengths
    return samples.compare(-np.abs(lengths[:, None] - lengths), _energy_share)


def whiten(x: Array, shrinkage: float = SHRINKAGE) -> Array:
    """Return centred vectors with their covariance, shrunk towards its average variance, made the identity."""
    covariance = x.T @ x / len(x)
    average = np.trace(covariance) / len(covariance)
    values, axes = np.linalg.eigh((1 - shrinkage) * covariance + shrinkage * average * np.eye(len(covariance)))
    return np.asarray(x @ (axes / np.sqrt(values))) if average > 0 else x


def _dot(left: NDArray[np.float32], right: NDArray[np.float32]) -> Array:
    """Return the dot products of the columns. (cells, labellings) each, or one column"""
    return np.asarray((left * right).sum(axis=0, dtype=np.float64))
