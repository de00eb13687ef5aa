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

    @classmethod
    def of(cls, model: nn.Module) -> Anatomy:
        """Find the parts of a loaded model."""
        blocks = find_blocks(model)
        final_norm = _final_norm(model, blocks)
        bare = cls(model, blocks, final_norm, (), False)
        states, library = bare._look(_probe(model))
        other, _ = bare._look(_probe(model, change_last=True))
        layers = []
        for index, state in enumerate(states):
            equal = [i for i, theirs in enumerate(library) if torch.equal(state, theirs)]
            layers.append(Layer(index, bare._name(index), int(state.shape[-1]), equal[0] if equal else None))
        causal = torch.equal(states[len(blocks)][:, 0], other[len(blocks)][:, 0])
        return cls(model, blocks, final_norm, tuple(layers), causal)

    @contextmanager
    def watched(self, take: Take, wanted: Sequence[int]) -> Iterator[Callable[..., None]]:
        """Give a forward function that hands every wanted layer's states to `take` as they leave their block.

        States are not kept: one layer is alive at a time. Blocks above the last wanted layer are not run.
        """
        wanted_set, last = set(wanted), max(wanted)

        def seen(index: int, state: Any) -> None:
            if index in wanted_set:
                take(index, state[0] if isinstance(state, tuple) else state)
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
        return [states[index] for index in range(count)], library

    def _name(self, index: int) -> str:
        if index == 0:
            return "embeddings"
        return f"block {index}" if index <= len(self.blocks) else "final norm"


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
        last.append(output[0] if isinstance(output, tuple) else output)

    def compare(module: nn.Module, args: Any, output: Any) -> None:
        # By value, since models reshape or slice between the block and the norm.
        if last and args and args[0].shape == last[0].shape and torch.equal(args[0], last[0]):
            found.append(module)

    with ExitStack() as hooks, torch.no_grad():
        hooks.callback(blocks[-1].register_forward_hook(remember).remove)
        for norm in norms:
            hooks.callback(norm.register_forward_hook(compare).remove)
        model(**_probe(model))
    return found[0] if found else None


def _probe(model: nn.Module, change_last: bool = False) -> dict[str, Tensor]:
    """Make a short input: a handful of ids from the middle of the vocabulary, clear of the special ones."""
    config: Any = model.config
    vocabulary = int(config.vocab_size)
    ids = torch.arange(7) % max(vocabulary - vocabulary // 2, 1) + vocabulary // 2
    if change_last:
        ids[-1] = ids[0]
    device = next(model.parameters()).device
    return {
        "input_ids": ids[None].to(device),
        "attention_mask": torch.ones(1, 7, dtype=torch.int64, device=device),
    }
