"""theodolite.store: check the health of a vector store, and write its report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from theodolite.engines.progress import Listener
from theodolite.report.store_page import write_store_page
from theodolite.stores.results import REPORT, StoreResults
from theodolite.stores.scan import SAMPLE_SIZE
from theodolite.stores.store import (
    FALSE_MATCH_RATE,
    NEAR_DUPLICATE,
    QUERY_COUNT,
    Column,
    Source,
    measure_store,
)


def store(
    source: Source,
    *,
    queries: Source | None = None,
    against: Source | None = None,
    groups: str | None = None,
    cost: bool = True,
    transforms: Sequence[str] | None = None,
    metric: str | None = None,
    column: str | None = None,
    query_column: str | None = None,
    id_column: Column = None,
    label_column: Column = None,
    text_column: Column = None,
    time_column: Column = None,
    packed: str | None = None,
    false_match_rate: float = FALSE_MATCH_RATE,
    near_duplicate: float = NEAR_DUPLICATE,
    sample_size: int = SAMPLE_SIZE,
    query_count: int = QUERY_COUNT,
    device: str = "cpu",
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> StoreResults:
    """Check the health of a vector store, and find out what its scores mean.

    source            a file, folder, address, array or tensor of vectors (rows, dim)
    queries           real queries, embedded with the same model; by default documents search for each other
    against           an earlier state of the store, or one of another model, to compare with
    groups            which of the columns ("label", "id", ...) names the document of a row, for that comparison
    cost              also search after each of the transforms, such as ["centre+pca:128+int8"], by default a dozen
                      usual ones: what would be lost and saved. Needs faiss-cpu for int8, binary and pq
    metric            "cosine", "dot" or "euclidean"; by default what the store declares, else cosine
    column, id_column, label_column, text_column, time_column, packed
                      how to read the store, see `theodolite.stores.reading.open_store`; query_column is for
                      the queries
    false_match_rate  share of random pairs that may exceed the threshold of a match
    near_duplicate    cosine from which two different vectors are near duplicates
    sample_size       rows kept for the distribution of scores
    query_count       documents, and queries, that are searched among all rows
    device            where to search, such as "cuda"
    out               folder for store.json, tables and report.html; resume continues an interrupted run

    >>> import numpy as np
    >>> found = store(np.random.default_rng(0).normal(size=(500, 8)), cost=False)
    >>> found.answers["verdict"].iloc[0], sorted(found.tables)[:3]
    ('good', ['antihubs', 'dimensions', 'duplicates'])
    """
    made = measure_store(
        source,
        queries=queries,
        against=against,
        groups=groups,
        cost=cost,
        transforms=transforms,
        metric=metric,
        column=column,
        query_column=query_column,
        id_column=id_column,
        label_column=label_column,
        text_column=text_column,
        time_column=time_column,
        packed=packed,
        false_match_rate=false_match_rate,
        near_duplicate=near_duplicate,
        sample_size=sample_size,
        query_count=query_count,
        device=device,
        out=out,
        resume=resume,
        overwrite=overwrite,
        listener=listener,
    )
    if made.folder is not None:
        write_store_page(made.folder / REPORT, made.name, made.facts, made.sections)
    return made
