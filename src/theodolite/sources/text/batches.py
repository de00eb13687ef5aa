"""Batches of text: windows padded or packed into arrays, with the unit, group, key and context of every row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.batch import Places
from theodolite.hashing import mix, mix_on
from theodolite.sources.rows import WindowRows, locate_rows, locate_windows
from theodolite.sources.text.units import ReadWord, Words, group_words
from theodolite.sources.text.windows import Window, WindowArrays, shift_right, stack_windows
from theodolite.sources.units import Units

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PackedLayout:
    """Where packed windows begin, and the positions of their tokens."""

    position: Tensor  # (1, tokens) int64, counted in each window
    starts: Tensor  # (windows + 1,) int32


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Windows padded on the right to one length, or packed into one sequence, and the positions that count."""

    ids: Tensor  # (windows, tokens) int64, or (1, tokens)
    mask: Tensor  # (windows, tokens) int64, or (1, tokens)
    rows: Tensor  # (tokens that count,) int64, indices into the flattened (windows x tokens)
    places: Places
    pooling: Tensor | None  # (tokens that count,) int64, the row into which each token is averaged; None: its own
    names: Ints  # (windows, 2), document and number of each
    decoder: TextBatch | None = None  # the input of the decoder for the same windows, if there is a decoder
    packed: PackedLayout | None = None  # None: the windows are padded
    others: tuple[TextBatch, ...] = ()  # the same windows by other kinds of units
    by: Ints | None = None  # (windows,) the group of each document by a field; None: no field is given

    @property
    def positions(self) -> int:
        """The number of rows of each layer."""
        return len(self.places)

    @property
    def windows(self) -> tuple[tuple[int, int], ...]:
        """The document and the number of each window."""
        return tuple((document, number) for document, number in self.names.tolist())

    @property
    def tokens(self) -> int:
        """The number of tokens that the model reads, padding included."""
        return self.ids.numel() + (0 if self.decoder is None else self.decoder.ids.numel())

    def halves(self) -> tuple[TextBatch, ...]:
        """Return two batches of half of the windows each; none if there is one window."""
        half = len(self.names) // 2
        parts = (slice(0, half), slice(half, len(self.names)))
        return tuple(self._take(part) for part in parts) if half else ()

    def _take(self, windows: slice) -> TextBatch:
        """Return the batch of these windows, with the same padding."""
        if self.packed is None:
            width = self.ids.shape[1]
            ids, mask, packed = self.ids[windows], self.mask[windows], None
            begin, end = windows.start * width, windows.stop * width
        else:
            starts = self.packed.starts[windows.start : windows.stop + 1]
            begin, end = int(starts[0]), int(starts[-1])
            ids, mask = self.ids[:, begin:end], self.mask[:, begin:end]
            packed = PackedLayout(self.packed.position[:, begin:end], starts - begin)
        tokens = torch.nonzero((self.rows >= begin) & (self.rows < end)).squeeze(1)
        places, pooling = tokens, None
        if self.pooling is not None:  # no word is in two windows
            places, pooling = torch.unique(self.pooling[tokens], return_inverse=True)
        decoder = None if self.decoder is None else self.decoder._take(windows)
        rows = self.rows[tokens] - begin
        others = tuple(other._take(windows) for other in self.others)
        taken, by = self.places.take(places), None if self.by is None else self.by[windows]
        return TextBatch(ids, mask, rows, taken, pooling, self.names[windows], decoder, packed, others, by)


class DecoderLabels(NamedTuple):
    """The input of the decoder for documents that have labels, by document."""

    windows: dict[int, Window]
    texts: dict[int, str]

    def of(self, window: Window) -> Window:
        """Return the window of the label for the first window of a document, and an empty one for the others."""
        label = self.windows.get(window.document) if window.number == 0 else None
        nothing = np.zeros(0, dtype=np.int64)
        empty = Window(window.document, window.number, nothing, nothing.astype(np.bool_))
        if window.words is not None:
            empty = replace(empty, words=nothing, spans=nothing.reshape(0, 2))
        return label or empty


@dataclass(frozen=True, slots=True)
class BatchBuilder:
    """Builds batches from windows.

    The fast path, `pad` and `pack`, works on the arrays of many windows at once. Windows with words, and those of
    encoder-decoder models, are built one by one with `build`.
    """

    units: Units
    codes: Ints  # (vocabulary,) the unit code of each id
    pad_id: int
    corpus_key: int
    causal: bool
    drop_special: bool = False
    first_position: int = 0  # the position id of the first token of a window
    decoder_start: int | None = None  # the id that starts the input of a decoder; None without an encoder
    language_first: bool = False  # the decoder starts with the last special token of the window instead
    read_word: ReadWord | None = None  # a word as an uncased tokenizer reads it
    groups: Mapping[int, int] | None = None  # of documents by a field, by document; None: no field is given

    def groups_of(self, documents: Ints) -> Ints | None:
        """Return the group of each document by a field of the corpus. (any,) -> (any,)"""
        if self.groups is None:
            return None
        return np.array([self.groups[document] for document in documents.tolist()], dtype=np.int64)

    def pad(self, windows: WindowArrays) -> TextBatch:
        """Build a padded batch of windows that each have a token; every row is one token."""
        longest, count = int(windows.lengths.max()), len(windows)
        held = np.arange(longest) < windows.lengths[:, None]
        ids = np.full((count, longest), self.pad_id, dtype=np.int64)
        ids[held] = windows.ids
        counted, _, places = self._locate(windows)
        rows = np.flatnonzero(held)[counted]
        order = places.by_unit()
        mask = torch.from_numpy(held.astype(np.int64))
        row_order = torch.from_numpy(rows[order.numpy()])
        by = self.groups_of(windows.document)
        return TextBatch(torch.from_numpy(ids), mask, row_order, places.take(order), None, windows.named, by=by)

    def pack(self, windows: WindowArrays) -> TextBatch:
        """Build a batch without padding of windows that each have a token; every row is one token."""
        counted, position, places = self._locate(windows)
        starts = np.append(0, windows.ends).astype(np.int32)
        rows = np.arange(len(windows.ids))[counted]
        order = places.by_unit()
        layout = PackedLayout(torch.from_numpy(position[None] + self.first_position), torch.from_numpy(starts))
        ids, row_order = torch.from_numpy(windows.ids[None]), torch.from_numpy(rows[order.numpy()])
        places, by = places.take(order), self.groups_of(windows.document)
        return TextBatch(ids, torch.ones_like(ids), row_order, places, None, windows.named, packed=layout, by=by)

    def build(self, windows: Sequence[Window], texts: dict[int, str], labels: DecoderLabels | None) -> TextBatch:
        """Build a padded batch window by window, with the input of the decoder if the model has one."""
        batch = self._build_side(windows, texts)
        if self.decoder_start is None:
            return batch
        targets = windows if labels is None else [labels.of(window) for window in windows]
        inputs = [shift_right(window, self._decoder_start(window)) for window in targets]
        target_texts = texts if labels is None else labels.texts
        return replace(batch, decoder=self._build_side(inputs, target_texts, encoder_windows=windows))

    def _decoder_start(self, window: Window) -> int:
        assert self.decoder_start is not None
        if self.language_first and len(window) and window.special[-1]:
            return int(window.ids[-1])
        return self.decoder_start

    def _build_side(
        self, windows: Sequence[Window], texts: dict[int, str], encoder_windows: Sequence[Window] | None = None
    ) -> TextBatch:
        """Build the input of the encoder or, with `encoder_windows`, of the decoder."""
        by_word = self.units.kind == "word"
        if not by_word and encoder_windows is None and all(len(window.ids) for window in windows):
            return self.pad(stack_windows(windows))
        longest = max(map(len, windows))
        ids = np.full((len(windows), longest), self.pad_id, dtype=np.int64)
        mask = np.zeros((len(windows), longest), dtype=np.int64)
        located, rows, pooling, count = [], [], [], 0
        for number, window in enumerate(windows):
            ids[number, : len(window)] = window.ids
            mask[number, : len(window)] = 1
            counted = np.flatnonzero(~window.special) if self.drop_special else np.arange(len(window))
            words = self._words(window, counted, texts)
            encoder_window = None if encoder_windows is None else encoder_windows[number]
            context = self._window_contexts(window, encoder_window)[words.last]
            by = None if self.groups is None else self.groups[window.document]
            located.append(WindowRows(window.document, window.number, words.code, words.first, context, by))
            rows.append(number * longest + counted)
            pooling.append(count + words.of_token)
            count += len(words.code)
        places = locate_windows(located, self.corpus_key, self.units)
        order = places.by_unit()
        tensors = torch.from_numpy(ids), torch.from_numpy(mask)
        row = torch.from_numpy(np.concatenate(rows))
        names = np.array([(window.document, window.number) for window in windows])
        groups = self.groups_of(names[:, 0])
        if len(row) == count:  # every row is one token: sorting the rows is sorting the tokens
            return TextBatch(*tensors, row[order], places.take(order), None, names, by=groups)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order))
        pool = rank[torch.from_numpy(np.concatenate(pooling))]
        return TextBatch(*tensors, row, places.take(order), pool, names, by=groups)

    def _words(self, window: Window, counted: Ints, texts: dict[int, str]) -> Words:
        if self.units.kind == "word":
            return group_words(window, counted, texts[window.document], self.units, self.codes, self.read_word)
        return Words(self.codes[window.ids[counted]], np.arange(len(counted)), counted, counted)

    def _window_contexts(self, window: Window, encoder_window: Window | None) -> NDArray[np.uint64]:
        """Return a hash of the input on which the state of each position depends. (tokens,)

        A decoder depends on the complete input of the encoder and on its own input up to the position.
        """
        context = _hash_left_context(window)
        if encoder_window is not None:
            return mix(np.broadcast_to(_hash_left_context(encoder_window)[-1:], context.shape), context)
        if not self.causal:
            return mix(np.broadcast_to(context[-1:], context.shape), np.arange(len(window)))
        return context

    def _locate(self, windows: WindowArrays) -> tuple[NDArray[np.bool_] | slice, Ints, Places]:
        """Return which tokens count, the position of every token, and the places of the tokens that count."""
        ids, of = windows.ids, np.repeat(np.arange(len(windows)), windows.lengths)
        position = np.arange(len(ids)) - (windows.ends - windows.lengths)[of]
        context = self._contexts(ids, position, windows.lengths, of)
        counted = ~windows.special if self.drop_special else slice(None)
        places = locate_rows(
            self.corpus_key,
            document=windows.document,
            window=windows.number,
            position=position[counted],
            unit=self.codes[ids[counted]],
            context=context[counted],
            of=of[counted],
            by=self.groups_of(windows.document),
        )
        return counted, position, places

    def _contexts(self, ids: Ints, position: Ints, lengths: Ints, of: Ints) -> NDArray[np.uint64]:
        """Return what `_window_contexts` does for the tokens of many windows. (tokens,)

        Sums of hashes wrap around, so that the sum of one window is a difference of cumulative sums.
        """
        sums = np.cumsum(mix(ids, position))
        complete = sums[np.cumsum(lengths) - 1]
        before = np.append(np.uint64(0), complete[:-1])
        if self.causal:
            return sums - before[of]
        return mix_on(mix(complete - before)[of], position)


def _hash_left_context(window: Window) -> NDArray[np.uint64]:
    """Return a hash of all ids up to each position; sums wrap around, as hashes may. (tokens,)"""
    return np.cumsum(mix(window.ids, np.arange(len(window))))
