"""Sentences through a text model: the states of every token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.batch import Batch
from theodolite.errors import InputError
from theodolite.models.layers import Layer
from theodolite.sources.text.batches import TextBatch
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.windows import Window, choose_window_length


@dataclass(frozen=True, slots=True)
class TokenStates:
    """The states of the tokens of one batch at one layer. Sentences are complete; their order is arbitrary."""

    layer: int
    states: Tensor  # (tokens, dim), in the dtype of the model
    sentence: Tensor  # (tokens,) int64
    position: Tensor  # (tokens,) int64, 0 at the first token, special or not
    special: Tensor  # (tokens,) bool


@dataclass(frozen=True, slots=True)
class EncodedSentence:
    """The token ids of one sentence as one stack of the model (encoder or decoder) reads it."""

    ids: NDArray[np.int64]  # (tokens,)
    special: NDArray[np.bool_]  # (tokens,)


class SentenceReader:
    """Runs sentences through a model, in batches padded on the right and masked.

    The tokenizer adds its usual special tokens. The decoder of an encoder-decoder model is fed the same sentence,
    shifted by one position.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        layers: str | Sequence[int] | None = None,
        batch_tokens: int = 4096,
        truncate: bool = False,
    ) -> None:
        length = choose_window_length(model.config, tokenizer, None)
        self.source = TextSource(model, tokenizer, layers=layers, max_tokens=length, batch_tokens=batch_tokens)
        self.truncate = truncate

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers whose states are read."""
        return self.source.layers

    @property
    def causal(self) -> bool:
        """Whether a position attends only to itself and the positions before it."""
        return self.source.anatomy.causal

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the model."""
        return self.source.tokenizer

    def with_all_layers(self) -> SentenceReader:
        """Return a reader of all layers of the model."""
        other = copy(self)
        other.source = self.source.narrowed(self.source.anatomy.layers)
        return other

    def check(self, sentences: Sequence[str]) -> None:
        """Reject sentences that are empty or, without `truncate`, longer than one window."""
        self._windows(sentences)

    def read(
        self, sentences: Sequence[str], take: Callable[[TokenStates], None]
    ) -> list[dict[str, EncodedSentence]]:
        """Pass the states of all sentences to `take`, one layer of a batch at a time; return the token ids.

        The result has one dict per sentence: the ids by stack ("" if the model has a single stack).
        """
        windows = self._windows(sentences)
        encoded: list[dict[str, EncodedSentence]] = [{} for _ in sentences]
        for batch in self.source.prepare(list(enumerate(sentences)), only={(n, 0) for n in range(len(sentences))}):
            for stack, side in self._batch_by_stack(batch).items():
                for row, (document, _) in enumerate(batch.windows):
                    encoded[document][stack] = self._encode(side, row, windows[document], stack)
            self._run(batch, encoded, take)
        return encoded

    def _windows(self, sentences: Sequence[str]) -> dict[int, Window]:
        """Return the first window of every sentence; reject sentences that are empty or longer than one window."""
        for number, sentence in enumerate(sentences, 1):
            if not isinstance(sentence, str) or not sentence.strip():
                raise InputError(f"Sentence {number} is empty; expected at least one word.")
        windows: dict[int, Window] = {}
        for window in self.source.windows(list(enumerate(sentences)))[0]:
            if window.number and not self.truncate:
                raise InputError(
                    f"Sentence {window.document + 1} ({shorten(sentences[window.document])}) is longer than the "
                    f"{self.source.max_tokens} tokens of one window; split it into shorter sentences."
                )
            windows.setdefault(window.document, window)
        for number, sentence in enumerate(sentences):
            if number not in windows or bool(windows[number].special.all()):
                raise InputError(f"Sentence {number + 1} ({shorten(sentence)}) has no token in this vocabulary.")
        return windows

    def _batch_by_stack(self, batch: TextBatch) -> dict[str, TextBatch]:
        stacks = {layer.stack for layer in self.layers}
        return {
            stack: batch.decoder if stack == "decoder" and batch.decoder is not None else batch for stack in stacks
        }

    def _encode(self, side: TextBatch, row: int, window: Window, stack: str) -> EncodedSentence:
        ids = side.ids[row][side.mask[row].bool()].numpy()
        shifted = stack == "decoder" and not np.array_equal(ids, window.ids)
        return EncodedSentence(ids, np.append(True, window.special[:-1]) if shifted else window.special)

    def _run(
        self, batch: TextBatch, encoded: list[dict[str, EncodedSentence]], take: Callable[[TokenStates], None]
    ) -> None:
        documents = torch.tensor([document for document, _ in batch.windows])
        layer_by_index = {layer.index: layer for layer in self.layers}

        def sink(result: Batch) -> None:
            layer = layer_by_index[result.layer]
            side = self._batch_by_stack(batch)[layer.stack]
            if not layer.units:  # one row covers several characters; all windows have the same length
                width = result.states.shape[0] // len(documents)
                row = torch.arange(len(documents)).repeat_interleave(width)
                position, special = torch.arange(width).repeat(len(documents)), torch.zeros(len(row)).bool()
            else:
                width = side.ids.shape[1]
                row, position = side.rows // width, side.rows % width
                marks = torch.zeros(len(documents), width, dtype=torch.bool)
                for at, (document, _) in enumerate(batch.windows):
                    known = torch.from_numpy(encoded[document][layer.stack].special)
                    marks[at, : len(known)] = known
                special = marks[row, position]
            take(TokenStates(result.layer, result.states, documents[row], position, special))

        self.source.run(batch, sink)


def shorten(sentence: str, limit: int = 40) -> str:
    """Return a sentence in quotes, cut to a number of characters."""
    return repr(sentence if len(sentence) <= limit else sentence[: limit - 1] + "…")
