"""Token paths: the states of every token at every layer, their tables of steps, and their projection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.errors import InputError
from theodolite.measures.laboratories.paths import angle, cosine, radial, shared_direction, step, tangential
from theodolite.measures.projection import principal_components
from theodolite.models.layers import Layer
from theodolite.studies.pooling import find_massive
from theodolite.studies.sentences import SentenceReader, TokenStates

STEP_COLUMNS = "step radial tangential cosine angle".split()
MOVE_COLUMNS = "norm step radial tangential cosine angle cosine_first cosine_last".split()
AXES = ("x", "y", "z")
ALL_LAYERS, WITHOUT_LAST = "all", "without-last"
ALL_TOKENS, WITHOUT_MASSIVE, CHOSEN = "all", "without-massive", "chosen"


@dataclass(frozen=True, eq=False)
class TokenPaths:
    """The states at every layer of the tokens of all sentences, in one stack of a model."""

    stack: str
    layers: tuple[Layer, ...]
    states: Tensor  # (layers, tokens, dim) float32
    sentence: NDArray[np.int64]  # (tokens,)
    position: NDArray[np.int64]  # (tokens,)
    ids: NDArray[np.int64]  # (tokens,)
    special: NDArray[np.bool_]  # (tokens,)
    text: tuple[str, ...]

    def at(self, layer: int) -> NDArray[np.float64]:
        """Return the states at `layers[layer]` in float64. (tokens, dim)"""
        found: NDArray[np.float64] = self.states[layer].double().numpy()
        return found

    def norms(self) -> NDArray[np.float64]:
        """Return the norms of all states. (layers, tokens)"""
        found: NDArray[np.float64] = torch.linalg.vector_norm(self.states.double(), dim=-1).numpy()
        return found

    def massive(self) -> NDArray[np.bool_]:
        """Return which states are massive: norm above 10 times the median of their layer. (layers, tokens)"""
        return find_massive(self.norms())

    def indices(self, sentence: int) -> NDArray[np.int64]:
        """Return the indices of the tokens of a sentence, by position."""
        found: NDArray[np.int64] = np.flatnonzero(self.sentence == sentence)
        return found


def read_paths(reader: SentenceReader, sentences: Sequence[str]) -> list[TokenPaths]:
    """Read sentences and return the token paths of each stack whose layers have one state per input token."""
    states: dict[int, list[TokenStates]] = {}
    encoded = reader.read(sentences, lambda rows: states.setdefault(rows.layer, []).append(rows))
    text = {unit.id: unit.text for unit in reader.source.units.known}
    found = []
    for stack in dict.fromkeys(layer.stack for layer in reader.layers if layer.units):
        layers = tuple(layer for layer in reader.layers if layer.stack == stack and layer.units)
        _check_widths(layers)
        inputs = [each[stack] for each in encoded]
        ids = np.concatenate([each.ids for each in inputs])
        found.append(
            TokenPaths(
                stack,
                layers,
                torch.stack([_sort_states(states[layer.index]) for layer in layers]),
                np.repeat(np.arange(len(inputs)), [len(each.ids) for each in inputs]),
                np.concatenate([np.arange(len(each.ids)) for each in inputs]),
                ids,
                np.concatenate([each.special for each in inputs]),
                tuple(text.get(int(number), f"<id {number}>") for number in ids),
            )
        )
    return found


def _sort_states(parts: Sequence[TokenStates]) -> Tensor:
    """Sort the states of one layer by sentence and position. -> (tokens, dim)"""
    sentence, position = torch.cat([p.sentence for p in parts]), torch.cat([p.position for p in parts])
    order = np.lexsort((position.numpy(), sentence.numpy()))
    return torch.cat([part.states.float() for part in parts])[torch.from_numpy(order)]


def _check_widths(layers: Sequence[Layer]) -> None:
    other = next((layer for layer in layers if layer.dim != layers[0].dim), None)
    if other is not None:
        raise InputError(
            f"A path requires layers of the same dimension: {layers[0].name} has {layers[0].dim} coordinates, "
            f"{other.name} has {other.dim}. Give --layers of the same dimension."
        )


def make_path_table(paths: TokenPaths) -> pd.DataFrame:
    """Return one row per token and layer: norm, step from the previous layer, cosines to the first and last layer.

    The first layer has no step, so its columns for the step are NaN.
    """
    first, last = paths.at(0), paths.at(len(paths.layers) - 1)
    norms, massive = paths.norms(), paths.massive()
    tables = []
    for number, layer in enumerate(paths.layers):
        states = paths.at(number)
        columns = {
            "norm": norms[number],
            "massive": massive[number],
            "cosine_first": cosine(first, states),
            "cosine_last": cosine(states, last),
        }
        previous = paths.at(number - 1) if number else np.full_like(states, np.nan)
        for name, measure in zip(STEP_COLUMNS, (step, radial, tangential, cosine, angle), strict=True):
            columns[name] = measure(previous, states) if number else np.full(len(states), np.nan)
        head = {"stack": paths.stack, "layer": layer.index, "layer_name": layer.name}
        token = {"sentence": paths.sentence, "position": paths.position, "special": paths.special}
        tables.append(pd.DataFrame(head | token | columns))
    return pd.concat(tables, ignore_index=True)


def make_move_table(paths: TokenPaths, path: pd.DataFrame) -> pd.DataFrame:
    """Return one row per sentence and layer: means over its tokens, and how similarly its tokens move.

    Special tokens and tokens that are massive at any layer are excluded. `radial_share` is the radial part of the
    squared steps: sum radial^2 / sum step^2.
    """
    kept = is_ordinary(paths)
    rows = []
    for number in np.unique(paths.sentence):
        chosen = kept & (paths.sentence == number)
        inside = path[(path["sentence"] == number) & path["position"].isin(paths.position[chosen])]
        for place, layer in enumerate(paths.layers):
            at_layer = inside[inside["layer"] == layer.index]
            squares = np.square(at_layer["step"]).sum()
            rows.append(
                {
                    "stack": paths.stack,
                    "layer": layer.index,
                    "layer_name": layer.name,
                    "sentence": int(number),
                    "tokens": len(at_layer),
                    **{name: float(at_layer[name].mean()) for name in MOVE_COLUMNS},
                    "radial_share": (
                        float(np.square(at_layer["radial"]).sum() / squares) if squares > 0 else np.nan
                    ),
                    "shared_direction": (
                        shared_direction(paths.at(place)[chosen] - paths.at(place - 1)[chosen])
                        if place
                        else np.nan
                    ),
                }
            )
    return pd.DataFrame(rows)


def is_ordinary(paths: TokenPaths) -> NDArray[np.bool_]:
    """Return which tokens are neither special nor massive at any layer. (tokens,)"""
    return ~paths.special & ~paths.massive().any(axis=0)


def project_paths(paths: TokenPaths, chosen: NDArray[np.bool_]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return principal components and their shares of variance, for each set of layers and each set of tokens.

    Layers: all, and all but the last (if there are several). Tokens: all; those that are massive at no layer,
    since massive ones dominate the components; and the chosen ones. Components are fitted to each set by itself.
    """
    sets = {ALL_TOKENS: np.ones_like(chosen), WITHOUT_MASSIVE: ~paths.massive().any(axis=0), CHOSEN: chosen}
    ends = {ALL_LAYERS: len(paths.layers), WITHOUT_LAST: len(paths.layers) - 1}
    points, shares = [], []
    for tokens, mask in sets.items():
        for layers, end in ends.items():
            if end and mask.any():
                projected, variance = _project(paths, np.flatnonzero(mask), end)
                head = {"stack": paths.stack, "layers": layers, "tokens": tokens}
                points.append(projected.assign(**head))
                shares.append(pd.DataFrame({"axis": AXES, "share": variance}).assign(**head))
    return pd.concat(points, ignore_index=True), pd.concat(shares, ignore_index=True)


def _project(paths: TokenPaths, tokens: NDArray[np.int64], end: int) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    vectors = np.concatenate([paths.at(place)[tokens] for place in range(end)])
    found = principal_components(vectors, len(AXES))
    table = pd.DataFrame(
        {
            "layer": np.repeat([layer.index for layer in paths.layers[:end]], len(tokens)),
            "sentence": np.tile(paths.sentence[tokens], end),
            "position": np.tile(paths.position[tokens], end),
            **dict(zip(AXES, found.points.T, strict=True)),
        }
    )
    return table, found.shares
