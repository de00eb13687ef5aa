"""Sentences through a text model: the states of every token, each with its sentence and position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.batch import Batch
from theodolite.errors import InputError
from theodolite.sources.layers import Layer
from theodolite.sources.text.source import TextBatch, TextSource
from theodolite.sources.text.windows import Window, longest_window


@dataclass(frozen=True, slots=True)
class Rows:
    """The states of some tokens at one layer; sentences come whole, in an order of the model's convenience."""

    layer: int
    states: Tensor  # (tokens, dim), as the model gave them
    sentence: Tensor  # (tokens,) int64
    position: Tensor  # (tokens,) int64, 0 at the first token, special or not
    special: Tensor  # (tokens,) bool


@dataclass(frozen=True, slots=True)
class Spelled:
    """One sentence as one stack of the model reads it."""

    ids: NDArray[np.int64]  # (tokens,)
    special: NDArray[np.bool_]  # (tokens,)


class SentenceReader:
    """A model that reads sentences one by one, batched for speed, padded on the right and masked.

    Special tokens are there as the tokenizer puts them. A decoder behind an encoder is fed the same sentence,
    moved on by one position.
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
        most = longest_window(model.config, tokenizer, None)
        self.source = TextSource(model, tokenizer, layers=layers, max_tokens=most, batch_tokens=batch_tokens)
        self.truncate = truncate

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers that are read."""
        return self.source.layers

    @property
    def causal(self) -> bool:
        """Whether a position sees only what stands to its left."""
        return self.source.anatomy.causal

    def read(self, sentences: Sequence[str], take: Callable[[Rows], None]) -> list[dict[str, Spelled]]:
        """Hand the states of all sentences to `take`, layer by layer within a batch; return how they are spelled.

        The result has, for each sentence, what each stack of the model reads ("" where there is one stack).
        """
        windows = self._windows(sentences)
        spelled: list[dict[str, Spelled]] = [{} for _ in sentences]
        for batch in self.source.prepare(list(enumerate(sentences)), only={(n, 0) for n in range(len(sentences))}):
            for stack, side in self._sides(batch).items():
                for row, (document, _) in enumerate(batch.windows):
                    spelled[document][stack] = self._spelled(side, row, windows[document], stack)
            self._run(batch, spelled, take)
        return spelled

    def _windows(self, sentences: Sequence[str]) -> dict[int, Window]:
        """Cut every sentence to windows, refusing what cannot be read as one; return the first of each."""
        for number, sentence in enumerate(sentences, 1):
            if not isinstance(sentence, str) or not sentence.strip():
                raise InputError(f"Sentence {number} is empty; wanted at least one word.")
        windows: dict[int, Window] = {}
        for window in self.source.windows(list(enumerate(sentences)))[0]:
            if window.number and not self.truncate:
                raise InputError(
                    f"Sentence {window.document + 1} ({_short(sentences[window.document])}) is longer than the "
                    f"{self.source.max_tokens} tokens that are read at once; cut it into sentences."
                )
            windows.setdefault(window.document, window)
        for number, sentence in enumerate(sentences):
            if number not in windows or bool(windows[number].special.all()):
                raise InputError(f"Sentence {number + 1} ({_short(sentence)}) has no token in this vocabulary.")
        return windows

    def _sides(self, batch: TextBatch) -> dict[str, TextBatch]:
        stacks = {layer.stack for layer in self.layers}
        return {
            stack: batch.decoder if stack == "decoder" and batch.decoder is not None else batch for stack in stacks
        }

    def _spelled(self, side: TextBatch, row: int, window: Window, stack: str) -> Spelled:
        ids = side.ids[row][side.mask[row].bool()].numpy()
        fed = stack == "decoder" and not np.array_equal(ids, window.ids)
        return Spelled(ids, np.append(True, window.special[:-1]) if fed else window.special)

    def _run(self, batch: TextBatch, spelled: list[dict[str, Spelled]], take: Callable[[Rows], None]) -> None:
        documents = torch.tensor([document for document, _ in batch.windows])
        of_layer = {layer.index: layer for layer in self.layers}

        def sink(came: Batch) -> None:
            layer = of_layer[came.layer]
            side = self._sides(batch)[layer.stack]
            if not layer.units:  # one row stands for several characters; windows are of one length
                width = came.states.shape[0] // len(documents)
                row = torch.arange(len(documents)).repeat_interleave(width)
                position, special = torch.arange(width).repeat(len(documents)), torch.zeros(len(row)).bool()
            else:
                width = side.ids.shape[1]
                row, position = side.rows // width, side.rows % width
                marks = torch.zeros(len(documents), width, dtype=torch.bool)
                for at, (document, _) in enumerate(batch.windows):
                    known = torch.from_numpy(spelled[document][layer.stack].special)
                    marks[at, : len(known)] = known
                special = marks[row, position]
            take(Rows(came.layer, came.states, documents[row], position, special))

        self.source.run(batch, sink)


def _short(sentence: str, longest: int = 40) -> str:
    return repr(sentence if len(sentence) <= longest else sentence[: longest - 1] + "…")
