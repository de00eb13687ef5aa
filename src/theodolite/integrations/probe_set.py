"""The probe set: a few thousand positions of text, tokenized once and the same at every measurement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from torch import nn

from theodolite.errors import InputError
from theodolite.sources.corpus import CorpusOptions, open_corpus
from theodolite.sources.text.source import TextBatch, TextSource
from theodolite.sources.text.windows import Window, longest_window

LAYERS = 6
"""So many layers are measured where none are named: the first, the last, and others evenly between."""


@dataclass(frozen=True, eq=False)
class ProbeSet:
    """Batches ready to run, the source that runs them, and what the series says of the text."""

    source: TextSource
    batches: list[TextBatch]
    facts: dict[str, Any]

    @property
    def positions(self) -> int:
        """How many positions count."""
        return sum(batch.positions for batch in self.batches)


def probe_set(
    model: nn.Module,
    tokenizer: Any,
    texts: str | Path | Iterable[str],
    *,
    limit: int | None = None,
    positions: int = 2048,
    layers: str | Sequence[int] | None = None,
    max_tokens: int | None = None,
) -> ProbeSet:
    """Read documents in order until their windows hold enough positions. The model runs on a few tokens."""
    config: Any = model.config
    corpus = open_corpus(texts, CorpusOptions(limit=limit))
    every = layers == "all"
    source = TextSource(
        model,
        tokenizer,
        layers=None if every else layers,
        max_tokens=longest_window(config, tokenizer, max_tokens),
    )
    if layers is None:
        source = source.narrowed(_spread(source.layers))
    digest, taken, count, documents = sha256(), set(), 0, []
    for number, text in corpus.documents():
        windows, _ = source.windows([(number, text)])
        for window in windows:
            _check_ids(window, config)
            taken.add((window.document, window.number))
            digest.update(window.ids.tobytes() + b"|")
            count += len(window)
            if count >= positions:
                break
        documents.append((number, text))
        if count >= positions:
            break
    batches = source.prepare(documents, only=taken)
    if not batches:
        raise InputError("texts: no token of them counts; is the probe set blank?")
    name = corpus.name if isinstance(texts, str | Path) else f"{len(documents)} texts"
    facts = {"name": name, "sha256": digest.hexdigest(), "documents": len(documents), "positions": count}
    return ProbeSet(source, batches, facts)


def _spread(layers: Sequence[Any]) -> list[Any]:
    """Return at most so many layers, evenly from the first to the last."""
    if len(layers) <= LAYERS:
        return list(layers)
    return [layers[round(place * (len(layers) - 1) / (LAYERS - 1))] for place in range(LAYERS)]


def _check_ids(window: Window, config: Any) -> None:
    """Refuse ids that the model does not know: on a GPU they would end the training, not the measurement."""
    known = getattr(config, "vocab_size", None)
    if known and len(window) and int(window.ids.max()) >= known:
        raise InputError(
            f"tokenizer: it gives the id {int(window.ids.max())}, but the model knows {known:,} ids, from 0 on; "
            "give the tokenizer that the model is trained with."
        )
