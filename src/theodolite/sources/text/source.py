"""The text source: documents through a tokenizer and a transformer, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from theodolite.batch import Batch, Places
from theodolite.hashing import mix
from theodolite.sources.layers import Layer, choose
from theodolite.sources.places import Spot, places_of
from theodolite.sources.source import Sink
from theodolite.sources.text.anatomy import Anatomy
from theodolite.sources.text.vocabulary import vocabulary
from theodolite.sources.text.windows import Window, buckets, cut, encodable
from theodolite.sources.text.words import Words, words_of


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Windows padded on the right to one length, and which of their positions count."""

    ids: Tensor  # (windows, tokens) int64
    mask: Tensor  # (windows, tokens) int64
    rows: Tensor  # (tokens that count,) int64, places in the flattened (windows x tokens)
    places: Places
    pooling: Tensor | None  # (tokens that count,) int64, the row each token is averaged into; None: its own

    @property
    def positions(self) -> int:
        """How many rows each layer will give."""
        return len(self.places)


class TextSource:
    """A transformer over text, its states counted by vocabulary id, by surface or by word."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        corpus_key: int = 0,
        kind: str = "id",
        layers: str | Sequence[int] | None = None,
        max_tokens: int = 512,
        batch_tokens: int = 4096,
        drop_special: bool = False,
    ) -> None:
        self.anatomy = Anatomy.of(model)
        self.tokenizer = tokenizer
        self.layers: tuple[Layer, ...] = choose(self.anatomy.layers, layers)
        self.units, codes = vocabulary(tokenizer, kind)
        self.max_tokens = max_tokens
        self.batch_tokens = batch_tokens
        self.drop_special = drop_special
        self.corpus_key = corpus_key
        self._codes = np.asarray(codes, dtype=np.int64)
        self._device = next(model.parameters()).device
        # RoBERTa finds positions by the pad id, so padding with another one would move every state.
        configured = getattr(model.config, "pad_token_id", None)
        self._pad = next((i for i in (configured, tokenizer.pad_token_id) if i is not None), 0)

    def prepare(self, documents: Sequence[tuple[int, str]]) -> list[TextBatch]:
        """Tokenize, cut into windows, sort into buckets of like length."""
        by_word = self.units.kind == "word"
        texts = {number: encodable(text) for number, text in documents} if by_word else {}
        windows = cut(documents, self.tokenizer, self.max_tokens, words=by_word)
        groups = buckets(windows, self.batch_tokens, pads=self.anatomy.pads)
        # Words get their codes in the order of the batches, which is the order in which they are folded.
        return [batch for group in groups if (batch := self._batch(group, texts)).positions]

    def run(self, prepared: TextBatch, sink: Sink) -> None:
        """One forward pass; each layer's counted rows go to the sink as they leave the block."""
        rows = prepared.rows.to(self._device)

        def take(index: int, states: Tensor) -> None:
            chosen = states.flatten(0, 1).index_select(0, rows).cpu()
            if prepared.pooling is not None:
                chosen = _averaged(chosen, prepared.pooling, prepared.positions)
            sink(Batch(index, chosen, prepared.places))

        with self.anatomy.watched(take, [layer.index for layer in self.layers]) as forward:
            forward(input_ids=prepared.ids.to(self._device), attention_mask=prepared.mask.to(self._device))

    def _batch(self, windows: Sequence[Window], texts: dict[int, str]) -> TextBatch:
        longest = max(map(len, windows))
        ids = np.full((len(windows), longest), self._pad, dtype=np.int64)
        mask = np.zeros((len(windows), longest), dtype=np.int64)
        spots, rows, pooling, taken = [], [], [], 0
        for number, window in enumerate(windows):
            ids[number, : len(window)] = window.ids
            mask[number, : len(window)] = 1
            counted = np.flatnonzero(~window.special) if self.drop_special else np.arange(len(window))
            words = self._words(window, counted, texts)
            spots.append(self._spot(window, words))
            rows.append(number * longest + counted)
            pooling.append(taken + words.of_token)
            taken += len(words.code)
        places = places_of(spots, self.corpus_key)
        order = places.by_unit()
        places, row, pool = places.take(order), np.concatenate(rows), np.concatenate(pooling)
        if len(row) == taken:  # every row is one token: sorting the rows is sorting the tokens
            return TextBatch(
                torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(row)[order], places, None
            )
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order))
        return TextBatch(
            torch.from_numpy(ids),
            torch.from_numpy(mask),
            torch.from_numpy(row),
            places,
            rank[torch.from_numpy(pool)],
        )

    def _words(self, window: Window, counted: Any, texts: dict[int, str]) -> Words:
        if self.units.kind == "word":
            return words_of(window, counted, texts[window.document], self.units, self._codes)
        return Words(self._codes[window.ids[counted]], np.arange(len(counted)), counted, counted)

    def _spot(self, window: Window, words: Words) -> Spot:
        """Say where a window's rows stand, and what the model saw before it gave them out."""
        seen = mix(window.ids, np.arange(len(window)))
        context = np.cumsum(seen)  # wraps around, as hashes may: equal for equal left contexts
        if not self.anatomy.causal:
            context = mix(np.broadcast_to(context[-1:], context.shape), np.arange(len(window)))
        return Spot(window.document, window.number, words.code, words.first, context[words.last])


def _averaged(states: Tensor, into: Tensor, count: int) -> Tensor:
    """Return the mean of the tokens of each row, summed in float64. (tokens, dim) -> (count, dim)"""
    sums = torch.zeros(count, states.shape[1], dtype=torch.float64).index_add_(0, into, states.double())
    sizes = torch.bincount(into, minlength=count)
    return (sums / sizes[:, None]).to(torch.float32)
