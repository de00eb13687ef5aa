"""Layers: their names, and which of them the user wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from theodolite.errors import InputError


@dataclass(frozen=True, slots=True)
class Layer:
    """One place in a model where states are taken."""

    index: int
    name: str
    dim: int
    library_index: int | None = None  # the index in transformers' hidden_states that it equals, if any
    stack: str = ""  # encoder, decoder, ...; "" where the model has one stack
    units: bool = True  # False where positions are no longer those of the input, and so have no unit


def choose(layers: Sequence[Layer], wanted: str | Sequence[int] | None) -> tuple[Layer, ...]:
    """Return the layers that `wanted` names: "0,6,12", "0-3", "-1", or integers; None means all.

    >>> all_layers = [Layer(0, "embeddings", 8), Layer(1, "block 1", 8), Layer(2, "block 2", 8)]
    >>> [layer.name for layer in choose(all_layers, "0,-1")]
    ['embeddings', 'block 2']
    """
    if wanted is None:
        return tuple(layers)
    by_index = {layer.index: layer for layer in layers}
    last = max(by_index)
    chosen = set()
    for number in layer_numbers(wanted):
        index = number + last + 1 if number < 0 else number
        if index not in by_index:
            raise InputError(
                f"--layers names layer {number}, which does not exist: this model has layers 0 to {last} "
                f"({by_index[0].name} to {by_index[last].name})."
            )
        chosen.add(index)
    return tuple(by_index[index] for index in sorted(chosen))


def layer_numbers(wanted: str | Sequence[int]) -> list[int]:
    """Return the numbers that `wanted` names, negative ones as they are: all that can be said without a model.

    >>> layer_numbers("0-2,-1")
    [0, 1, 2, -1]
    """
    numbers = _spelled(wanted) if isinstance(wanted, str) else [int(number) for number in wanted]
    if not numbers:
        raise InputError("--layers names no layer; leave it out to survey all of them.")
    return numbers


def _spelled(wanted: str) -> list[int]:
    numbers: list[int] = []
    for part in filter(None, (piece.strip() for piece in wanted.split(","))):
        head, dash, tail = part[1:].partition("-")
        low = part[0] + head
        try:
            found = range(int(low), int(tail) + 1) if dash else [int(low)]
        except ValueError:
            raise InputError(
                f"--layers takes numbers and ranges such as 0,6,12 or 0-3 or -1; {part!r} is neither."
            ) from None
        if not found:
            raise InputError(f"--layers: the range {part!r} is empty; wanted the lower number first, as in 1-3.")
        numbers.extend(found)
    return numbers
