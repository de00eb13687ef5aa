"""Layers: their names, and which of them the user selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from theodolite.errors import InputError
from theodolite.text import list_layers


@dataclass(frozen=True, slots=True)
class Layer:
    """One point of a model at which states are read."""

    index: int
    name: str
    dim: int
    library_index: int | None = None  # the equal entry of the hidden_states of transformers, if any
    stack: str = ""  # encoder, decoder, ...; "" if the model has one stack
    units: bool = True  # False if positions are no longer those of the input and have no unit


def choose_layers(layers: Sequence[Layer], selection: str | Sequence[int] | None) -> tuple[Layer, ...]:
    """Return the selected layers: "0,6,12", "0-3", "-1" or integers; None means all.

    >>> all_layers = [Layer(0, "embeddings", 8), Layer(1, "block 1", 8), Layer(2, "block 2", 8)]
    >>> [layer.name for layer in choose_layers(all_layers, "0,-1")]
    ['embeddings', 'block 2']
    """
    if selection is None:
        return tuple(layers)
    by_index = {layer.index: layer for layer in layers}
    last = max(by_index)
    numbers = [number + last + 1 if number < 0 else number for number in parse_layer_numbers(selection)]
    missing = [number for number in numbers if number not in by_index]
    if missing:
        several = len(missing) > 1
        named = (
            f"{selection} names {len(missing)} layers that do"
            if several
            else f"names layer {missing[0]}, which does"
        )
        raise InputError(
            f"--layers {named} not exist: this model has layers 0 to {last} "
            f"({by_index[0].name} to {by_index[last].name})."
        )
    return tuple(by_index[index] for index in sorted(set(numbers)))


def parse_layer_numbers(selection: str | Sequence[int]) -> list[int]:
    """Return the selected layer numbers, negative ones unchanged: the part that needs no model.

    >>> parse_layer_numbers("0-2,-1")
    [0, 1, 2, -1]
    """
    numbers = _parse(selection) if isinstance(selection, str) else [int(number) for number in selection]
    if not numbers:
        raise InputError("--layers selects no layer; omit it to survey all layers.")
    return numbers


def _parse(selection: str) -> list[int]:
    numbers: list[int] = []
    for part in filter(None, (piece.strip() for piece in selection.split(","))):
        head, dash, tail = part[1:].partition("-")
        low = part[0] + head
        try:
            found = range(int(low), int(tail) + 1) if dash else [int(low)]
        except ValueError:
            raise InputError(
                f"--layers requires numbers and ranges such as 0,6,12 or 0-3 or -1 (got {part!r})."
            ) from None
        if not found:
            raise InputError(f"--layers: the range {part!r} is empty; give the lower number first, as in 1-3.")
        numbers.extend(found)
    return numbers


def select_layers(
    known: Sequence[int], layers: str | int | Sequence[int] | None, option: str = "--layers"
) -> list[int]:
    """Return the layers named by "0,6,12", "0-3" or -1 (the last one), each once; None is all of them.

    >>> select_layers([0, 1, 2, 3], "0-1,-1"), select_layers([0, 1, 2, 3], -1)
    ([0, 1, 3], [3])
    """
    if layers is None:
        return list(known)
    numbers = parse_layer_numbers([layers] if isinstance(layers, int) else layers)
    selected = [number + known[-1] + 1 if number < 0 else number for number in numbers]
    for number in selected:
        if number not in known:
            raise InputError(f"{option} {number}: this survey has {list_layers(known)}.")
    return list(dict.fromkeys(selected))
