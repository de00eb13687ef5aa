"""Trails: every token of every sentence with its states from the first layer to the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.errors import InputError
from theodolite.sources.layers import Layer
from theodolite.studies.sentence_states import Rows, SentenceReader

MASSIVE = 10.0
"""A norm above so many times the layer's median is a massive activation, as in surveys."""


@dataclass(frozen=True, eq=False)
class Trails:
    """The tokens of all sentences in one stack of a model, one after the other."""

    stack: str
    layers: tuple[Layer, ...]
    states: Tensor  # (layers, tokens, dim) float32
    sentence: NDArray[np.int64]  # (tokens,)
    position: NDArray[np.int64]  # (tokens,)
    ids: NDArray[np.int64]  # (tokens,)
    special: NDArray[np.bool_]  # (tokens,)
    text: tuple[str, ...]

    def at(self, layer: int) -> NDArray[np.float64]:
        """Return the states at the layer in this place of `layers`. (tokens, dim)"""
        found: NDArray[np.float64] = self.states[layer].double().numpy()
        return found

    def norms(self) -> NDArray[np.float64]:
        """Return the norms of all states. (layers, tokens)"""
        found: NDArray[np.float64] = torch.linalg.vector_norm(self.states.double(), dim=-1).numpy()
        return found

    def massive(self) -> NDArray[np.bool_]:
        """Say which states are massive: longer than 10 times the median of their layer. (layers, tokens)"""
        norms = self.norms()
        found: NDArray[np.bool_] = norms > MASSIVE * np.median(norms, axis=1, keepdims=True)
        return found

    def of(self, sentence: int) -> NDArray[np.int64]:
        """Return the places of a sentence's tokens, by position."""
        found: NDArray[np.int64] = np.flatnonzero(self.sentence == sentence)
        return found


def trails_of(reader: SentenceReader, sentences: Sequence[str]) -> list[Trails]:
    """Read sentences and return the trails of each stack whose positions are those of the input."""
    came: dict[int, list[Rows]] = {}
    spelled = reader.read(sentences, lambda rows: came.setdefault(rows.layer, []).append(rows))
    text = {unit.id: unit.text for unit in reader.source.units.known}
    found = []
    for stack in dict.fromkeys(layer.stack for layer in reader.layers if layer.units):
        layers = tuple(layer for layer in reader.layers if layer.stack == stack and layer.units)
        _check_widths(layers)
        sides = [each[stack] for each in spelled]
        ids = np.concatenate([side.ids for side in sides])
        found.append(
            Trails(
                stack,
                layers,
                torch.stack([_ordered(came[layer.index]) for layer in layers]),
                np.repeat(np.arange(len(sides)), [len(side.ids) for side in sides]),
                np.concatenate([np.arange(len(side.ids)) for side in sides]),
                ids,
                np.concatenate([side.special for side in sides]),
                tuple(text.get(int(number), f"<id {number}>") for number in ids),
            )
        )
    return found


def _ordered(parts: Sequence[Rows]) -> Tensor:
    """Put the rows of one layer in the order of sentences and positions. -> (tokens, dim)"""
    sentence, position = torch.cat([p.sentence for p in parts]), torch.cat([p.position for p in parts])
    order = np.lexsort((position.numpy(), sentence.numpy()))
    return torch.cat([part.states.float() for part in parts])[torch.from_numpy(order)]


def _check_widths(layers: Sequence[Layer]) -> None:
    other = next((layer for layer in layers if layer.dim != layers[0].dim), None)
    if other is not None:
        raise InputError(
            f"A path needs layers of one width: {layers[0].name} has {layers[0].dim} coordinates and {other.name} "
            f"{other.dim}; give --layers that are of one width."
        )
