"""Pooling: one vector a sentence, from the states of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from theodolite.errors import InputError, nearest
from theodolite.studies.sentence_states import Rows, SentenceReader

POOLINGS = ("first", "mean", "last", "max")
"""The first token's state, the mean over tokens, the last token's, the largest value of each coordinate."""


def pooled(
    model: Any,
    tokenizer: Any,
    sentences: Sequence[str],
    layers: str | Sequence[int] | None,
    how: str,
    *,
    special: bool = True,
    truncate: bool = False,
    batch_tokens: int = 4096,
) -> dict[int, Tensor]:
    """Return one float32 vector for each sentence at each layer, by the layer's number. (sentences, dim)

    `layers` is "0,6,-1", "0-3", numbers, or None for all. Special tokens count as the tokenizer puts them: the
    first token of a BERT is [CLS], the last [SEP]. With `special` False they are left out of whatever is pooled.
    A sentence longer than the model takes is refused, or with `truncate` read as far as it goes.
    """
    reader = SentenceReader(model, tokenizer, layers=layers, truncate=truncate, batch_tokens=batch_tokens)
    return pooled_by(reader, sentences, how, special=special)


def pooled_by(
    reader: SentenceReader, sentences: Sequence[str], how: str, *, special: bool = True
) -> dict[int, Tensor]:
    """Return what `pooled` does, with a reader that is there already."""
    check_pooling(how)
    made = {layer.index: torch.full((len(sentences), layer.dim), torch.nan) for layer in reader.layers}

    def take(rows: Rows) -> None:
        kept = torch.ones_like(rows.special) if special else ~rows.special
        if not kept.any():  # a decoder that is fed its start alone: no vector, so it stays NaN
            return
        number, vectors = pool(rows.states[kept], rows.sentence[kept], rows.position[kept], how)
        made[rows.layer][number] = vectors.float()

    reader.read(sentences, take)
    return made


def pool(states: Tensor, sentence: Tensor, position: Tensor, how: str) -> tuple[Tensor, Tensor]:
    """Pool rows by sentence; return the sentences' numbers, ascending, and their vectors.

    states: (tokens, dim); sentence, position: (tokens,) -> (sentences,), (sentences, dim)
    Means are summed in float64.

    >>> states, position = torch.tensor([[1.0], [5.0], [3.0]]), torch.tensor([1, 0, 0])
    >>> pool(states, torch.tensor([4, 4, 7]), position, "first")
    (tensor([4, 7]), tensor([[5.],
            [3.]]))
    """
    check_pooling(how)
    order = torch.argsort(position, stable=True)
    order = order[torch.argsort(sentence[order], stable=True)]
    numbers, sizes = torch.unique_consecutive(sentence[order], return_counts=True)
    ends = sizes.cumsum(0)
    if how in ("first", "last"):
        return numbers, states[order[ends - sizes if how == "first" else ends - 1]]
    parts = torch.tensor_split(states[order], ends[:-1])
    if how == "max":
        return numbers, torch.stack([part.amax(0) for part in parts])
    return numbers, torch.stack([part.double().mean(0) for part in parts])


def check_pooling(how: str) -> None:
    """Refuse a way to pool that is not known."""
    if how not in POOLINGS:
        raise InputError(f"--pooling {how!r} is not one of {', '.join(POOLINGS)}.{nearest(how, list(POOLINGS))}")
