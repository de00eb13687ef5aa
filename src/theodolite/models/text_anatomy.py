"""The anatomy of a text model: its stacks of blocks, its layers, and whether it is causal and can be padded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.errors import InputError, first_line
from theodolite.models import quirks
from theodolite.models.device_map import input_device
from theodolite.models.hooks import HookPoint, OnStates, hook_layers, read_layers
from theodolite.models.layers import Layer
from theodolite.models.residual_writes import WriteSearch
from theodolite.models.stacks import (
    Stack,
    equal_states,
    find_equal,
    find_final_norm,
    find_module_lists,
    largest_list,
)
from theodolite.models.streams import Streams


@dataclass(frozen=True)
class Anatomy:
    """The stacks of blocks of a model, found by inspection and checked with small forward passes."""

    model: nn.Module
    stacks: tuple[Stack, ...]
    layers: tuple[Layer, ...]
    causal: bool  # a position depends only on positions to its left
    pads: bool  # masked padding on the right does not change the states
    devices: tuple[torch.device, ...] = ()  # where the states of each layer appear

    @property
    def complete(self) -> bool:
        """Whether a forward pass must not be interrupted, as in a model that is sharded over processes."""
        return bool(getattr(self.model, "runs_completely", False))

    @classmethod
    def of(cls, model: nn.Module) -> Anatomy:
        """Find the parts of a loaded model."""
        stacks = _stacks(model)
        library = _library_states(model)
        inside = [block for stack in stacks for block in stack.blocks]
        stacks = tuple(
            replace(stack, final_norm=find_final_norm(model, stack.blocks, inside, make_probe(model)))
            for stack in stacks
        )
        unchecked = cls(model, stacks, (), causal=False, pads=False)
        states = unchecked._run(make_probe(model))
        other = unchecked._run(make_probe(model, change_last=True))
        padded = unchecked._run(make_probe(model, pads=5))
        tokens = int(make_probe(model)["input_ids"].shape[1])
        inner = unchecked._inner_layers()
        on_cpu = {stack: [state.cpu() for state in found] for stack, found in library.items()}
        layers = []
        for index, ((stack, name, _), state) in enumerate(zip(unchecked._hook_points(), states, strict=True)):
            equal = find_equal(state.cpu(), on_cpu.get(stack, on_cpu[""]))
            has_units = state.shape[1] == tokens
            layers.append(Layer(index, name, int(state.shape[-1]), equal, stack, has_units))
            if equal is None and index in inner:  # only the last may differ: transformers may apply the norm first
                raise unchecked._unsupported(f"the output of {name} is not in the hidden_states of transformers")
        top = len(layers) - (1 if stacks[-1].final_norm is None else 2)  # the output of the last block
        causal = len(stacks) == 1 and equal_states(states[top][:, 0], other[top][:, 0])
        pads = all(layer.units for layer in layers) and _close(states[top], padded[top])
        return cls(model, stacks, tuple(layers), causal, pads, tuple(state.device for state in states))

    @property
    def blocks(self) -> tuple[nn.Module, ...]:
        """All blocks, in the order in which they run."""
        return tuple(block for stack in self.stacks for block in stack.blocks)

    @property
    def final_norm(self) -> nn.Module | None:
        """The norm after the last block, where there is one."""
        found = self.stacks[-1].final_norm
        return None if found is None else found.module

    def hook_layers(
        self, on_states: OnStates, layers: Sequence[int], last: int | None = None
    ) -> AbstractContextManager[Callable[..., dict[int, int]]]:
        """Give a forward function that passes the states of each of these layers to `on_states`.

        The model runs up to the layer `last`, by default the last of these.
        """
        return hook_layers(self.model, self._points(), on_states, layers, last=last, complete=self.complete)

    def read_layers(self, on_states: OnStates, layers: Sequence[int]) -> AbstractContextManager[object]:
        """Pass the states of each of these layers to `on_states` while others run the model."""
        return read_layers(self._points(), on_states, layers)

    def _points(self) -> dict[int, HookPoint]:
        return {index: point for index, (_, _, point) in enumerate(self._hook_points())}

    @cached_property
    def residual_writes(self) -> dict[int, tuple[nn.Module, ...]]:
        """By the id of a block, the modules whose outputs are added to the residual stream, if they are found."""
        with torch.no_grad(), ExitStack() as stack:
            searches = [stack.enter_context(WriteSearch(each.blocks[0])) for each in self.stacks]
            self.model(**make_probe(self.model))
        found = {}
        for each, search in zip(self.stacks, searches, strict=True):
            paths = (search.find() or {}) if search.ends else {}
            for block in each.blocks if paths else ():
                with suppress(AttributeError):  # a block that differs from the first
                    found[id(block)] = tuple(block.get_submodule(path) for path in paths.values())
        return found

    def find_streams(self) -> Streams:
        """Find the streams of all blocks: queries, keys, values, and what is written to the residual stream."""
        return Streams.of(self.model, self.stacks, self.layers, lambda: self.model(**make_probe(self.model)))

    def _hook_points(self) -> list[tuple[str, str, HookPoint]]:
        """Return the stack, the layer name and the hook point of every layer."""
        return [(stack.name, name, point) for stack in self.stacks for name, point in stack.hook_points()]

    def _inner_layers(self) -> set[int]:
        """Return the numbers of the layers after a block that is not the last of its stack."""
        found, begin = set(), 0
        for stack in self.stacks:
            found |= set(range(begin + 1, begin + len(stack.blocks)))
            begin += len(stack.hook_points())
        return found

    def _run(self, inputs: dict[str, Tensor]) -> list[Tensor]:
        """Run with hooks, and return the states of all layers."""
        states: dict[int, Tensor] = {}
        names = [name for _, name, _ in self._hook_points()]
        count = len(names)
        with self.hook_layers(lambda index, state: states.update({index: state.clone()}), range(count)) as forward:
            forward(**inputs)
        expected = tuple(inputs["input_ids"].shape)
        shrinks = quirks.downsamples(self.model.config)
        for index, name in enumerate(names):
            if index not in states:
                raise self._unsupported(f"{name} was not reached in a forward pass")
            # Some models swap the axes or pad to a multiple of a length: rows would be attributed to other tokens.
            shape = tuple(states[index].shape)
            if shape[:2] == expected and len(shape) == 4:
                raise self._unsupported(
                    f"in {name} each token has {shape[2]} vectors of {shape[3]} coordinates beside each other, "
                    "and surveys require one vector per token"
                )
            if shape[:-1] != expected and not (shrinks and shape[0] == expected[0] and shape[1] < expected[1]):
                raise self._unsupported(f"{name} has the shape {shape} for {expected} tokens")
        return [states[index] for index in range(count)]

    def _unsupported(self, reason: str) -> InputError:
        return InputError(f"{type(self.model).__name__} cannot be surveyed: {reason}.")


def _library_states(model: nn.Module) -> dict[str, tuple[Tensor, ...]]:
    """Return the hidden states of transformers by stack.

    Raises if the model requires more than text, or if its decoder has a separate vocabulary.
    """
    try:
        with torch.no_grad():
            output = model(**make_probe(model), output_hidden_states=True)
    except (IndexError, KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        line = first_line(error)
        raise InputError(
            f"{type(model).__name__} cannot be surveyed: it does not run on a few tokens of its "
            f"vocabulary. ({line})"
        ) from error
    states = {name: getattr(output, f"{name}_hidden_states", None) for name in ("encoder", "decoder")}
    return {"": getattr(output, "hidden_states", None) or ()} | {
        name: found for name, found in states.items() if found
    }


def _close(states: Tensor, padded: Tensor) -> bool:
    """Return whether padding changes states only by rounding. FNet and ConvBERT mix the padding in."""
    distance = (padded[:, : states.shape[1]] - states).float().norm() / states.float().norm()
    return bool(distance < torch.finfo(states.dtype).eps ** 0.5)


def _stacks(model: nn.Module) -> tuple[Stack, ...]:
    """Return the stacks of a model in the order in which they run."""
    config: Any = model.config
    quirks.check_attention(model)
    if (special := quirks.canine_stacks(model) or quirks.albert_stacks(model)) is not None:
        return special
    if getattr(config, "is_encoder_decoder", False):
        halves = {"encoder": getattr(model, "encoder", None), "decoder": getattr(model, "decoder", None)}
        found = {name: largest_list(find_module_lists(half)) for name, half in halves.items() if half is not None}
        if len(found) < 2:
            raise InputError(
                f"{type(model).__name__} is a part of an encoder-decoder model. Survey the whole model, or set "
                "model.config.is_encoder_decoder = False to survey this part by itself."
            )
        if None in found.values():
            raise InputError(
                f"{type(model).__name__} has an encoder and a decoder, but their blocks were not found."
            )
        return tuple(Stack(name, blocks) for name, blocks in found.items() if blocks)
    return (Stack("", find_blocks(model)),)


def find_blocks(model: nn.Module) -> tuple[nn.Module, ...]:
    """Return the transformer blocks: the largest list of modules of the length that the configuration states."""
    count = getattr(model.config, "num_hidden_layers", None)
    found = None if count is None else largest_list(find_module_lists(model, count))
    if found is None:
        raise InputError(f"{type(model).__name__} {_explain_no_blocks(model, count)}")
    return found


def _explain_no_blocks(model: nn.Module, count: int | None) -> str:
    """Return why no list of blocks was found, as the rest of a sentence about the model, and what to do."""
    config: Any = model.config
    text_config = config.get_text_config() if hasattr(config, "get_text_config") else config
    if text_config is not config:
        parts = ((path, getattr(part, "config", None)) for path, part in model.named_modules() if path)
        path = next((path for path, part in parts if type(part) is type(text_config)), None)
        if path is not None:
            return (
                "reads more than text, so it is not surveyed as a whole. Load it with transformers, and give "
                f"theodolite.survey its language model, model.base_model.{path}, with the tokenizer."
            )
    if count is None:
        return "cannot be surveyed: its configuration states no number of layers (num_hidden_layers)."
    lengths = " and ".join(map(str, sorted({len(found) for found in find_module_lists(model)})))
    return (
        f"contains no list of {count} blocks, the number of layers that its configuration states"
        f"{f' (its lists have {lengths})' if lengths else ''}, so its layers cannot be identified (some models "
        "share one block between layers)."
    )


def make_probe(model: nn.Module, change_last: bool = False, pads: int = 0) -> dict[str, Tensor]:
    """Make a short input: seven ids from the middle of the vocabulary, away from the special ones."""
    config: Any = model.config
    size = quirks.vocabulary_size(config)
    if not size:
        raise InputError(
            f"{type(model).__name__} cannot be surveyed: its configuration states no vocabulary size."
        )
    vocabulary = int(size)
    ids = torch.arange(7) % max(vocabulary - vocabulary // 2, 1) + vocabulary // 2
    if change_last:
        ids[-1] = ids[0]
    device = input_device(model)
    filler = torch.full((pads,), int(getattr(config, "pad_token_id", None) or 0))
    mask = torch.cat([torch.ones_like(ids), torch.zeros_like(filler)])
    inputs = {"input_ids": torch.cat([ids, filler])[None].to(device), "attention_mask": mask[None].to(device)}
    if getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = inputs["input_ids"]
    return inputs
