"""The text source: documents -> windows -> batches -> states."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from theodolite.batch import Batch
from theodolite.corpora.fields import FieldChoice
from theodolite.corpora.text_readers import Labelled, labels_of, value_of
from theodolite.devices import to_device
from theodolite.errors import InputError
from theodolite.hashing import mix
from theodolite.models import quirks
from theodolite.models.attention_calls import AttentionCall
from theodolite.models.attention_sums import Span, sum_attention
from theodolite.models.device_map import input_device
from theodolite.models.hooks import OnStates
from theodolite.models.layers import RESIDUAL, Layer
from theodolite.models.streams import choose_stream_layers
from theodolite.models.text_anatomy import Anatomy
from theodolite.sources.rows import locate_rows
from theodolite.sources.source import Sink, each_batch
from theodolite.sources.text.batches import BatchBuilder, DecoderLabels, TextBatch
from theodolite.sources.text.chat import cut_conversations
from theodolite.sources.text.encoding import UNWRAPPED, find_wrap
from theodolite.sources.text.packed_attention import (
    PaddingMask,
    WindowSpans,
    can_pack,
    prefer_fast_kernel,
    use_packed_attention,
)
from theodolite.sources.text.units import clean_text, find_case_folding, list_vocabulary
from theodolite.sources.text.windows import (
    LONG_WINDOW,
    Window,
    WindowArrays,
    cut_window_arrays,
    cut_windows,
    group_by_length,
    packed_bounds,
    padded_bounds,
    repair_surrogates,
    stack_windows,
)


class TextSource:
    """A transformer over text, with states grouped by vocabulary id, by surface or by word.

    `wrap` puts BOS and EOS around every window if the tokenizer does not. `clean_words`, only for words, removes
    everything but the words from each document before the model reads it. `chat` reads conversations through the
    chat template of the tokenizer. `resident` leaves the states on the device of the model. `end_to_end` packs
    windows into one sequence without padding, if the model supports it. With `other_kinds`, every batch is also
    grouped by these kinds of units, from the same states: `others` are the same source by each of them. `streams`
    are what is read of each block, the residual stream and others; with `attention`, its logits are measured too.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        corpus_key: int = 0,
        kind: str = "id",
        layers: str | Sequence[int | str] | None = None,
        max_tokens: int = 512,
        batch_tokens: int = 4096,
        drop_special: bool = False,
        wrap: bool = False,
        clean_words: bool = False,
        chat: bool = False,
        resident: bool = False,
        end_to_end: bool = False,
        other_kinds: Sequence[str] = (),
        streams: Sequence[str] = (RESIDUAL,),
        attention: bool = False,
    ) -> None:
        check_cleaning((kind, *other_kinds), clean_words=clean_words)
        self.anatomy = Anatomy.of(model)
        self.tokenizer = tokenizer
        self.layers: tuple[Layer, ...]
        self.layers, self._streams = choose_stream_layers(
            self.anatomy.layers, layers, streams, self.anatomy.find_streams, attention=attention
        )
        self._decoder_start = quirks.decoder_start_id(model.config)
        self.units, codes = list_vocabulary(tokenizer, kind, start=self._decoder_start)
        self.max_tokens = max_tokens
        self.batch_tokens = batch_tokens
        self.drop_special = drop_special
        self.wrap = find_wrap(tokenizer) if wrap else UNWRAPPED
        self.clean_words = clean_words
        self.chat = chat
        self.resident = resident
        self.corpus_key = corpus_key
        self.by: FieldChoice | None = None  # how documents are grouped by a field of the corpus
        self._codes = np.asarray(codes, dtype=np.int64)
        self.device = input_device(model)
        self.devices = dict(enumerate(self.anatomy.devices))  # where the states of each layer appear
        if self._streams is not None:
            self.devices |= {index: block.device for index, (block, _, _) in self._streams.of_layer.items()}
        self._pad = quirks.padding_id(model.config, tokenizer)
        self.ids, self.table_rows = len(codes), _table_rows(model)
        self._language_first = quirks.starts_with_language(model.config)
        self._shortest = quirks.shortest_window(model.config)
        # Padding would change the states of longer windows.
        limits = LONG_WINDOW, quirks.independent_length(model.config)
        self._longest_padded = min(limits) if self.anatomy.pads else 0
        self._first_position = quirks.first_position_id(model.config)
        self._finds_words = "word" in (kind, *other_kinds)
        self.end_to_end = (
            end_to_end and self._uses_arrays() and can_pack(self.anatomy, self._first_position, max_tokens)
        )
        self.others = tuple(self._by(other) for other in other_kinds)

    def _by(self, kind: str) -> TextSource:
        """Return a source by another kind of unit, with the same model."""
        other = copy(self)
        other.units, codes = list_vocabulary(self.tokenizer, kind, start=self._decoder_start)
        other._codes, other._finds_words, other.others = np.asarray(codes, dtype=np.int64), kind == "word", ()
        other.layers = tuple(replace(layer, attention_heads=0) for layer in self.layers)  # measured once
        return other

    def narrowed(self, layers: Sequence[Layer]) -> TextSource:
        """Return a source with only these layers, with the same model and units."""
        other = copy(self)
        other.layers = tuple(layers)
        other.others = tuple(each.narrowed(layers) for each in self.others)
        return other

    # Documents -> windows

    def _uses_arrays(self) -> bool:
        """Return whether windows can be built as arrays: without words and without a decoder input."""
        return not self._finds_words and self._decoder_start is None

    def windows(self, documents: Sequence[tuple[int, str]]) -> tuple[list[Window], dict[int, str]]:
        """Return the windows of documents and, for words, the text of each document, by its number."""
        by_word = self._finds_words
        if self.chat:
            return cut_conversations(documents, self.tokenizer, self.max_tokens, words=by_word)
        texts = {number: repair_surrogates(text) for number, text in documents} if by_word else {}
        if self.clean_words:  # a document without words is skipped: it would consist of special tokens only
            texts = {number: words for number, text in texts.items() if (words := clean_text(text))}
        read = list(texts.items()) if by_word else documents
        return cut_windows(read, self.tokenizer, self.max_tokens, words=by_word, wrap=self.wrap), texts

    def _window_arrays(
        self, documents: Sequence[tuple[int, str]], only: Collection[tuple[int, int]] | None
    ) -> WindowArrays | None:
        """Return the windows as arrays, sorted by length; None if they must be built one by one."""
        if not self._uses_arrays():
            return None
        if self.chat:
            conversations = self.windows(documents)[0]
            windows = stack_windows(conversations) if conversations else None
        else:
            windows = cut_window_arrays(documents, self.tokenizer, self.max_tokens, self.wrap)
        if windows is None:
            return None
        order = np.argsort(windows.lengths, kind="stable")
        order = order[windows.lengths[order] >= self._shortest]
        if only is not None:
            names = windows.names()
            order = np.array([window for window in order.tolist() if names[window] in only], dtype=np.int64)
        return windows.take(order)

    def _labels(self, documents: Sequence[tuple[int, str]]) -> DecoderLabels | None:
        """Return the inputs of the decoder for documents with labels: the first window of each label."""
        texts = labels_of(list(documents))
        if not texts:
            return None
        windows, label_texts = self.windows(list(texts.items()))
        return DecoderLabels({window.document: window for window in windows if window.number == 0}, label_texts)

    # Windows -> batches

    def prepare(
        self, documents: Sequence[tuple[int, str]], only: Collection[tuple[int, int]] | None = None
    ) -> list[TextBatch]:
        """Tokenize, cut into windows and group windows of similar length into batches.

        `only` keeps only these windows, each given by the number of its document and its own number.
        """
        by_field = self._groups(documents)
        builders = [each.batch_builder(by_field) for each in (self, *self.others)]
        arrays = self._window_arrays(documents, only)
        if arrays is not None and self.end_to_end:
            bounds = packed_bounds(arrays.lengths, self.batch_tokens) if len(arrays) else []
            batches = [_join(builder.pack(part) for builder in builders) for part in arrays.split(bounds)]
        elif arrays is not None:
            bounds = padded_bounds(arrays.lengths, self.batch_tokens, self._longest_padded)
            batches = [_join(builder.pad(part) for builder in builders) for part in arrays.split(bounds)]
        else:
            windows, texts = self.windows(documents)
            windows = [window for window in windows if len(window) >= self._shortest]
            if only is not None:
                windows = [window for window in windows if (window.document, window.number) in only]
            groups = group_by_length(windows, self.batch_tokens, self._longest_padded)
            labels = self._labels(documents)
            # Words get their codes in the order of the batches, which is the order in which they are folded.
            batches = [_join(builder.build(group, texts, labels) for builder in builders) for group in groups]
        if self.table_rows is not None and self.ids > self.table_rows:
            for batch in batches:
                self._check_ids(batch, self.table_rows)
        return [batch for batch in batches if batch.positions]

    def _check_ids(self, batch: TextBatch, rows: int) -> None:
        """Reject a batch with a token that has no row in the embedding table."""
        highest = max(
            int(side.ids.max()) for side in (batch, batch.decoder) if side is not None and side.ids.numel()
        )
        if highest >= rows:
            raise InputError(
                f"The tokenizer gives {self.tokenizer.convert_ids_to_tokens(highest)!r} the id {highest:,}, but "
                f"the embedding table of the model has {rows:,} rows. Use the tokenizer of this model, or add the "
                "missing rows with resize_token_embeddings."
            )

    def _groups(self, documents: Sequence[tuple[int, str]]) -> dict[int, int] | None:
        """Return the groups of documents by the field of the corpus; None for the texts of a pilot."""
        by = self.by
        if by is None or not all(isinstance(text, Labelled) for _, text in documents):
            return None
        return {number: by.code(value_of(text)) for number, text in documents}

    def batch_builder(self, groups: Mapping[int, int] | None = None) -> BatchBuilder:
        """Return the builder of batches for this model, tokenizer and corpus."""
        return BatchBuilder(
            self.units,
            self._codes,
            self._pad,
            self.corpus_key,
            self.anatomy.causal,
            drop_special=self.drop_special,
            first_position=self._first_position,
            decoder_start=self._decoder_start,
            language_first=self._language_first,
            read_word=find_case_folding(self.tokenizer) if self.units.kind == "word" else None,
            groups=groups,
        )

    def units_of(self, prepared: TextBatch) -> list[int]:
        """Return the codes of the units in a batch."""
        return [int(code) for code in torch.unique(prepared.places.unit)]

    # Batches -> states

    def run(self, prepared: TextBatch, sink: Sink) -> None:
        """Run one forward pass; the rows of each layer that count go to the sink when its block returns."""
        layers = {layer.index: layer for layer in self.layers}
        kinds: tuple[TextBatch, ...] = each_batch(prepared)
        rows: dict[tuple[Tensor, torch.device], Tensor] = {}

        def rows_on(side: TextBatch, device: torch.device) -> Tensor:
            if (side.rows, device) not in rows:
                rows[side.rows, device] = to_device(side.rows, device)
            return rows[side.rows, device]

        measured: dict[int, dict[str, Tensor]] = {}  # the attention of blocks whose output is not reached yet

        def on_states(index: int, states: Tensor) -> None:
            layer = layers[index]
            for kind, batch in enumerate(kinds):
                attention = measured.pop(index, None) if kind == 0 else None
                if not layer.units:
                    sink(replace(self._without_units(index, states, batch), kind=kind))
                    continue
                side = batch.decoder if layer.stack == "decoder" and batch.decoder is not None else batch
                if self.resident and side.pooling is None:
                    flat = states.flatten(0, 1)
                    sink(Batch(index, flat, side.places, rows_on(side, states.device), kind, attention))
                    continue
                chosen = states.flatten(0, 1).index_select(0, rows_on(side, states.device)).cpu()
                if side.pooling is not None:
                    chosen = _average_rows(chosen, side.pooling, side.positions)
                sink(Batch(index, chosen, side.places, kind=kind, attention=attention))

        def measure(layer: Layer, call: AttentionCall) -> None:
            measured[layer.index] = sum_attention(call, *_find_spans(prepared, layer.stack))

        residual, of_streams = self._split_layers()
        attention = {layer.index: partial(measure, layer) for layer in self.layers if layer.attention_heads}
        last = max(layer.index if layer.block is None else layer.block for layer in self.layers)
        with (
            self._attention(prepared),
            nullcontext() if self._streams is None else self._streams.capture(of_streams, on_states, attention),
            self.anatomy.hook_layers(on_states, residual, last) as forward,
        ):
            forward(**{name: self._model_input(name, tensor) for name, tensor in _model_inputs(prepared).items()})

    def _split_layers(self) -> tuple[list[int], list[int]]:
        """Return the numbers of the layers of the residual stream, and of those of all other streams."""
        residual = [layer.index for layer in self.layers if layer.stream == RESIDUAL]
        return residual, [layer.index for layer in self.layers if layer.stream != RESIDUAL]

    @contextmanager
    def read_states(self, on_states: OnStates) -> Iterator[None]:
        """Pass the states of all layers to `on_states` in this context, in which others run the model once.

        States are (items, positions, dim), padding included.
        """
        residual, of_streams = self._split_layers()
        with (
            nullcontext() if self._streams is None else self._streams.capture(of_streams, on_states),
            self.anatomy.read_layers(on_states, residual),
        ):
            yield

    def _attention(self, prepared: TextBatch) -> AbstractContextManager[object]:
        """Choose the attention: within packed windows, or the fastest kernel for padded ones."""
        if prepared.packed is None:
            return prefer_fast_kernel(self.device, prepared.ids.shape[1])
        starts = prepared.packed.starts
        spans = WindowSpans(to_device(starts, self.device), int(starts.diff().max()))
        return use_packed_attention(self.anatomy.model, spans)

    def _model_input(self, name: str, tensor: Tensor) -> Tensor:
        """Return an input on the device of the model."""
        on_device = to_device(tensor, self.device)
        is_mask = on_device.is_cuda and name.endswith("attention_mask")
        return PaddingMask.of(on_device, tensor) if is_mask else on_device

    def _without_units(self, index: int, states: Tensor, prepared: TextBatch) -> Batch:
        """Return the states of a layer with fewer positions than tokens; its windows are not padded."""
        count, width = states.shape[:2]
        position = np.tile(np.arange(width), count)
        document, window = prepared.names.repeat(width, axis=0).T
        places = locate_rows(
            self.corpus_key,
            document=document,
            window=window,
            position=position,
            unit=np.zeros(count * width, dtype=np.int64),
            context=mix(document, window, position),
            by=None if prepared.by is None else prepared.by.repeat(width),
        )
        return Batch(index, states.flatten(0, 1).cpu(), places)


def _find_spans(prepared: TextBatch, stack: str) -> tuple[list[Span], Tensor]:
    """Return where the windows of a batch are, and which of their positions count. (items, tokens)"""
    side = prepared.decoder if stack == "decoder" and prepared.decoder is not None else prepared
    counted = torch.zeros(side.ids.shape, dtype=torch.bool)
    counted.view(-1)[side.rows] = True
    if side.packed is not None:
        return [Span(0, start, stop) for start, stop in pairwise(side.packed.starts.tolist())], counted
    return [Span(item, 0, length) for item, length in enumerate(side.mask.sum(dim=1).tolist())], counted


def _table_rows(model: Any) -> int | None:
    """Return the number of rows of the embedding table."""
    try:
        rows: int | None = getattr(model.get_input_embeddings(), "num_embeddings", None)
    except NotImplementedError:  # no table, such as CANINE, which hashes characters
        return None
    return rows


def check_cleaning(kinds: Sequence[str], *, clean_words: bool) -> None:
    """Reject cleaned words if vectors are also grouped by something else: the model would read another text."""
    if clean_words and tuple(kinds) != ("word",):
        raise InputError(f"--clean-words requires --units word (got {','.join(kinds)}).")


def _join(batches: Iterable[TextBatch]) -> TextBatch:
    """Return the batch of the first kind of unit, with those of the other kinds."""
    first, *others = batches
    return replace(first, others=tuple(others)) if others else first


def _model_inputs(prepared: TextBatch) -> dict[str, Tensor]:
    """Return the keyword arguments of the model."""
    if prepared.packed is not None:
        return {"input_ids": prepared.ids, "position_ids": prepared.packed.position}
    inputs = {"input_ids": prepared.ids, "attention_mask": prepared.mask}
    if prepared.decoder is not None:
        inputs |= {"decoder_input_ids": prepared.decoder.ids, "decoder_attention_mask": prepared.decoder.mask}
    return inputs


def _average_rows(states: Tensor, into: Tensor, count: int) -> Tensor:
    """Return the mean of the tokens of each row, summed in float64. (tokens, dim) -> (count, dim)"""
    sums = torch.zeros(count, states.shape[1], dtype=torch.float64).index_add_(0, into, states.double())
    sizes = torch.bincount(into, minlength=count)
    return (sums / sizes[:, None]).to(torch.float32)
