"""The plan: everything a run needs to know, made before anything is folded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from theodolite.sources.source import Source
from theodolite.sources.text.norm import Norm
from theodolite.surveys.storage import Place
from theodolite.surveys.survey import Survey

Documents = list[tuple[int, Any]]


@dataclass(frozen=True)
class Plan:
    """Everything a run needs to know: what is folded, in which shards, and what identifies it."""

    source: Source
    corpus_sha256: str
    shards: Sequence[int]  # indices, in order
    read: Callable[[Sequence[int]], Iterable[tuple[int, Documents]]]  # the documents of these shards, in order
    weight: Callable[[int], float]  # a shard's share of the corpus
    pilot_documents: Documents
    model_sha256: str
    identity: dict[str, Any]
    facts: dict[str, Any]  # model, tokenizer and corpus, as survey.json tells them
    populations: tuple[str, ...]
    sample_size: int
    types_bound: int
    contextuality: bool = False
    budget: int | None = None
    pilot_from: Place | None = None
    device: str | None = None  # where sums are kept while they are taken; None: on the processor
    norms: dict[int, Norm] = field(default_factory=dict)  # by layer, where the state leaves a norm
    remake: Callable[[], Source] | None = None  # makes the same source on another machine; pickles
    finally_: Callable[[Survey], None] = lambda survey: None  # what is to be told of the finished survey
