"""Anatomy: where a model's blocks are, and what leaves each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.errors import InputError
from theodolite.sources.layers import Layer

Take = Callable[[int, Tensor], None]


@dataclass(frozen=True)
class Anatomy:
    """A model's blocks and final norm, found by looking and checked by one small forward pass."""

    model: nn.Module
    blocks: tuple[nn.Module, ...]
    final_norm: nn.Module | None
    layers: tuple[Layer, ...]
    causal: bool  # a position sees only what stands to its left
    pads: bool  # padding on the right, masked, leaves the states as they are

    @classmethod
    def of(cls, model: nn.Module) -> Anatomy:
        """Find the parts of a loaded model."""
        blocks = find_blocks(model)
        final_norm = _final_norm(model, blocks)
        bare = cls(model, blocks, final_norm, (), causal=False, pads=False)
        states, library = bare._look(probe(model))
        other, _ = bare._look(probe(model, change_last=True))
        padded, _ = bare._look(probe(model, pads=5))
        layers = []
        for index, state in enumerate(states):
            equal = [i for i, theirs in enumerate(library) if _same(state, theirs)]
            layers.append(Layer(index, bare._name(index), int(state.shape[-1]), equal[0] if equal else None))
            if not equal and 0 < index < len(blocks):  # only the last may differ: some libraries norm it first
                raise bare._odd(f"what leaves {bare._name(index)} is none of transformers' hidden_states")
        top = len(blocks)
        causal = _same(states[top][:, 0], other[top][:, 0])
        return cls(model, blocks, final_norm, tuple(layers), causal, _close(states[top], padded[top]))

    @contextmanager
    def watched(self, take: Take, wanted: Sequence[int]) -> Iterator[Callable[..., None]]:
        """Give a forward function that hands every wanted layer's states to `take` as they leave their block.

        States are not kept: one layer is alive at a time. Blocks above the last wanted layer are not run.
        """
        wanted_set, last = set(wanted), max(wanted)

        def seen(index: int, state: Any) -> None:
            if index in wanted_set:
                take(index, first_of(state))
            if index == last:
                raise _Enough

        def entering(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            seen(0, args[0] if args else kwargs["hidden_states"])

        def leaving(index: int) -> Callable[[nn.Module, Any, Any], None]:
            return lambda module, args, output: seen(index, output)

        def forward(**inputs: Tensor) -> None:
            try:
                self.model(**inputs)
            except _Enough:
                return

        with ExitStack() as hooks, torch.no_grad():
            hooks.callback(self.blocks[0].register_forward_pre_hook(entering, with_kwargs=True).remove)
            for number, block in enumerate(self.blocks, start=1):
                hooks.callback(block.register_forward_hook(leaving(number)).remove)
            if self.final_norm is not None:
                hooks.callback(self.final_norm.register_forward_hook(leaving(len(self.blocks) + 1)).remove)
            yield forward

    def _look(self, inputs: dict[str, Tensor]) -> tuple[list[Tensor], tuple[Tensor, ...]]:
        """Run once through the hooks and once as transformers does, and return both sets of states."""
        states: dict[int, Tensor] = {}
        count = len(self.blocks) + (2 if self.final_norm is not None else 1)
        with self.watched(lambda index, state: states.update({index: state.clone()}), range(count)) as forward:
            forward(**inputs)
        with torch.no_grad():
            library = self.model(**inputs, output_hidden_states=True).hidden_states
        for index in range(count):
            if index not in states:
                raise self._odd(f"nothing was seen to leave {self._name(index)}")
            # Some models swap the axes, or pad to a length of their own: rows would be taken for others.
            if states[index].shape[:-1] != inputs["input_ids"].shape:
                wanted, came = tuple(inputs["input_ids"].shape), tuple(states[index].shape)
                raise self._odd(f"{self._name(index)} has the shape {came} for {wanted} tokens")
        return [states[index] for index in range(count)], library

    def _odd(self, what: str) -> InputError:
        return InputError(f"{type(self.model).__name__} cannot be surveyed: {what}.")

    def _name(self, index: int) -> str:
        if index == 0:
            return "embeddings"
        return f"block {index}" if index <= len(self.blocks) else "final norm"


def _same(one: Tensor, other: Tensor) -> bool:
    """Say whether two tensors are equal, NaN for NaN: a layer that overflows is told of later, by name."""
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


def _close(states: Tensor, padded: Tensor) -> bool:
    """Say whether states are those of the padded input but for rounding. FNet and ConvBERT mix the padding in."""
    apart = (padded[:, : states.shape[1]] - states).float().norm() / states.float().norm()
    return bool(apart < torch.finfo(states.dtype).eps ** 0.5)


def first_of(state: Any) -> Any:
    """Return the states out of what a block gives: some give a tuple or a list that begins with them."""
    return state[0] if isinstance(state, tuple | list) else state


class _Enough(Exception):  # noqa: N818 - no error: it ends a forward pass early
    pass


def find_blocks(model: nn.Module) -> tuple[nn.Module, ...]:
    """Return the transformer blocks: the list of equal modules that is as long as the configuration says."""
    config: Any = model.config
    name = type(model).__name__
    if getattr(config, "is_encoder_decoder", False):
        raise InputError(f"{name} has an encoder and a decoder; surveys read models with one stack so far.")
    count = getattr(config, "num_hidden_layers", None)
    lists = [tuple(module) for module in model.modules() if isinstance(module, nn.ModuleList)]
    stacks = [stack for stack in lists if len(stack) == count and len({type(block) for block in stack}) == 1]
    if not stacks:
        raise InputError(
            f"{name}: no list of {count} equal blocks was found in it, so its layers cannot be told apart "
            "(some models share one block between layers)."
        )
    return max(stacks, key=lambda stack: sum(p.numel() for block in stack for p in block.parameters()))


def _final_norm(model: nn.Module, blocks: Sequence[nn.Module]) -> nn.Module | None:
    """Return the norm that takes in what the last block gives out, if the model has one."""
    inside = {id(module) for block in blocks for module in block.modules()}
    norms = [m for m in model.modules() if "norm" in type(m).__name__.lower() and id(m) not in inside]
    last: list[Tensor] = []
    found: list[nn.Module] = []

    def remember(_: nn.Module, args: Any, output: Any) -> None:
        last.append(first_of(output))

    def compare(module: nn.Module, args: Any, output: Any) -> None:
        # By value, since models reshape or slice between the block and the norm.
        if last and args and _same(args[0], last[0]):
            found.append(module)

    with ExitStack() as hooks, torch.no_grad():
        hooks.callback(blocks[-1].register_forward_hook(remember).remove)
        for norm in norms:
            hooks.callback(norm.register_forward_hook(compare).remove)
        model(**probe(model))
    return found[0] if found else None


def probe(model: nn.Module, change_last: bool = False, pads: int = 0) -> dict[str, Tensor]:
    """Make a short input: a handful of ids from the middle of the vocabulary, clear of the special ones."""
    config: Any = model.config
    if not getattr(config, "vocab_size", None):
        raise InputError(f"{type(model).__name__} cannot be surveyed: its configuration names no vocabulary.")
    vocabulary = int(config.vocab_size)
    ids = torch.arange(7) % max(vocabulary - vocabulary // 2, 1) + vocabulary // 2
    if change_last:
        ids[-1] = ids[0]
    device = next(model.parameters()).device
    filler = torch.full((pads,), int(getattr(config, "pad_token_id", None) or 0))
    mask = torch.cat([torch.ones_like(ids), torch.zeros_like(filler)])
    return {"input_ids": torch.cat([ids, filler])[None].to(device), "attention_mask": mask[None].to(device)}
