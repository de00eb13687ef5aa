"""Culprits: the documents of a shard that raise, found by halving it."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from theodolite.errors import first_line
from theodolite.sources.source import Source
from theodolite.surveys.left_out import Poison
from theodolite.surveys.plan import Documents

SHOWN = 40  # characters of a text


def culprits(source: Source, shard: int, documents: Documents) -> list[Poison]:
    """Return the documents that raise when they are read alone, folding nothing.

    None are found where all do, or only many together: then it is the machine that fails. Cost: two passes over
    the shard, and about 2 log2(documents) small ones for each that is found.
    """
    found = _halved(source, shard, documents)
    return [] if len(found) == len(documents) > 1 else found


def _halved(source: Source, shard: int, documents: Documents) -> list[Poison]:
    reason = _tried(source, documents)
    if reason is None:
        return []
    if len(documents) == 1:
        number, document = documents[0]
        return [Poison(shard, number, _name(document), reason)]
    half = len(documents) // 2
    return _halved(source, shard, documents[:half]) + _halved(source, shard, documents[half:])


def _tried(source: Source, documents: Documents) -> str | None:
    """Return what reading these documents raises."""
    try:
        for prepared in source.prepare(documents):
            source.run(prepared, lambda batch: None)
    except Exception as error:
        line = first_line(error, "")
        return f"{type(error).__name__}: {line}"[:300]
    return None


def _name(document: Any) -> str:
    """Return a file's name, or how a text begins."""
    named = getattr(document, "name", None)
    if named is not None:
        return str(named)
    text = " ".join(str(document).split()) if not isinstance(document, PurePath) else document.name
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")
