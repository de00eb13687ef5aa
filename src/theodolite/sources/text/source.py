"""The text source: documents through a tokenizer and a transformer, layer by layer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.batch import Batch, Places
from theodolite.errors import InputError
from theodolite.hashing import mix
from theodolite.pinned import sent
from theodolite.sources.corpus.labelled import labels_of
from theodolite.sources.layers import Layer, choose
from theodolite.sources.places import Spot, places, places_of
from theodolite.sources.source import Sink
from theodolite.sources.text.anatomy import Anatomy
from theodolite.sources.text.attending import Spans, attending_within, quick_attention
from theodolite.sources.text.cleaning import cleaned
from theodolite.sources.text.end_to_end import agrees
from theodolite.sources.text.flat import Flat
from theodolite.sources.text.packing import Packing
from theodolite.sources.text.padding import PaddingMask
from theodolite.sources.text.vocabulary import vocabulary
from theodolite.sources.text.windows import (
    Window,
    bucket_bounds,
    buckets,
    cut,
    cut_flat,
    encodable,
    even_bounds,
    first_position,
    flattened,
    shifted,
)
from theodolite.sources.text.words import Words, words_of
from theodolite.sources.text.wrapping import UNWRAPPED, wrap_of

WRAPPING = ("mbart", "plbart")
"""Models whose decoder begins with the token that ends the window: it names the language."""


@dataclass(frozen=True, slots=True)
class Line:
    """How windows lie end to end."""

    position: Tensor  # (1, tokens) int64, counted in each window
    starts: Tensor  # (windows + 1,) int32


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Windows padded on the right to one length or laid end to end, and which of their positions count."""

    ids: Tensor  # (windows, tokens) int64, or (1, tokens)
    mask: Tensor  # (windows, tokens) int64, or (1, tokens)
    rows: Tensor  # (tokens that count,) int64, places in the flattened (windows x tokens)
    places: Places
    pooling: Tensor | None  # (tokens that count,) int64, the row each token is averaged into; None: its own
    names: NDArray[np.int64]  # (windows, 2), document and number of each
    decoder: TextBatch | None = None  # the same windows as the decoder is fed them, where there is one
    line: Line | None = None  # None: they are padded

    @property
    def positions(self) -> int:
        """How many rows each layer will give."""
        return len(self.places)

    @property
    def windows(self) -> tuple[tuple[int, int], ...]:
        """The document and the number of each window."""
        return tuple((document, number) for document, number in self.names.tolist())


class TextSource:
    """A transformer over text, its states counted by vocabulary id, by surface or by word.

    `wrap` puts BOS and EOS around every window where the tokenizer does not; `clean_words`, for words alone, has
    the model read the words of each document without all else. `resident` leaves the states on the model's device.
    `end_to_end` lays windows so, without padding, where the model allows it.
    """

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
        wrap: bool = False,
        clean_words: bool = False,
        resident: bool = False,
        end_to_end: bool = False,
    ) -> None:
        check_cleaning(kind, clean_words=clean_words)
        self.anatomy = Anatomy.of(model)
        self.tokenizer = tokenizer
        self.layers: tuple[Layer, ...] = choose(self.anatomy.layers, layers)
        self._start = _decoder_start(model.config)
        self.units, codes = vocabulary(tokenizer, kind, start=self._start)
        self.max_tokens = max_tokens
        self.batch_tokens = batch_tokens
        self.drop_special = drop_special
        self.wrap = wrap_of(tokenizer) if wrap else UNWRAPPED
        self.clean_words = clean_words
        self.resident = resident
        self.corpus_key = corpus_key
        self._codes = np.asarray(codes, dtype=np.int64)
        self.device = next(model.parameters()).device
        # RoBERTa finds positions by the pad id, so padding with another one would move every state.
        configured = getattr(model.config, "pad_token_id", None)
        self._pad = next((i for i in (configured, tokenizer.pad_token_id) if i is not None), 0)
        self._wraps = model.config.model_type in WRAPPING
        self._least = int(getattr(model.config, "downsampling_rate", 1))  # CANINE takes no fewer characters
        self._begin = first_position(model.config)
        one_stack = self._start is None and self.units.kind != "word"
        self.end_to_end = end_to_end and one_stack and agrees(self.anatomy, self._begin, max_tokens)

    def prepare(
        self, documents: Sequence[tuple[int, str]], only: Collection[tuple[int, int]] | None = None
    ) -> list[TextBatch]:
        """Tokenize, cut into windows, sort into buckets of like length.

        `only` leaves out all windows but these, each a document's number and its own in it.
        """
        flat = self._flat(documents, only)
        if flat is not None and self.end_to_end:
            bounds = even_bounds(flat.lengths, self.batch_tokens) if len(flat) else []
            return [batch for part in flat.parts(bounds) if (batch := self._laid(part)).positions]
        if flat is not None:
            bounds = bucket_bounds(flat.lengths, self.batch_tokens, pads=self.anatomy.pads)
            return [batch for part in flat.parts(bounds) if (batch := self._packed(part)).positions]
        windows, texts = self.windows(documents)
        windows = [window for window in windows if len(window) >= self._least]
        if only is not None:
            windows = [window for window in windows if (window.document, window.number) in only]
        groups = buckets(windows, self.batch_tokens, pads=self.anatomy.pads)
        labels = self._labels(documents)
        # Words get their codes in the order of the batches, which is the order in which they are folded.
        return [batch for group in groups if (batch := self._batch(group, texts, labels)).positions]

    def _flat(self, documents: Sequence[tuple[int, str]], only: Collection[tuple[int, int]] | None) -> Flat | None:
        """Return the windows by rising length, as arrays; None where they must be looked at one by one."""
        if not all((self.units.kind != "word", self._start is None)):
            return None
        flat = cut_flat(documents, self.tokenizer, self.max_tokens, self.wrap)
        if flat is None:
            return None
        order = np.argsort(flat.lengths, kind="stable")
        order = order[flat.lengths[order] >= self._least]
        if only is not None:
            names = flat.names()
            order = np.array([window for window in order.tolist() if names[window] in only], dtype=np.int64)
        return flat.taken(order)

    def windows(self, documents: Sequence[tuple[int, str]]) -> tuple[list[Window], dict[int, str]]:
        """Return the windows of documents and, by document, the text in which their words stand (else nothing)."""
        by_word = self.units.kind == "word"
        texts = {number: encodable(text) for number, text in documents} if by_word else {}
        if self.clean_words:  # a document without a word is left out: special tokens alone would say nothing of it
            texts = {number: words for number, text in texts.items() if (words := cleaned(text))}
        read = list(texts.items()) if by_word else documents
        return cut(read, self.tokenizer, self.max_tokens, words=by_word, wrap=self.wrap), texts

    def narrowed(self, layers: Sequence[Layer]) -> TextSource:
        """Return a source of some of these layers, with the same model and units."""
        other = copy(self)
        other.layers = tuple(layers)
        return other

    def units_of(self, prepared: TextBatch) -> list[int]:
        """Return the codes of the units in a batch."""
        return [int(code) for code in torch.unique(prepared.places.unit)]

    def run(self, prepared: TextBatch, sink: Sink) -> None:
        """One forward pass; each layer's counted rows go to the sink as they leave the block."""
        of_layer = {layer.index: layer for layer in self.layers}
        sides = {"decoder": prepared.decoder} if prepared.decoder is not None else {}
        rows = {side.rows: sent(side.rows, self.device) for side in (prepared, *sides.values())}

        def take(index: int, states: Tensor) -> None:
            layer = of_layer[index]
            if not layer.units:
                sink(self._without_units(index, states, prepared))
                return
            side = sides.get(layer.stack, prepared)
            if self.resident and side.pooling is None:
                sink(Batch(index, states.flatten(0, 1), side.places, rows[side.rows]))
                return
            chosen = states.flatten(0, 1).index_select(0, rows[side.rows]).cpu()
            if side.pooling is not None:
                chosen = _averaged(chosen, side.pooling, side.positions)
            sink(Batch(index, chosen, side.places))

        with self._attending(prepared), self.anatomy.watched(take, list(of_layer)) as forward:
            forward(**{name: self._given(name, tensor) for name, tensor in _inputs(prepared).items()})

    def _attending(self, prepared: TextBatch) -> AbstractContextManager[object]:
        """Choose how the model attends: within windows that lie end to end, or in what is quick for these."""
        if prepared.line is None:
            return quick_attention(self.device, prepared.ids.shape[1])
        longest = int(prepared.line.starts.diff().max())
        return attending_within(self.anatomy.model, Spans(sent(prepared.line.starts, self.device), longest))

    def _given(self, name: str, tensor: Tensor) -> Tensor:
        """Return what the model is given, where it runs."""
        there = sent(tensor, self.device)
        return PaddingMask.of(there, tensor) if there.is_cuda and name.endswith("attention_mask") else there

    def _without_units(self, index: int, states: Tensor, prepared: TextBatch) -> Batch:
        """Return the rows of states that stand for several positions each; windows are of one length here."""
        count, width = states.shape[:2]
        position = np.tile(np.arange(width), count)
        document, window = prepared.names.repeat(width, axis=0).T
        where = places(
            self.corpus_key,
            document=document,
            window=window,
            position=position,
            unit=np.zeros(count * width, dtype=np.int64),
            context=mix(document, window, position),
        )
        return Batch(index, states.flatten(0, 1).cpu(), where)

    def _labels(self, documents: Sequence[tuple[int, str]]) -> Labels | None:
        """Return what the decoder is fed with documents that carry a label: the label's first window."""
        texts = labels_of(list(documents))
        if not texts:
            return None
        windows, spelled = self.windows(list(texts.items()))
        return Labels({window.document: window for window in windows if window.number == 0}, spelled)

    def _batch(self, windows: Sequence[Window], texts: dict[int, str], labels: Labels | None) -> TextBatch:
        """Make a batch of windows, with the decoder's side of it where the model has one."""
        made = self._side(windows, texts)
        if self._start is None:
            return made
        read = windows if labels is None else [labels.of(window) for window in windows]
        fed = [shifted(window, self._begins(window)) for window in read]
        return replace(made, decoder=self._side(fed, texts if labels is None else labels.texts, heard=windows))

    def _begins(self, window: Window) -> int:
        assert self._start is not None
        return int(window.ids[-1]) if self._wraps and len(window) and window.special[-1] else self._start

    def _side(
        self, windows: Sequence[Window], texts: dict[int, str], heard: Sequence[Window] | None = None
    ) -> TextBatch:
        """Make one side of a batch; `heard` are the windows that the encoder reads, where these are fed."""
        if self.units.kind != "word" and heard is None and all(len(window.ids) for window in windows):
            return self._packed(flattened(windows))
        longest = max(map(len, windows))
        ids = np.full((len(windows), longest), self._pad, dtype=np.int64)
        mask = np.zeros((len(windows), longest), dtype=np.int64)
        spots, rows, pooling, taken = [], [], [], 0
        for number, window in enumerate(windows):
            ids[number, : len(window)] = window.ids
            mask[number, : len(window)] = 1
            counted = np.flatnonzero(~window.special) if self.drop_special else np.arange(len(window))
            words = self._words(window, counted, texts)
            spots.append(self._spot(window, words, None if heard is None else heard[number]))
            rows.append(number * longest + counted)
            pooling.append(taken + words.of_token)
            taken += len(words.code)
        where = places_of(spots, self.corpus_key)
        order = where.by_unit()
        tensors = torch.from_numpy(ids), torch.from_numpy(mask)
        row, of = torch.from_numpy(np.concatenate(rows)), np.array([(one.document, one.number) for one in windows])
        if len(row) == taken:  # every row is one token: sorting the rows is sorting the tokens
            return TextBatch(*tensors, row[order], where.take(order), None, of)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order))
        pool = rank[torch.from_numpy(np.concatenate(pooling))]
        return TextBatch(*tensors, row, where.take(order), pool, of)

    def _packing(self) -> Packing:
        causal = self.anatomy.causal
        return Packing(self._codes, self._pad, self.corpus_key, causal, drop_special=self.drop_special)

    def _packed(self, windows: Flat) -> TextBatch:
        """Make a batch in which every row is one token."""
        packed = self._packing().padded(windows)
        order = packed.places.by_unit()
        rows = torch.from_numpy(packed.rows[order.numpy()])
        ids, mask = torch.from_numpy(packed.ids), torch.from_numpy(packed.mask)
        return TextBatch(ids, mask, rows, packed.places.take(order), None, windows.named)

    def _laid(self, windows: Flat) -> TextBatch:
        """Make a batch in which every row is one token, and no token padding."""
        laid = self._packing().end_to_end(windows)
        order = laid.places.by_unit()
        rows = torch.from_numpy(laid.rows[order.numpy()])
        line = Line(torch.from_numpy(laid.position + self._begin), torch.from_numpy(laid.starts))
        ids, where = torch.from_numpy(laid.ids), laid.places.take(order)
        return TextBatch(ids, torch.ones_like(ids), rows, where, None, windows.named, line=line)

    def _words(self, window: Window, counted: Any, texts: dict[int, str]) -> Words:
        if self.units.kind == "word":
            return words_of(window, counted, texts[window.document], self.units, self._codes)
        return Words(self._codes[window.ids[counted]], np.arange(len(counted)), counted, counted)

    def _spot(self, window: Window, words: Words, heard: Window | None) -> Spot:
        """Say where a window's rows stand, and what the model saw before it gave them out.

        A decoder sees all that the encoder `heard`, and what it was fed itself up to there.
        """
        context = _left_contexts(window)
        if heard is not None:
            context = mix(np.broadcast_to(_left_contexts(heard)[-1:], context.shape), context)
        elif not self.anatomy.causal:
            context = mix(np.broadcast_to(context[-1:], context.shape), np.arange(len(window)))
        return Spot(window.document, window.number, words.code, words.first, context[words.last])


def _inputs(prepared: TextBatch) -> dict[str, Tensor]:
    """Return what the model is called with."""
    if prepared.line is not None:
        return {"input_ids": prepared.ids, "position_ids": prepared.line.position}
    inputs = {"input_ids": prepared.ids, "attention_mask": prepared.mask}
    if prepared.decoder is not None:
        inputs |= {"decoder_input_ids": prepared.decoder.ids, "decoder_attention_mask": prepared.decoder.mask}
    return inputs


class Labels(NamedTuple):
    """What a decoder is fed where documents carry labels, by document."""

    windows: dict[int, Window]
    texts: dict[int, str]

    def of(self, window: Window) -> Window:
        """Return the label's window for a document's first one, and nothing for its others."""
        label = self.windows.get(window.document) if window.number == 0 else None
        nothing = np.zeros(0, dtype=np.int64)
        empty = Window(window.document, window.number, nothing, nothing.astype(np.bool_))
        if window.words is not None:
            empty = replace(empty, words=nothing, spans=nothing.reshape(0, 2))
        return label or empty


def _left_contexts(window: Window) -> NDArray[np.uint64]:
    """Return a hash of all ids up to each position; sums wrap around, as hashes may. (tokens,)"""
    return np.cumsum(mix(window.ids, np.arange(len(window))))


def _decoder_start(config: Any) -> int | None:
    """Return the id with which a decoder that has an encoder begins; None for a model of one stack."""
    if not getattr(config, "is_encoder_decoder", False):
        return None
    known = (getattr(config, name, None) for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"))
    return next((int(start) for start in known if start is not None), 0)


def check_cleaning(kind: str, *, clean_words: bool) -> None:
    """Refuse cleaned words where vectors are not counted by word."""
    if clean_words and kind != "word":
        raise InputError(f"--clean-words wants --units word, since it leaves only words; --units {kind} came.")


def _averaged(states: Tensor, into: Tensor, count: int) -> Tensor:
    """Return the mean of the tokens of each row, summed in float64. (tokens, dim) -> (count, dim)"""
    sums = torch.zeros(count, states.shape[1], dtype=torch.float64).index_add_(0, into, states.double())
    sizes = torch.bincount(into, minlength=count)
    return (sums / sizes[:, None]).to(torch.float32)
