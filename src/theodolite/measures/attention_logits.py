"""Attention logits by head: quantiles from a histogram with fixed bins, and means of entropies and weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theodolite.logit_bins import bin_edges
from theodolite.measures.formula import formula

Array = NDArray[np.float64]
PERCENTILES = (1, 5, 50, 95, 99)


@formula(
    "attention/logits",
    "attention.logit_min",
    *(f"attention.logit_p{percent:02d}" for percent in PERCENTILES),
    "attention.logit_max",
    definition="Quantiles of the logits q.k times the scale, with the bias of relative positions if there is "
    "one, over all pairs of a query that counts and a key that it may attend to. The smallest and the largest are "
    "exact; the others come from a histogram whose bins are at most 1/16 of the logit wide, or 1/256.",
    cost="one product per pair of positions, and 16 kB per head",
    citation="Theodolite",
)
def logit_quantiles(counts: NDArray[np.int64], lowest: float, highest: float) -> dict[str, float]:
    """Return the quantiles of one head by column, NaN if it has no logit. (bins,)

    >>> counts = np.zeros(1024, dtype=np.int64)
    >>> counts[640] = 100  # from 1 to 1.0625
    >>> found = logit_quantiles(counts, 1.01, 1.05)
    >>> found["logit_min"], found["logit_p50"], found["logit_max"]
    (1.01, 1.03125, 1.05)
    """
    names = ["logit_min", *(f"logit_p{percent:02d}" for percent in PERCENTILES), "logit_max"]
    total = counts.sum()
    if not total:
        return dict.fromkeys(names, float("nan"))
    edges, below = bin_edges().numpy(), np.concatenate([[0], np.cumsum(counts)])
    ranks = np.array(PERCENTILES) / 100 * total
    at = np.searchsorted(below[1:], ranks)
    inside = (ranks - below[at]) / counts[at]
    values = np.clip(edges[at] + inside * (edges[at + 1] - edges[at]), lowest, highest)
    return dict(zip(names, [lowest, *values.tolist(), highest], strict=True))


@formula(
    "attention/entropy",
    "attention.entropy",
    "attention.entropy_share",
    definition="Entropy -sum w log w of the weights of a query, in nats, and that as a share of log(keys that "
    "it may attend to), which leaves out queries with one key; the means over queries.",
    cost="one pass over the weights",
    citation="Theodolite",
)
def mean_entropy(entropy: Array, share: Array, queries: int, choices: int) -> tuple[Array, Array]:
    """Return the means from sums over queries, `choices` of which have more than one key. (heads,) each

    >>> [found.tolist() for found in mean_entropy(np.array([3.0]), np.array([0.5]), 2, 1)]
    [[1.5], [0.5]]
    """
    return _mean(entropy, queries), _mean(share, choices)


@formula(
    "attention/sink-mass",
    "attention.first_mass",
    "attention.top_mass",
    definition="first_mass: the mean weight that queries give to the first position of their window. top_mass: "
    "the largest mean weight that one key gets from the queries of its window, the mean over windows; at least 1 "
    "over the number of keys.",
    cost="one pass over the weights",
    citation="Xiao et al. 2024; Theodolite",
)
def sink_mass(first: Array, top: Array, queries: int, windows: int) -> tuple[Array, Array]:
    """Return the means from sums over queries and over windows. (heads,) each

    >>> [found.tolist() for found in sink_mass(np.array([1.0]), np.array([0.9]), 4, 1)]
    [[0.25], [0.9]]
    """
    return _mean(first, queries), _mean(top, windows)


def _mean(total: Array, count: int) -> Array:
    return total / count if count else np.full_like(total, np.nan)
