"""Quantization of vectors to a few bits, as caches of keys do it, and its relative error."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Array = NDArray[np.floating]


def quantize(vectors: Array, bits: int = 4, *, mean: Array | None = None, scale: Array | None = None) -> Array:
    """Return what is left of vectors after rounding to this many bits, with one step size per vector. (..., dim)

    A vector is divided by its largest coordinate over 2^(bits-1) - 1, rounded and multiplied back. A `mean` is
    subtracted before and added after; by a `scale`, one number per coordinate, vectors are divided before.

    >>> quantize(np.array([7.0, 3.4, -1.0])).tolist()
    [7.0, 3.0, -1.0]
    >>> quantize(np.array([7.0, 3.4]), mean=np.array([0, 3.4])).tolist()
    [7.0, 3.4]
    """
    centre = 0.0 if mean is None else mean
    size = 1.0 if scale is None else np.where(scale > 0, scale, 1.0)
    rest = (vectors - centre) / size
    step = np.abs(rest).max(axis=-1, keepdims=True) / (2 ** (bits - 1) - 1)
    whole = np.round(rest / np.where(step > 0, step, 1.0))
    return np.asarray(whole * step * size + centre)


@formula(
    "quantization/relative-error",
    "keys.error_plain",
    "keys.error_centred",
    "keys.error_scaled",
    definition="Mean of |x - r|^2 over the mean of |x|^2, where r is x rounded to 4 bits with one step size per "
    "vector of a head; _centred: after the mean of the head is subtracted; _scaled: and after every coordinate is "
    "divided by its standard deviation. From the sample.",
    cost="one pass over the sample",
    citation="Theodolite",
)
def quantization_error(
    vectors: Array, bits: int = 4, *, mean: Array | None = None, scale: Array | None = None
) -> float:
    """Return the relative squared error of `quantize`, NaN if all vectors are 0. (..., dim)

    >>> round(quantization_error(np.array([[7.0, 3.4, -1.0]])), 5)
    0.0026
    """
    wide = vectors.astype(np.float64)
    total = float(np.square(wide).sum())
    return float(np.square(wide - quantize(wide, bits, mean=mean, scale=scale)).sum()) / total if total else np.nan
