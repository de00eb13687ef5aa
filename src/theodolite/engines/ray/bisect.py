"""Bisection: find the documents of a shard that raise an error, by halving the shard."""

from __future__ import annotations

from collections import deque
from pathlib import PurePath
from typing import Any

from theodolite.engines.engine import Documents
from theodolite.errors import first_line
from theodolite.sources.batch_limit import BatchLimit, fits_in_memory
from theodolite.sources.source import Source
from theodolite.state.skipped import SkippedDocument

EXCERPT_LENGTH = 40  # characters of a text


def find_failing_documents(
    source: Source, shard: int, documents: Documents, limit: BatchLimit
) -> list[SkippedDocument]:
    """Return the documents that raise an error when they are processed by themselves. Nothing is accumulated.

    The list is empty if every document raises, or only several together do: then the machine is at fault. Batches
    that do not fit in memory are split. Cost: two passes over the shard, and about 2 log2(documents) small ones
    for each document found.
    """
    found = _bisect(source, shard, documents, limit)
    return [] if len(found) == len(documents) > 1 else found


def _bisect(source: Source, shard: int, documents: Documents, limit: BatchLimit) -> list[SkippedDocument]:
    reason = _error_of(source, documents, limit)
    if reason is None:
        return []
    if len(documents) == 1:
        number, document = documents[0]
        return [SkippedDocument(shard, number, _describe(document), reason)]
    half = len(documents) // 2
    parts = (documents[:half], documents[half:])
    return [failing for part in parts for failing in _bisect(source, shard, part, limit)]


def _error_of(source: Source, documents: Documents, limit: BatchLimit) -> str | None:
    """Return the error that processing these documents raises; None if it raises none."""
    try:
        waiting = deque(source.prepare(documents))
        while waiting:
            first, *others = limit.split(waiting.popleft())
            waiting.extendleft(reversed(others))
            if not fits_in_memory(source, first, lambda batch: None):
                limit.lower(first, str(getattr(source, "device", "cpu")))
                waiting.appendleft(first)
    except Exception as error:
        line = first_line(error, "")
        return f"{type(error).__name__}: {line}"[:300]
    return None


def _describe(document: Any) -> str:
    """Return the name of a file, or the beginning of a text."""
    named = getattr(document, "name", None)
    if named is not None:
        return str(named)
    text = " ".join(str(document).split()) if not isinstance(document, PurePath) else document.name
    return repr(text if len(text) <= EXCERPT_LENGTH else text[:EXCERPT_LENGTH] + "…")
