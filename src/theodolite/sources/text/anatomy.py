"""Anatomy: where a model's blocks are, and what leaves each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.errors import InputError, first_line
from theodolite.sources.layers import Layer
from theodolite.sources.stacks import Stack, final_norm_of, largest, lists_of, same
from theodolite.sources.taps import Take, Tap, watched

CODE_POINTS = 0xD000  # CANINE reads code points and names no vocabulary; these are ordinary ones


@dataclass(frozen=True)
class Anatomy:
    """A model's stacks of blocks, found by looking and checked by one small forward pass."""

    model: nn.Module
    stacks: tuple[Stack, ...]
    layers: tuple[Layer, ...]
    causal: bool  # a position sees only what stands to its left
    pads: bool  # padding on the right, masked, leaves the states as they are

    @classmethod
    def of(cls, model: nn.Module) -> Anatomy:
        """Find the parts of a loaded model."""
        stacks = _stacks(model)
        _try(model)
        inside = [block for stack in stacks for block in stack.blocks]
        stacks = tuple(
            replace(stack, final_norm=final_norm_of(model, stack.blocks, inside, probe(model))) for stack in stacks
        )
        bare = cls(model, stacks, (), causal=False, pads=False)
        states, library = bare._look(probe(model))
        other, _ = bare._look(probe(model, change_last=True))
        padded, _ = bare._look(probe(model, pads=5))
        tokens = int(probe(model)["input_ids"].shape[1])
        inner = bare._inner()
        layers = []
        for index, ((stack, name, _), state) in enumerate(zip(bare._named(), states, strict=True)):
            equal = [i for i, theirs in enumerate(library.get(stack, library[""])) if same(state, theirs)]
            whole = state.shape[1] == tokens
            at = equal[0] if equal else None
            layers.append(Layer(index, name, int(state.shape[-1]), at, stack, whole))
            if not equal and index in inner:  # only the last may differ: some libraries norm it first
                raise bare._odd(f"what leaves {name} is none of transformers' hidden_states")
        top = len(layers) - (1 if stacks[-1].final_norm is None else 2)  # what leaves the last block
        causal = len(stacks) == 1 and same(states[top][:, 0], other[top][:, 0])
        pads = all(layer.units for layer in layers) and _close(states[top], padded[top])
        return cls(model, stacks, tuple(layers), causal, pads)

    @property
    def blocks(self) -> tuple[nn.Module, ...]:
        """All blocks, in the order in which they run."""
        return tuple(block for stack in self.stacks for block in stack.blocks)

    @property
    def final_norm(self) -> nn.Module | None:
        """The norm after the last block, where there is one."""
        return self.stacks[-1].final_norm

    def watched(self, take: Take, wanted: Sequence[int]) -> AbstractContextManager[Callable[..., None]]:
        """Give a forward function that hands every wanted layer's states to `take` as they leave their block."""
        taps = {index: tap for index, (_, _, tap) in enumerate(self._named())}
        return watched(self.model, taps, take, wanted)

    def _named(self) -> list[tuple[str, str, Tap]]:
        """Return stack, layer name and tap of every layer."""
        return [(stack.name, name, tap) for stack in self.stacks for name, tap in stack.taps()]

    def _inner(self) -> set[int]:
        """Return the numbers of layers that leave a block which is not its stack's last."""
        found, begin = set(), 0
        for stack in self.stacks:
            found |= set(range(begin + 1, begin + len(stack.blocks)))
            begin += len(stack.taps())
        return found

    def _look(self, inputs: dict[str, Tensor]) -> tuple[list[Tensor], dict[str, tuple[Tensor, ...]]]:
        """Run once through the hooks and once as transformers does, and return both sets of states."""
        states: dict[int, Tensor] = {}
        names = [name for _, name, _ in self._named()]
        count = len(names)
        with self.watched(lambda index, state: states.update({index: state.clone()}), range(count)) as forward:
            forward(**inputs)
        with torch.no_grad():
            output = self.model(**inputs, output_hidden_states=True)
        library = {
            "": getattr(output, "hidden_states", None) or (),
            "encoder": getattr(output, "encoder_hidden_states", None) or (),
            "decoder": getattr(output, "decoder_hidden_states", None) or (),
        }
        wanted = tuple(inputs["input_ids"].shape)
        shrinks = getattr(self.model.config, "downsampling_rate", None) is not None
        for index, name in enumerate(names):
            if index not in states:
                raise self._odd(f"nothing was seen to leave {name}")
            # Some models swap the axes, or pad to a length of their own: rows would be taken for others.
            came = tuple(states[index].shape)
            if came[:-1] != wanted and not (shrinks and came[0] == wanted[0] and came[1] < wanted[1]):
                raise self._odd(f"{name} has the shape {came} for {wanted} tokens")
        return [states[index] for index in range(count)], {k: v for k, v in library.items() if k == "" or v}

    def _odd(self, what: str) -> InputError:
        return InputError(f"{type(self.model).__name__} cannot be surveyed: {what}.")


def _try(model: nn.Module) -> None:
    """Refuse a model that does not take text alone, or whose decoder has a vocabulary of its own."""
    try:
        with torch.no_grad():
            model(**probe(model))
    except (IndexError, KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        line = first_line(error)
        raise InputError(
            f"{type(model).__name__} cannot be surveyed: it does not run on a few tokens of its "
            f"vocabulary. ({line})"
        ) from error


def _close(states: Tensor, padded: Tensor) -> bool:
    """Say whether states are those of the padded input but for rounding. FNet and ConvBERT mix the padding in."""
    apart = (padded[:, : states.shape[1]] - states).float().norm() / states.float().norm()
    return bool(apart < torch.finfo(states.dtype).eps ** 0.5)


def _stacks(model: nn.Module) -> tuple[Stack, ...]:
    """Return a model's stacks in the order in which they run."""
    config: Any = model.config
    if getattr(config, "attention_type", None) == "block_sparse":
        raise InputError(
            f"{type(model).__name__} cannot be surveyed: its sparse attention turns itself off for good at the "
            'first short text; set "attention_type": "original_full" in its config.json.'
        )
    if config.model_type == "canine":  # characters, then every fourth, then characters again
        return (
            Stack("characters", tuple(model.initial_char_encoder.layer)),  # type: ignore[union-attr, arg-type]
            Stack("downsampled", tuple(model.encoder.layer)),  # type: ignore[union-attr, arg-type]
            Stack("final characters", tuple(model.final_char_encoder.layer)),  # type: ignore[union-attr, arg-type]
        )
    if getattr(config, "is_encoder_decoder", False):
        halves = {"encoder": getattr(model, "encoder", None), "decoder": getattr(model, "decoder", None)}
        found = {name: largest(lists_of(half)) for name, half in halves.items() if half is not None}
        if len(found) < 2 or None in found.values():
            raise InputError(f"{type(model).__name__} has an encoder and a decoder, whose blocks were not found.")
        return tuple(Stack(name, blocks) for name, blocks in found.items() if blocks)
    return (Stack("", find_blocks(model)),)


def find_blocks(model: nn.Module) -> tuple[nn.Module, ...]:
    """Return the transformer blocks: the list of equal modules that is as long as the configuration says."""
    count = getattr(model.config, "num_hidden_layers", None)
    found = largest([stack for stack in lists_of(model) if len(stack) == count])
    if found is None:
        raise InputError(
            f"{type(model).__name__}: no list of {count} equal blocks was found in it, so its layers cannot be "
            "told apart (some models share one block between layers)."
        )
    return found


def probe(model: nn.Module, change_last: bool = False, pads: int = 0) -> dict[str, Tensor]:
    """Make a short input: a handful of ids from the middle of the vocabulary, clear of the special ones."""
    config: Any = model.config
    size = CODE_POINTS if config.model_type == "canine" else getattr(config, "vocab_size", None)
    if not size:
        raise InputError(f"{type(model).__name__} cannot be surveyed: its configuration names no vocabulary.")
    vocabulary = int(size)
    ids = torch.arange(7) % max(vocabulary - vocabulary // 2, 1) + vocabulary // 2
    if change_last:
        ids[-1] = ids[0]
    device = next(model.parameters()).device
    filler = torch.full((pads,), int(getattr(config, "pad_token_id", None) or 0))
    mask = torch.cat([torch.ones_like(ids), torch.zeros_like(filler)])
    inputs = {"input_ids": torch.cat([ids, filler])[None].to(device), "attention_mask": mask[None].to(device)}
    if getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = inputs["input_ids"]
    return inputs
