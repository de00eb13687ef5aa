"""The anatomy of a model of images or sound: its blocks or stages, and its states as rows of vectors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from theodolite.errors import InputError
from theodolite.models.hooks import HookPoint, first_tensor, hook_layers
from theodolite.models.layers import Layer
from theodolite.models.stacks import Stack, equal_states, find_final_norm, find_module_lists, largest_list
from theodolite.models.streams import Streams

HALVES = ("encoder", "decoder")
MAPS = ("flat", "places")
"""A feature map (channels, height, width) is one vector per image, as in Godey et al. (2023), or one per place."""


ITEMS_FIRST, TIME_FIRST, ROWS = "items-first", "time-first", "rows"
LAYOUTS = (ITEMS_FIRST, TIME_FIRST, ROWS)
"""(items, positions, dim), (items, dim) or a map; (positions, items, dim); rows that belong to no known item."""


class StateRows(NamedTuple):
    """States of the items of a batch as rows. (rows, dim), and (rows,) for `item` and `position`."""

    rows: Tensor
    item: Tensor  # which item of the batch
    position: Tensor  # within its item
    ordered: bool  # whether position 0 comes first in an order, and is not just a corner of a picture


def arrange_rows(
    states: Tensor, *, flat: bool, counts: Sequence[int] | None = None, layout: str = ITEMS_FIRST
) -> StateRows:
    """Return the rows of (items, positions, dim), (items, channels, height, width) or (items, dim).

    `counts` is the number of positions of each item that count; the others are padding. With the layout
    "time-first" the states are (positions, items, dim). With "rows" all rows are those of item 0, in no order.

    >>> [tuple(arrange_rows(torch.zeros(2, 3, 4, 5), flat=flat).rows.shape) for flat in (True, False)]
    [(2, 60), (40, 3)]
    """
    if layout == ROWS:
        rows = states.flatten(0, -2)
        return StateRows(rows, torch.zeros(len(rows), dtype=torch.int64), torch.arange(len(rows)), False)
    if layout == TIME_FIRST and states.dim() == 3:
        states = states.transpose(0, 1)
    items = states.shape[0]
    if (states.dim() == 4 and flat) or states.dim() == 2:
        return StateRows(states.flatten(1), torch.arange(items), torch.zeros(items, dtype=torch.int64), False)
    if states.dim() == 4:
        states = states.flatten(2).transpose(1, 2)
        ordered = False
    elif states.dim() == 3:
        ordered = True
    else:
        raise InputError(f"States of shape {tuple(states.shape)} cannot be read as one vector per position.")
    width = states.shape[1]
    position = torch.arange(width).repeat(items)
    item = torch.arange(items).repeat_interleave(width)
    rows = states.flatten(0, 1)
    if counts is not None:
        kept = position < torch.tensor(list(counts))[item]
        rows, item, position = rows[kept.to(rows.device)], item[kept], position[kept]
    return StateRows(rows, item, position, ordered)


@dataclass(frozen=True)
class MediaAnatomy:
    """The layers of a model and the hook point of each, checked with small forward passes."""

    model: nn.Module
    layers: tuple[Layer, ...]
    hook_points: dict[int, HookPoint]
    rows: int  # rows of the first layer for the item of the forward pass
    ordered: bool = True  # False if position 0 is a corner of the picture, and no class token or first sound
    layouts: Mapping[int, str] = field(default_factory=dict)  # of layers whose items are not first
    calls: Mapping[int, int] = field(default_factory=dict)  # by layer, calls of its module; empty: not checked
    complete: bool = False  # whether the part of the model after the last layer must run
    stacks: tuple[Stack, ...] = ()  # empty if the layers are modules that a user named

    @classmethod
    def of(cls, model: nn.Module, inputs: Mapping[str, Tensor], *, flat: bool) -> MediaAnatomy:
        """Find the layers of a loaded model by running it on these inputs."""
        stacks = _stacks(model, inputs)
        named = [(stack.name, name, point) for stack in stacks for name, point in stack.hook_points()]
        points = {index: point for index, (_, _, point) in enumerate(named)}
        names = [(stack, name) for stack, name, _ in named]
        # Only the last block of a stack may differ: transformers may apply the norm first. Another difference
        # means that the list does not hold the blocks.
        last = {id(stack.blocks[-1]) for stack in stacks}
        checked = {k for k, point in points.items() if not point.reads_input and id(point.module) not in last}
        checked -= {k for k, point in points.items() if any(point is stack.final_norm for stack in stacks)}
        found = cls.from_hook_points(model, inputs, names, points, flat=flat, checked=checked)
        return replace(found, stacks=tuple(stacks))

    def find_streams(self, inputs: Mapping[str, Tensor]) -> Streams:
        """Find the streams of all blocks by running the model on these inputs."""
        if not self.stacks:
            raise InputError("--streams applies to models of transformers whose blocks are found by the survey.")
        return Streams.of(self.model, self.stacks, self.layers, lambda: self.model(**inputs))

    @classmethod
    def from_hook_points(
        cls,
        model: nn.Module,
        inputs: Mapping[str, Tensor],
        names: Sequence[tuple[str, str]],
        points: dict[int, HookPoint],
        *,
        flat: bool,
        checked: Collection[int] = (),
    ) -> MediaAnatomy:
        """Run the model with these hook points, named (stack, layer), and compare with its hidden_states.

        Layers in `checked` must be among the hidden_states, if there are any.
        """
        seen: dict[int, Tensor] = {}
        with hook_layers(model, points, lambda k, state: seen.update({k: state.clone()}), points) as forward:
            forward(**inputs)
        library = library_states(model, inputs)
        layers = []
        for index, (stack, name) in enumerate(names):
            if index not in seen:
                raise InputError(
                    f"{type(model).__name__} cannot be surveyed: {name} was not reached in a forward pass."
                )
            state = seen[index]
            equal = find_state(state, library.get(stack, ()))
            if index in checked and library.get(stack) and equal is None:
                raise InputError(
                    f"{type(model).__name__} cannot be surveyed: the output of {name} is not in the "
                    "hidden_states of transformers; name the modules to survey with theodolite.watch."
                )
            dim = int(arrange_rows(state, flat=flat).rows.shape[1])
            layers.append(Layer(index, name, dim, equal, stack))
        rows = len(arrange_rows(seen[0], flat=flat).rows)
        return cls(model, tuple(layers), points, rows, has_order(model, inputs))


def _stacks(model: nn.Module, inputs: Mapping[str, Tensor]) -> list[Stack]:
    halves = [(name, half) for name in HALVES if isinstance(half := getattr(model, name, None), nn.Module)]
    # A half by itself has the configuration of both.
    if halves and getattr(model.config, "is_encoder_decoder", False):
        found = [(name, largest_list(find_module_lists(half))) for name, half in halves]
    else:
        lists, count = find_module_lists(model), getattr(model.config, "num_hidden_layers", None)
        found = [("", largest_list([blocks for blocks in lists if len(blocks) == count] or lists))]
    all_blocks = [block for _, blocks in found for block in blocks or ()]
    stacks = []
    for name, blocks in found:
        if not blocks:
            raise InputError(
                f"{type(model).__name__} contains no list of equal blocks or stages; name the modules to survey "
                "with theodolite.watch."
            )
        shapes, reads_input = _shapes(model, blocks, inputs)
        norm = find_final_norm(model, blocks, all_blocks, inputs)
        staged = "Stage" in type(blocks[0]).__name__
        # Feature maps: consecutive blocks of one shape are a stage, whose output is that of the last block.
        if max(map(len, shapes)) == 4 and not staged:
            ends = [k for k, shape in enumerate(shapes) if k + 1 == len(shapes) or shapes[k + 1] != shape]
            blocks = tuple(blocks[k] for k in ends)
            stacks.append(Stack(name, blocks, norm, not reads_input, "stage"))
        else:
            stacks.append(Stack(name, blocks, norm, not reads_input, "stage" if staged else "block"))
    return stacks


def _shapes(
    model: nn.Module, blocks: Sequence[nn.Module], inputs: Mapping[str, Tensor]
) -> tuple[list[tuple[int, ...]], bool]:
    """Return the output shape of each block, and whether the first block reads the input of the model."""
    points = {0: HookPoint(blocks[0], reads_input=True)}
    points |= {k: HookPoint(block) for k, block in enumerate(blocks, start=1)}
    shapes: dict[int, tuple[int, ...]] = {}
    reads_input: list[bool] = []

    def on_states(index: int, state: Tensor) -> None:
        shapes[index] = tuple(state.shape)
        if index == 0:
            reads_input.append(any(state.shape == value.shape for value in inputs.values()))

    with hook_layers(model, points, on_states, points) as forward:
        forward(**inputs)
    return [shapes[k] for k in range(1, len(blocks) + 1)], reads_input[0]


def library_states(model: nn.Module, inputs: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, ...]]:
    """Return the hidden_states of transformers by stack; empty for other modules."""
    with torch.no_grad():
        try:
            output: Any = model(**inputs, output_hidden_states=True)
        except TypeError:  # a module of the user has no such argument
            return {}
    names = {"": "hidden_states", "encoder": "encoder_hidden_states", "decoder": "decoder_hidden_states"}
    return {stack: getattr(output, name, None) or () for stack, name in names.items()}


def find_state(state: Tensor, library: Sequence[Tensor]) -> int | None:
    """Return the index of the first of the hidden_states of transformers that equals the state, or None."""
    return next((at for at, theirs in enumerate(library) if _equal(state, theirs)), None)


def has_order(model: nn.Module, inputs: Mapping[str, Tensor]) -> bool:
    """Return whether position 0 comes first in an order: not in a picture without a class token."""
    return "pixel_values" not in inputs or _has_class_token(model)


def _equal(state: Tensor, theirs: Tensor) -> bool:
    """Return whether two states hold the same numbers, as a feature map or as a sequence of places."""
    theirs = first_tensor(theirs)
    if theirs.dim() == 4 and state.dim() == 3:
        theirs = theirs.flatten(2).transpose(1, 2)
    elif theirs.dim() == 3 and state.dim() == 4:
        state = state.flatten(2).transpose(1, 2)
    return equal_states(state, theirs)


def _has_class_token(model: nn.Module) -> bool:
    names = ("cls_token", "class_token", "class_embedding")
    return any(name.endswith(names) for name, _ in model.named_parameters())
