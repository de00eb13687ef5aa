"""Where the states of a model of pictures or sound are taken: its blocks, or its stages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.errors import InputError
from theodolite.sources.layers import Layer
from theodolite.sources.media.layout import laid_out
from theodolite.sources.stacks import Stack, final_norm_of, largest, lists_of, same
from theodolite.sources.taps import Tap, first_of, watched


@dataclass(frozen=True)
class MediaAnatomy:
    """A model's layers and the tap of each, checked by one small forward pass."""

    model: nn.Module
    layers: tuple[Layer, ...]
    taps: dict[int, Tap]
    rows: int  # rows of the first layer for the item that was looked at
    ordered: bool = True  # False where position 0 is a corner of the picture, and no class token or first sound

    @classmethod
    def of(cls, model: nn.Module, inputs: Mapping[str, Tensor], *, flat: bool) -> MediaAnatomy:
        """Find the parts of a loaded model by running it once on these inputs."""
        stacks = _stacks(model, inputs)
        named = [(stack.name, name, tap) for stack in stacks for name, tap in stack.taps()]
        taps = {index: tap for index, (_, _, tap) in enumerate(named)}
        names = [(stack, name) for stack, name, _ in named]
        # Only a stack's last block may differ: some libraries norm it first. Another that does is no block at all.
        last = {id(stack.blocks[-1]) for stack in stacks}
        sure = {k for k, tap in taps.items() if not tap.entering and id(tap.module) not in last}
        sure -= {k for k, tap in taps.items() if any(tap.module is stack.final_norm for stack in stacks)}
        return cls.tapped(model, inputs, names, taps, flat=flat, sure=sure)

    @classmethod
    def tapped(
        cls,
        model: nn.Module,
        inputs: Mapping[str, Tensor],
        names: Sequence[tuple[str, str]],
        taps: dict[int, Tap],
        *,
        flat: bool,
        sure: Collection[int] = (),
    ) -> MediaAnatomy:
        """Look at what passes these taps, named (stack, layer), and at transformers' own states beside it.

        Layers in `sure` must be among those states, where there are any.
        """
        seen: dict[int, Tensor] = {}
        with watched(model, taps, lambda k, state: seen.update({k: state.clone()}), taps) as forward:
            forward(**inputs)
        library = _library(model, inputs)
        layers = []
        for index, (stack, name) in enumerate(names):
            if index not in seen:
                raise InputError(f"{type(model).__name__} cannot be surveyed: nothing was seen to leave {name}.")
            state = seen[index]
            equal = [at for at, theirs in enumerate(library.get(stack, ())) if _equal(state, theirs)]
            if index in sure and library.get(stack) and not equal:
                raise InputError(
                    f"{type(model).__name__} cannot be surveyed: what leaves {name} is none of transformers' "
                    "hidden_states; survey it by naming the modules to watch (theodolite.watch)."
                )
            dim = int(laid_out(state, flat=flat).rows.shape[1])
            layers.append(Layer(index, name, dim, equal[0] if equal else None, stack))
        ordered = "pixel_values" not in inputs or _has_class_token(model)
        return cls(model, tuple(layers), taps, len(laid_out(seen[0], flat=flat).rows), ordered)


def _stacks(model: nn.Module, inputs: Mapping[str, Tensor]) -> list[Stack]:
    halves = [(name, getattr(model, name, None)) for name in ("encoder", "decoder")]
    if getattr(model.config, "is_encoder_decoder", False):
        found = [(name, largest(lists_of(half))) for name, half in halves if isinstance(half, nn.Module)]
    else:
        lists, count = lists_of(model), getattr(model.config, "num_hidden_layers", None)
        found = [("", largest([blocks for blocks in lists if len(blocks) == count] or lists))]
    whole = [block for _, blocks in found for block in blocks or ()]
    stacks = []
    for name, blocks in found:
        if not blocks:
            raise InputError(
                f"{type(model).__name__}: no list of equal blocks or stages was found in it; survey it by naming "
                "the modules to watch (theodolite.watch)."
            )
        shapes, fed = _shapes(model, blocks, inputs)
        norm = final_norm_of(model, blocks, whole, inputs)
        staged = "Stage" in type(blocks[0]).__name__
        if (
            max(map(len, shapes)) == 4 and not staged
        ):  # maps: blocks of one shape are a stage, which the last leaves
            ends = [k for k, shape in enumerate(shapes) if k + 1 == len(shapes) or shapes[k + 1] != shape]
            blocks = tuple(blocks[k] for k in ends)
            stacks.append(Stack(name, blocks, norm, not fed, "stage"))
        else:
            stacks.append(Stack(name, blocks, norm, not fed, "stage" if staged else "block"))
    return stacks


def _shapes(
    model: nn.Module, blocks: Sequence[nn.Module], inputs: Mapping[str, Tensor]
) -> tuple[list[tuple[int, ...]], bool]:
    """Return the shape of what leaves each block, and whether the first is fed the model's own input."""
    taps = {0: Tap(blocks[0], entering=True)} | {k: Tap(block) for k, block in enumerate(blocks, start=1)}
    shapes: dict[int, tuple[int, ...]] = {}
    fed: list[bool] = []

    def take(index: int, state: Tensor) -> None:
        shapes[index] = tuple(state.shape)
        if index == 0:
            fed.append(any(state.shape == value.shape for value in inputs.values()))

    with watched(model, taps, take, taps) as forward:
        forward(**inputs)
    return [shapes[k] for k in range(1, len(blocks) + 1)], fed[0]


def _library(model: nn.Module, inputs: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, ...]]:
    with torch.no_grad():
        try:
            output: Any = model(**inputs, output_hidden_states=True)
        except TypeError:  # a module of one's own knows no such argument
            return {}
    names = {"": "hidden_states", "encoder": "encoder_hidden_states", "decoder": "decoder_hidden_states"}
    return {stack: getattr(output, name, None) or () for stack, name in names.items()}


def _equal(state: Tensor, theirs: Tensor) -> bool:
    """Say whether two states hold the same numbers, as a map or as a row of places."""
    theirs = first_of(theirs)
    if theirs.dim() == 4 and state.dim() == 3:
        theirs = theirs.flatten(2).transpose(1, 2)
    elif theirs.dim() == 3 and state.dim() == 4:
        state = state.flatten(2).transpose(1, 2)
    return same(state, theirs)


def _has_class_token(model: nn.Module) -> bool:
    names = ("cls_token", "class_token", "class_embedding")
    return any(name.endswith(names) for name, _ in model.named_parameters())
