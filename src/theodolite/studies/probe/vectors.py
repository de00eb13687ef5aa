"""The vectors of words: rows of the input embedding table, or states of a layer for one word at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from theodolite.batch import Batch
from theodolite.errors import InputError, TheodoliteError
from theodolite.models.layers import Layer
from theodolite.sources.text.source import TextSource
from theodolite.sources.text.windows import choose_window_length
from theodolite.studies.probe.selection import WordToken

INPUT_TABLE = "table"
INPUT_TABLE_NAME = "input table"


def parse_layers(asked: Sequence[str | int]) -> list[str | int]:
    """Parse --layer: "table" or layer numbers, without duplicates."""
    found: list[str | int] = []
    for part in (piece.strip() for each in asked for piece in str(each).split(",")):
        try:
            found.append(part if part == INPUT_TABLE else int(part))
        except ValueError:
            raise InputError(
                f"--layer requires {INPUT_TABLE} or a number such as 0, 6 or -1 (got {part!r})."
            ) from None
    return list(dict.fromkeys(found)) or [INPUT_TABLE]


def read_table_vectors(network: Any, words: Sequence[WordToken]) -> NDArray[np.float64]:
    """Return the rows of the input embeddings for the words. -> (words, dim)"""
    try:
        weight = network.get_input_embeddings().weight
    except (AttributeError, NotImplementedError):
        raise InputError(
            f"--layer {INPUT_TABLE}: {type(network).__name__} has no input table; give a layer."
        ) from None
    return _check_finite(weight[_token_ids(words)].detach().double().cpu().numpy(), INPUT_TABLE_NAME)


def read_layer_vectors(
    network: Any, tokenizer: Any, words: Sequence[WordToken], asked: Sequence[int], *, wrap: bool = False
) -> list[tuple[Layer, NDArray[np.float64]]]:
    """Return, for each requested layer, the state of each word at its own position. -> (words, dim) each

    The tokens of the words all differ, so the token identifies the word of a row. `wrap` adds BOS before each word
    if the tokenizer adds nothing and the word would be at the first position.
    """
    window = choose_window_length(network.config, tokenizer, None)
    source = TextSource(network, tokenizer, max_tokens=window, drop_special=True, wrap=wrap)
    chosen = [_find_layer(source.layers, number) for number in asked]
    source = source.narrowed(sorted({layer.index: layer for layer in chosen}.values(), key=lambda x: x.index))
    code_of = {unit.id: code for code, unit in enumerate(source.units.known)}
    row_of = {code_of[word.token]: row for row, word in enumerate(words)}
    found = {layer.index: np.full((len(words), layer.dim), np.nan) for layer in chosen}

    def take(batch: Batch) -> None:
        rows = [row_of[int(code)] for code in batch.places.unit]
        found[batch.layer][rows] = batch.states.double().numpy()

    for prepared in source.prepare([(number, word.text) for number, word in enumerate(words)]):
        source.run(prepared, take)
    return [(layer, _check_finite(found[layer.index], layer.name)) for layer in chosen]


def _find_layer(layers: Sequence[Layer], number: int) -> Layer:
    last = layers[-1].index
    at = number + last + 1 if number < 0 else number
    if not 0 <= at <= last:
        raise InputError(
            f"--layer {number} does not exist: this model has layers 0 to {last} ({layers[0].name} to "
            f"{layers[-1].name}), and {INPUT_TABLE}."
        )
    if not layers[at].units:
        raise InputError(f"--layer {number}: {layers[at].name} does not have one position per token.")
    return layers[at]


def _token_ids(words: Sequence[WordToken]) -> torch.Tensor:
    return torch.tensor([word.token for word in words], dtype=torch.int64)


def _check_finite(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    if not np.isfinite(x).all():
        bad = int((~np.isfinite(x)).any(axis=1).sum())
        raise TheodoliteError(f"{name}: the vectors of {bad} words are not finite; try --dtype float32.")
    return x
