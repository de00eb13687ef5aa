"""How sharp attention is: the largest weight and the entropy of each row, masked entries never among them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.measures.formula import formula

Floats = NDArray[np.float64]


class Sharpness(NamedTuple):
    """Of every row of weights. (..., rows) each"""

    maximum: Floats
    entropy: Floats  # in nats
    share: Floats  # of log(length), the most that so many entries can have; NaN for rows of one


@formula(
    "attention/sharpness",
    "attention.attention_max",
    "attention.attention_entropy",
    "attention.attention_entropy_share",
    "attention_rows.attention_max",
    "attention_rows.attention_entropy",
    "attention_rows.attention_entropy_share",
    definition="Largest weight of each row of attention, its entropy -sum w log w in nats, and that as a share of "
    "log(entries that are not masked), undefined for rows of one; the mean over heads and rows.",
    cost="one pass over the weights",
    citation="Godey et al. 2023, section 5; Theodolite",
    error="jackknife over documents (attention_max_se, attention_entropy_se, attention_entropy_share_se)",
)
def sharpness(weights: NDArray[np.floating], lengths: NDArray[np.int64]) -> Sharpness:
    """Return how sharp each row is. (..., rows, columns), (rows,) -> (..., rows)

    A row has as many entries as `lengths` says, the first ones; what stands behind them is masked and not read.

    >>> found = sharpness(np.array([[1.0, 9.9], [0.5, 0.5]]), np.array([1, 2]))
    >>> found.maximum.tolist(), found.entropy.round(4).tolist(), found.share.tolist()
    ([1.0, 0.5], [0.0, 0.6931], [nan, 1.0])
    """
    held = np.arange(weights.shape[-1]) < lengths[:, None]
    known = np.where(held, weights.astype(np.float64), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(known > 0, known * np.log(known), 0.0)  # w log w is 0 at 0
        entropy = np.abs(np.where(np.isfinite(known).all(axis=-1), -terms.sum(axis=-1), np.nan))
        share = np.where(lengths > 1, entropy / np.log(lengths), np.nan)
    return Sharpness(known.max(axis=-1), entropy, share)
