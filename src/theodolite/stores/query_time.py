"""Time of one query by exhaustive search with FAISS, on one thread, for vectors stored in different forms."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import TheodoliteError
from theodolite.stores.transforms import StoreTransform, import_faiss

if TYPE_CHECKING:
    from theodolite.stores.cost import FirstPass

_SECONDS, _K = 0.1, 10


def time_query(transform: StoreTransform, first: FirstPass, queries: NDArray[np.float32]) -> float:
    """Return milliseconds a query over all rows, without rescoring: timed on the training sample, then scaled.

    The time is that of the CPU, which another load changes less than the clock. NaN if FAISS is not installed.
    """
    try:
        faiss = import_faiss()
    except TheodoliteError:
        return float("nan")
    index, asked = _build_index(faiss, transform, first.training, queries)
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        index.search(asked[:1], _K)
        started, count = time.thread_time(), 0
        while (spent := time.thread_time() - started) < _SECONDS:
            index.search(asked[count % len(asked)][None], _K)
            count += 1
    finally:
        faiss.omp_set_num_threads(threads)
    return 1e3 * spent / max(count, 1) * first.rows / len(first.training)


def _build_index(
    faiss: Any, transform: StoreTransform, documents: NDArray[np.float32], queries: NDArray[np.float32]
) -> tuple[Any, NDArray[Any]]:
    if transform.quantizer == "binary":
        pad = -transform.width % 8  # both sides are padded with zero bits
        index = faiss.IndexBinaryFlat(transform.width + pad)
        index.add(transform.encode(documents))
        return index, transform.encode(queries)
    asked = np.ascontiguousarray(transform.queries(queries))
    if transform.quantizer:
        index = faiss.clone_index(transform.codec)
        index.add(np.ascontiguousarray(transform.project(documents)))
        return index, asked
    flat = faiss.IndexFlatL2 if transform.metric == "euclidean" else faiss.IndexFlatIP
    index = flat(transform.width)
    index.add(np.ascontiguousarray(transform.project(documents)))
    return index, asked
