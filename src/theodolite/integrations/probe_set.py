"""The probe set: a few thousand positions of text, tokenized once, that every measurement uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from torch import nn

from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.text_corpus import open_corpus
from theodolite.errors import InputError
from theodolite.integrations.processes import Processes
from theodolite.integrations.share import Share, make_share
from theodolite.models.layers import RESIDUAL, Layer
from theodolite.sources.source import Source
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.windows import Window, choose_window_length

LAYERS = 6
"""Default number of layers: the first, the last, and others evenly spaced between them."""


@dataclass(frozen=True, eq=False)
class ProbeSet:
    """Prepared batches, the source that runs them, and the facts about model and texts that the series stores."""

    source: Source
    share: Share
    facts: dict[str, Any]
    model: dict[str, Any]
    settings: dict[str, Any]
    documents: list[tuple[int, str]] = field(default_factory=list)  # of a text model


def make_probe_set(
    model: nn.Module,
    tokenizer: Any,
    texts: str | Path | Iterable[str],
    *,
    limit: int | None = None,
    positions: int = 2048,
    layers: str | Sequence[int] | None = None,
    max_tokens: int | None = None,
    streams: Sequence[str] = (RESIDUAL,),
    processes: Processes = Processes(),  # noqa: B008 - frozen
    sharded: bool = False,
) -> ProbeSet:
    """Read windows of documents until they hold enough positions. The model is run on a few tokens first."""
    with processes.fail_together():
        source, documents, windows, name = _read_texts(
            model, tokenizer, texts, limit, positions, layers, max_tokens, streams
        )
    digest = sha256()
    for window in windows:
        digest.update(window.ids.tobytes() + b"|")
    # Windows of about equal length go to different processes.
    chosen = [(window.document, window.number) for window in sorted(windows, key=len)]
    share = make_share(chosen, lambda part: source.prepare(documents, only=set(part)), processes, sharded=sharded)
    if not share.positions:
        raise InputError("texts: the probe set contains no tokens to measure; give texts that are not blank.")
    facts = {"name": name, "sha256": digest.hexdigest(), "documents": len(documents), "positions": share.positions}
    about = {"modality": "text", "blocks": len(source.anatomy.blocks), "causal": source.anatomy.causal}
    return ProbeSet(source, share, facts, about, {"max_tokens": source.max_tokens}, documents)


def _read_texts(
    model: nn.Module,
    tokenizer: Any,
    texts: str | Path | Iterable[str],
    limit: int | None,
    positions: int,
    layers: str | Sequence[int] | None,
    max_tokens: int | None,
    streams: Sequence[str],
) -> tuple[TextSource, list[tuple[int, str]], list[Window], str]:
    """Return the source, the documents, the windows to measure, and the name of the texts."""
    config: Any = model.config
    corpus = open_corpus(texts, CorpusOptions(limit=limit))
    source = TextSource(
        model,
        tokenizer,
        layers=None if layers == "all" else layers,
        max_tokens=choose_window_length(config, tokenizer, max_tokens),
        streams=streams,
    )
    if layers is None:
        source = source.narrowed(_spread(source.layers))
    documents, windows = _choose_windows(source, corpus.documents(), positions)
    for window in windows:
        _check_ids(window, config)
    return source, documents, windows, corpus.name if isinstance(texts, str | Path) else "the probe set"


def _choose_windows(
    source: TextSource, documents: Iterable[tuple[int, str]], positions: int
) -> tuple[list[tuple[int, str]], list[Window]]:
    """Return the first window of every document until there are enough positions, then the second ones, and so on.

    Otherwise one long document could fill the whole set.
    """
    read, first, later, count = [], [], list[Window](), 0
    for number, text in documents:
        windows, _ = source.windows([(number, text)])
        if not windows:
            continue
        read.append((number, text))
        first.append(windows[0])
        later += windows[1:]
        count += len(windows[0])
        if count >= positions:
            return read, first
    for window in sorted(later, key=lambda each: (each.number, each.document)):
        if count >= positions:
            break
        first.append(window)
        count += len(window)
    return read, first


def _spread(layers: Sequence[Layer]) -> list[Layer]:
    """Return all streams of at most LAYERS layers, evenly spaced from the first to the last."""
    places = list(dict.fromkeys(_place(layer) for layer in layers))
    if len(places) > LAYERS:
        places = [places[round(at * (len(places) - 1) / (LAYERS - 1))] for at in range(LAYERS)]
    return [layer for layer in layers if _place(layer) in places]


def _place(layer: Layer) -> int:
    """Return the number of the layer of the residual stream that a layer belongs to."""
    return layer.index if layer.block is None else layer.block


def _check_ids(window: Window, config: Any) -> None:
    """Reject ids beyond the vocabulary: on a GPU they would crash the training run."""
    known = getattr(config, "vocab_size", None)
    if known and len(window) and int(window.ids.max()) >= known:
        raise InputError(
            f"tokenizer: it returns the id {int(window.ids.max())}, but the vocabulary of the model has {known:,} "
            "ids; give the tokenizer that the model is trained with."
        )
