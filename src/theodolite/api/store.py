"""theodolite.store: check the health of a vector store, and write its report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.report.store_page import write_store_page
from theodolite.storage.location import local_path
from theodolite.storage.lock import check_unlocked, exclusive
from theodolite.stores.merge import merge_results
from theodolite.stores.reading import open_store
from theodolite.stores.results import REPORT, StoreResults, check_folder, open_results
from theodolite.stores.scan import SAMPLE_SIZE
from theodolite.stores.store import (
    FALSE_MATCH_RATE,
    NEAR_DUPLICATE,
    QUERY_COUNT,
    Column,
    Source,
    StoreRun,
    check_groups,
    check_options,
    rename_source,
)
from theodolite.stores.transforms import parse_transform
from theodolite.surveys.api import best_device


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
    device: str | None = None,
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
    device            where to search: cpu, cuda or cuda:1; by default a GPU if there is one
    out               folder for store.json, tables and report.html; resume continues an interrupted run

    >>> import numpy as np
    >>> found = store(np.random.default_rng(0).normal(size=(500, 8)), cost=False)
    >>> found.answers["verdict"].iloc[0], sorted(found.tables)[:3]
    ('good', ['antihubs', 'dimensions', 'duplicates'])
    """
    listener = listener or Listener()
    for name in transforms or ():
        parse_transform(name)
    check_options(false_match_rate, near_duplicate, sample_size, query_count, metric)
    if device != "cpu":
        from theodolite.surveys.validation import check_device  # imports much that a store does not need

        check_device(device)
    folder = local_path(out, "store") if out is not None else None
    if resume and folder is None:
        raise InputError("--resume requires --out, the folder of the interrupted run.")
    if folder is not None:
        check_unlocked(folder)
        check_folder(folder, overwrite=overwrite, resume=resume)
    open_like_source = partial(
        open_store,
        column=column,
        id_column=id_column,
        label_column=label_column,
        text_column=text_column,
        time_column=time_column,
        packed=packed,
        metric=metric,
    )
    reader = open_like_source(source)
    asked = other = None
    if queries is not None:
        with rename_source("--queries"):
            asked = open_store(queries, column=query_column, packed=packed)
    if against is not None:
        with rename_source("--against"):
            other = open_like_source(against)
    check_groups(groups, reader, other)
    if asked is not None and asked.dim != reader.dim:
        raise InputError(
            f"--queries have {asked.dim:,} coordinates, the vectors of the store {reader.dim:,}. Embed both "
            "with the same model."
        )
    settings = {
        "metric": metric or reader.metric or "cosine",
        "false_match_rate": false_match_rate,
        "near_duplicate": near_duplicate,
        "sample_size": sample_size,
        "query_count": query_count,
        "groups": groups,
        "cost": cost,
        "transforms": None if transforms is None else list(transforms),
    }
    made = StoreRun(reader, asked, other, settings, folder, device or best_device(), listener).run(resume=resume)
    if made.folder is not None:
        write_store_page(made.folder / REPORT, made.name, made.facts, made.sections)
    return made


def merge_stores(folders: Sequence[str | Path], out: str | Path, *, overwrite: bool = False) -> StoreResults:
    """Merge the results of parts of a store, such as its files, and write them with their page to a folder.

    Near duplicates, hubs, isolated documents and costs are left out: they need a search of the whole store.
    """
    folder = local_path(out, "store")
    check_unlocked(folder)
    check_folder(folder, overwrite=overwrite, resume=False)
    made = merge_results(folders)
    with exclusive(folder):
        made.save(folder)
    write_store_page(folder / REPORT, made.name, made.facts, made.sections)
    return open_results(folder)
