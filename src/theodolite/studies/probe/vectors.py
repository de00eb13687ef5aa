"""The vectors of words: rows of the input table, or what leaves a layer when the model reads one word alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from theodolite.batch import Batch
from theodolite.errors import InputError, TheodoliteError
from theodolite.sources.layers import Layer
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.windows import longest_window
from theodolite.studies.probe.spelling import Spelled

TABLE = "table"
TABLE_NAME = "input table"


def parsed(asked: Sequence[str | int]) -> list[str | int]:
    """Return the places asked for: "table" or the number of a layer, each once."""
    found: list[str | int] = []
    for part in (piece.strip() for each in asked for piece in str(each).split(",")):
        try:
            found.append(part if part == TABLE else int(part))
        except ValueError:
            raise InputError(f"--layer {part!r}: wanted {TABLE} or a number such as 0, 6 or -1.") from None
    return list(dict.fromkeys(found)) or [TABLE]


def table_vectors(network: Any, words: Sequence[Spelled]) -> NDArray[np.float64]:
    """Return the words' rows of the input embeddings. -> (words, dim)"""
    try:
        weight = network.get_input_embeddings().weight
    except (AttributeError, NotImplementedError):
        raise InputError(f"--layer {TABLE}: {type(network).__name__} has no input table; give a layer.") from None
    return _finite(weight[_tokens(words)].detach().double().cpu().numpy(), TABLE_NAME)


def layer_vectors(
    network: Any, tokenizer: Any, words: Sequence[Spelled], asked: Sequence[int], *, wrap: bool = False
) -> list[tuple[Layer, NDArray[np.float64]]]:
    """Return, for every layer asked for, the states of each word at its own position. -> (words, dim) each

    The words' tokens all differ, so the token says which word a row is of. `wrap` puts BOS in front, where the
    tokenizer puts nothing and the word would be the first position.
    """
    window = longest_window(network.config, tokenizer, None)
    source = TextSource(network, tokenizer, max_tokens=window, drop_special=True, wrap=wrap)
    chosen = [_layer(source.layers, number) for number in asked]
    source = source.narrowed(sorted({layer.index: layer for layer in chosen}.values(), key=lambda x: x.index))
    code_of = {unit.id: code for code, unit in enumerate(source.units.known)}
    row_of = {code_of[word.token]: row for row, word in enumerate(words)}
    found = {layer.index: np.full((len(words), layer.dim), np.nan) for layer in chosen}

    def take(batch: Batch) -> None:
        rows = [row_of[int(code)] for code in batch.places.unit]
        found[batch.layer][rows] = batch.states.double().numpy()

    for prepared in source.prepare([(number, word.text) for number, word in enumerate(words)]):
        source.run(prepared, take)
    return [(layer, _finite(found[layer.index], layer.name)) for layer in chosen]


def _layer(layers: Sequence[Layer], number: int) -> Layer:
    last = layers[-1].index
    at = number + last + 1 if number < 0 else number
    if not 0 <= at <= last:
        raise InputError(
            f"--layer {number} does not exist: this model has layers 0 to {last} ({layers[0].name} to "
            f"{layers[-1].name}), and {TABLE}."
        )
    if not layers[at].units:
        raise InputError(f"--layer {number}: the positions of {layers[at].name} are no longer those of the words.")
    return layers[at]


def _tokens(words: Sequence[Spelled]) -> torch.Tensor:
    return torch.tensor([word.token for word in words], dtype=torch.int64)


def _finite(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    if not np.isfinite(x).all():
        bad = int((~np.isfinite(x)).any(axis=1).sum())
        raise TheodoliteError(f"{name}: the vectors of {bad} words are not finite; try --dtype float32.")
    return x
