"""Layers: their names, and which of them the user selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from theodolite.errors import InputError, nearest
from theodolite.text import list_layers

RESIDUAL = "residual"
STREAMS = ("q", "k", "v", "q-rotated", "k-rotated", "attn", "cross", "mlp")
"""What a block computes besides its output, which belongs to the residual stream: queries, keys and values of all
heads, queries and keys after rotation, and what attention, cross-attention and the MLP write to the residual."""
BY_HEAD = STREAMS[:5]
HEADS = "/heads"  # "k/heads": every head of a stream is a layer


@dataclass(frozen=True, slots=True)
class Layer:
    """One point of a model at which states are read."""

    index: int
    name: str
    dim: int
    library_index: int | None = None  # the equal entry of the hidden_states of transformers, if any
    stack: str = ""  # encoder, decoder, ...; "" if the model has one stack
    units: bool = True  # False if positions are no longer those of the input and have no unit
    stream: str = RESIDUAL
    block: int | None = None  # of other streams: the layer that is the output of their block
    heads: int = 0  # of a stream of queries, keys or values that has all of them
    attention_heads: int = 0  # if the attention logits of the block are measured with this layer

    def facts(self) -> dict[str, Any]:
        """Return what survey.json records; what only some surveys have is left out of the others."""
        facts = asdict(self)
        for name, default in (("stream", RESIDUAL), ("block", None), ("heads", 0), ("attention_heads", 0)):
            if facts[name] == default:
                del facts[name]
        return facts


def choose_layers(
    layers: Sequence[Layer],
    selection: str | Sequence[int | str] | None,
    streams: Sequence[str] | None = None,
    others: Sequence[Layer] = (),
) -> tuple[Layer, ...]:
    """Return the selected layers: "0,6,12", "0-3", "-1", integers or names such as "block 3/k"; None means all.

    `layers` are those of the residual stream, which numbers select, and `others` those of all other streams. Of
    these, a number selects what the block has of `streams`, such as ("residual", "k", "v/heads").

    >>> all_layers = [Layer(0, "embeddings", 8), Layer(1, "block 1", 8), Layer(2, "block 2", 8)]
    >>> [layer.name for layer in choose_layers(all_layers, "0,-1")]
    ['embeddings', 'block 2']
    >>> keys = [Layer(3, "block 1/k", 8, stream="k", block=1), Layer(4, "block 2/k", 8, stream="k", block=2)]
    >>> [layer.name for layer in choose_layers(all_layers, "2", ["residual", "k"], keys)]
    ['block 2', 'block 2/k']
    """
    named: list[Layer] = []
    numbers: list[int] | None = None
    if selection is not None:
        names, given = split_layer_names(selection)
        named = [_find_name((*layers, *others), name) for name in names]
        numbers = _find_numbers(layers, given, selection) if given else []
    streams = (RESIDUAL,) if streams is None else streams
    kept = [layer for layer in (*layers, *others) if _is_asked(layer, streams, numbers)]
    chosen = {layer.index: layer for layer in (*kept, *named)}
    if not chosen:
        raise InputError(
            f"--layers {selection} selects no layer of --streams {','.join(streams)}: only blocks "
            "have other streams than the residual."
        )
    return tuple(chosen[index] for index in sorted(chosen))


def _is_asked(layer: Layer, streams: Sequence[str], numbers: Sequence[int] | None) -> bool:
    by_head = layer.name.rpartition("/")[2].startswith("head ")
    number = layer.index if layer.block is None else layer.block
    return f"{layer.stream}{HEADS if by_head else ''}" in streams and (numbers is None or number in numbers)


def _find_name(layers: Sequence[Layer], name: str) -> Layer:
    by_name = {layer.name: layer for layer in layers}
    if name not in by_name:
        known = list(by_name)
        raise InputError(f"--layers {name!r} is not a layer of this model.{nearest(name, known)}")
    return by_name[name]


def _find_numbers(
    layers: Sequence[Layer], given: Sequence[int], selection: str | Sequence[int | str]
) -> list[int]:
    by_index = {layer.index: layer for layer in layers}
    last = max(by_index)
    numbers = [number + last + 1 if number < 0 else number for number in given]
    missing = [one for one, number in zip(given, numbers, strict=True) if number not in by_index]
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
    return numbers


def split_layer_names(selection: str | Sequence[int | str]) -> tuple[list[str], list[int]]:
    """Return the names of layers in a selection, which contain a slash, and its numbers, negative ones unchanged.

    >>> split_layer_names("0-1,block 3/k")
    (['block 3/k'], [0, 1])
    """
    pieces = [piece.strip() for piece in selection.split(",")] if isinstance(selection, str) else [*selection]
    names = [piece for piece in pieces if isinstance(piece, str) and "/" in piece]
    rest = [piece for piece in pieces if piece not in names]
    if not names:
        return [], parse_layer_numbers(selection)
    return names, [number for piece in rest for number in parse_layer_numbers(str(piece))]


def parse_layer_numbers(selection: str | Sequence[int | str]) -> list[int]:
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
