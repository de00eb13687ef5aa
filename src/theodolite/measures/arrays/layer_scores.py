"""Scores by which a layer may be chosen without labels, of the vectors of an array."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Any

import numpy as np
import torch
from torch import Tensor

from theodolite.measures import layer_scores
from theodolite.measures.arrays.result import (
    Result,
    as_codes,
    as_vectors,
    blocks,
    check_integer,
    make_result,
    mean_vector,
)
from theodolite.measures.contextuality import mean_and_error
from theodolite.trajectories import matrix_entropy, turning_angles


def lidar(x: Any, units: Any, *, min_count: int = 10) -> Result:
    """Return the effective rank of the spread between units, measured by the spread within units.

    x: (vectors, dim). units: one label per vector, such as the token, the picture or the document. The means of
    units with at least `min_count` vectors count, each once. n is the number of these units; the rank is at most
    n - 1.

    >>> rng = np.random.default_rng(0)
    >>> means = np.repeat(rng.normal(size=(50, 2)) @ np.eye(2, 8), 20, axis=0)  # on a plane in 8 dimensions
    >>> round(lidar(means + 0.1 * rng.normal(size=means.shape), np.repeat(np.arange(50), 20)).value, 1)
    2.0
    """
    check_integer("min_count", min_count, least=2)
    vectors = as_vectors(x)
    codes, centre = as_codes(units, vectors, "units"), mean_vector(vectors)
    n = torch.bincount(codes).double()
    total = torch.zeros(len(n), vectors.shape[1], dtype=torch.float64, device=vectors.device)
    for rows, block in blocks(vectors, centre):
        total.index_add_(0, codes[rows], block)
    within = torch.zeros(vectors.shape[1], vectors.shape[1], dtype=torch.float64, device=vectors.device)
    for rows, block in blocks(vectors, centre):
        block -= (total / n[:, None])[codes[rows]]
        within.addmm_(block.T, block)
    used = n >= min_count
    count = int(used.sum())
    if count < 2:
        reason = f"fewer than two units have {min_count} vectors"
        return make_result(nan, nan, count, "lidar/units", reason)
    rounding = float(torch.finfo(torch.float64).eps) * float(total.square().sum() / len(vectors))
    value = layer_scores.lidar(
        within / len(vectors), layer_scores.spread_of_units(n, total, used)[1], rounding=rounding
    )
    return make_result(value, nan, count, "lidar/units", layer_scores.NO_SPREAD)


def prompt_entropy(x: Any, documents: Any = None) -> Result:
    """Return the entropy of the directions of a document's vectors, as a share of the largest possible.

    x: (vectors, dim). documents: one label per vector; the result is the mean over documents, n their number, and
    the standard error is over documents. Without documents all vectors are one.

    >>> prompt_entropy([[1.0, 0.0], [1.0, 0.0], [2.0, 0.0]]).value
    0.0
    """
    return _average(
        x, documents, "prompt-entropy/gram", matrix_entropy, "no document has two vectors other than 0"
    )


def curvature(x: Any, documents: Any = None) -> Result:
    """Return the mean angle, in degrees, between the steps from each vector of a document to the next.

    x: (vectors, dim), those of one document in the order of its positions. documents: one label per vector; the
    result is the mean over documents, n their number, and the standard error is over documents.

    >>> round(curvature([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [2.0, 1.0]]).value, 9)
    90.0
    """
    return _average(
        x,
        documents,
        "curvature/steps",
        lambda rows: float(turning_angles(rows).nanmean()),
        layer_scores.NO_CURVATURE,
    )


def _average(x: Any, documents: Any, formula_id: str, measure: Callable[[Tensor], float], reason: str) -> Result:
    """Average a number of each document over the documents that have it."""
    vectors = as_vectors(x)
    if documents is None:
        parts = [vectors]
    else:
        codes = as_codes(documents, vectors, "documents")
        order = torch.argsort(codes, stable=True)
        parts = list(torch.split(vectors[order], torch.bincount(codes).tolist()))
    mean, error, used = mean_and_error(np.array([measure(part.double()) for part in parts]))
    return make_result(mean, error, used, formula_id, reason)
