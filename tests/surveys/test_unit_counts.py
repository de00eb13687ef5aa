"""Counting units before the fold: the same in one process and in several, and by definition."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from tests.small_models import load, sentences

from theodolite.sources import worker_processes
from theodolite.sources.text.source import TextSource
from theodolite.sources.worker_processes import WorkerCount
from theodolite.surveys.unit_counts import count_units

SHARDS = [(index, list(enumerate(sentences(20, seed=index, longest=12)))) for index in range(5)]
WORKERS = [None, pytest.param(2, marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork"))]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", ["id", "word"])
def test_units_are_counted_in_any_number_of_processes(
    small_model: Any, kind: str, workers: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = None if workers is None else WorkerCount(workers, 1)
    monkeypatch.setattr(worker_processes, "count_workers", lambda tasks: count)
    source = TextSource(*load(small_model("bert")), kind=kind, batch_tokens=64, resident=True)
    plan: Any = SimpleNamespace(
        source=source, shards=range(2), corpus_shards=range(5), read=lambda shards: [SHARDS[i] for i in shards]
    )
    with ExitStack() as processes:
        found = count_units(plan, processes)
    names, first = Counter[int](), set[int]()
    for _, documents in SHARDS:
        for prepared in source.prepare(documents):
            places = prepared.places
            of = places.unit if places.unit_hash is None else places.unit_hash
            names.update(of.tolist())
            first.update(of[places.first].tolist())
    assert dict(zip(found.names.tolist(), found.n.tolist(), strict=True)) == names
    assert set(found.first.tolist()) == first
    assert not multiprocessing.active_children()
