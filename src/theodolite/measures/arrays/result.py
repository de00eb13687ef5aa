"""What a measure of an array returns, and the checks of its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, isnan, nan, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from theodolite.errors import InputError
from theodolite.measures.formula import Formula, formulas
from theodolite.measures.uncertainty import Estimate

BLOCK = 16384
"""Rows converted to float64 at a time."""


@dataclass(frozen=True, slots=True)
class Result:
    """A number with its standard error, the number of vectors behind it, and the reason if it is undefined.

    >>> result = Result(0.25, 0.01, 400, "mean-cosine/all-pairs")
    >>> float(result), f"{result:.1f}"
    (0.25, '0.2')
    >>> result
    0.25 ± 0.01 (n = 400, mean-cosine/all-pairs)
    """

    value: float
    se: float
    """Standard error; NaN if none is known."""
    n: int
    """Number of vectors, or of units for a fit over units."""
    formula_id: str
    reason: str | None = None
    """Why the value is NaN, if it is."""

    @property
    def formula(self) -> Formula:
        """Definition, cost and citation of the formula."""
        return formulas()[self.formula_id]

    def __float__(self) -> float:
        return self.value

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __repr__(self) -> str:
        value = f"undefined: {self.reason}" if isnan(self.value) else f"{self.value:.6g}"
        error = f" ± {self.se:.2g}" if isfinite(self.se) else ""
        return f"{value}{error} (n = {self.n:,}, {self.formula_id})"


def as_result(estimate: Estimate, n: int, formula_id: str) -> Result:
    """Return an estimate as a result."""
    return Result(estimate.value, estimate.se, n, formula_id, estimate.reason)


def make_result(value: float, se: float, n: int, formula_id: str, reason: str) -> Result:
    """Return a result; `reason` applies only if the value is not finite."""
    if isfinite(value):
        return Result(value, se, n, formula_id)
    return Result(nan, nan, n, formula_id, reason)


def as_vectors(x: Any) -> Tensor:
    """Return x as a tensor on its own device; raise if it is not (vectors, dim), floating and finite.

    >>> as_vectors(np.eye(2, dtype=np.float16)).dtype
    torch.float16
    """
    vectors = x.detach() if isinstance(x, Tensor) else _from_numpy(_as_array(x))
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise InputError(f"x: expected an array (vectors, dim), got the shape {tuple(vectors.shape)}.")
    if not vectors.is_floating_point():
        raise InputError(
            f"x: expected floating-point numbers, got {str(vectors.dtype).removeprefix('torch.')}. "
            "Convert integers that are values with x.astype('float32'); unpack packed bits first."
        )
    bad = [~vectors[at : at + BLOCK].isfinite().all(dim=1) for at in range(0, len(vectors), BLOCK)]
    rows = torch.cat(bad).nonzero().flatten()
    if len(rows):
        raise InputError(
            f"x: {len(rows):,} of {len(vectors):,} rows are not finite; the first is row {int(rows[0])}. "
            "Remove them first."
        )
    return vectors


def _as_array(x: Any) -> np.ndarray[Any, Any]:
    if x is None or isinstance(x, str):
        raise InputError(f"x: expected an array of numbers (vectors, dim), got {type(x).__name__}.")
    if callable(getattr(x, "toarray", None)):  # NumPy would wrap a matrix of SciPy in an array of one object
        raise InputError(f"x: expected a dense array (vectors, dim), got {type(x).__name__}. Give x.toarray().")
    try:
        return np.asarray(x)
    except ValueError as error:  # rows of different lengths
        raise InputError(f"x: expected an array (vectors, dim); its rows differ in length ({error}).") from error


def check_integer(name: str, value: Any, least: int = 1, most: int | None = None) -> None:
    """Reject an argument that is not an integer, or outside its range."""
    valid = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not valid or value < least or (most is not None and value > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"{name}: expected an integer {bounds}, got {value!r}.")


def _from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    if array.dtype.kind not in "fiub":
        raise InputError(f"x: expected an array of numbers (vectors, dim), got {array.dtype} {array.shape}.")
    native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return torch.from_numpy(native if native.flags.writeable else native.copy())


def as_codes(labels: Any, vectors: Tensor, name: str) -> Tensor:
    """Return labels of any kind as codes 0, 1, ... in sorted order: (vectors,) int64 on the vectors' device."""
    if isinstance(labels, Tensor):
        if labels.ndim == 1 and len(labels) == len(vectors):
            return number(labels.detach().to(vectors.device))
        shape = tuple(labels.shape)
    else:
        array = np.asarray(labels)
        if array.ndim == 1 and len(array) == len(vectors):
            text = array.astype(str) if array.dtype == object else array
            return torch.from_numpy(np.unique(text, return_inverse=True)[1].astype(np.int64)).to(vectors.device)
        shape = array.shape
    raise InputError(f"{name}: expected one label per vector, {len(vectors):,} in all, got the shape {shape}.")


def number(labels: Tensor) -> Tensor:
    """Return each label's rank among the distinct labels. (any,) -> (any,) int64"""
    codes: Tensor = torch.unique(labels, return_inverse=True)[1]
    return codes


def blocks(vectors: Tensor, centre: Tensor | None = None) -> Iterator[tuple[slice, Tensor]]:
    """Yield the rows block by block in float64, less the centre if there is one."""
    for start in range(0, len(vectors), BLOCK):
        rows = slice(start, start + BLOCK)
        block = vectors[rows].double()
        yield rows, block if centre is None else block - centre


def mean_vector(vectors: Tensor) -> Tensor:
    """Return the mean in float64: (dim,). A first pass about the first row keeps large offsets exact."""
    origin = vectors[0].double()
    total = torch.zeros_like(origin)
    for _, block in blocks(vectors, origin):
        total += block.sum(0)
    return origin + total / len(vectors)


def clustered_error(influence: Tensor, documents: Tensor | None) -> float:
    """Return the standard error of an estimate from the influence of each vector, summed by document. (vectors,)

    With theta the estimate, influence i is the derivative of theta by the weight of vector i, times n. Vectors of
    one document are not independent, their sums are. NaN for fewer than two documents.

    >>> round(clustered_error(torch.tensor([1.0, -1.0, 1.0, -1.0]), None), 6)  # sqrt(1/3)
    0.57735
    """
    n = len(influence)
    influence = influence - influence.mean()
    if documents is not None:
        influence = influence.new_zeros(int(documents.max()) + 1).index_add_(0, documents, influence)
    clusters = len(influence)
    return sqrt(float(influence.square().sum()) * clusters / (clusters - 1)) / n if clusters > 1 else nan
