"""Stacks: the runs of equal blocks that states pass through, found by looking at the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.sources.taps import Tap, first_of


@dataclass(frozen=True)
class Stack:
    """Blocks one after the other, and the norm that takes in what the last one gives, if there is one."""

    name: str  # "" where a model has one stack
    blocks: tuple[nn.Module, ...]
    final_norm: nn.Module | None = None
    embeddings: bool = True  # whether what enters the first block is a state of its own
    word: str = "block"

    def taps(self) -> list[tuple[str, Tap]]:
        """Return the places where states are taken, in order, with the names of their layers."""
        found = [("embeddings", Tap(self.blocks[0], entering=True))] if self.embeddings else []
        found += [(f"{self.word} {number}", Tap(block)) for number, block in enumerate(self.blocks, start=1)]
        if self.final_norm is not None:
            found.append(("final norm", Tap(self.final_norm)))
        return [(f"{self.name} {name}".strip(), tap) for name, tap in found]


def lists_of(root: nn.Module) -> list[tuple[nn.Module, ...]]:
    """Return the lists of modules of one type in a model, outer ones before those inside them."""
    lists = [tuple(module) for module in root.modules() if isinstance(module, nn.ModuleList) and len(module)]
    return [found for found in lists if len({type(block) for block in found}) == 1]


def largest(lists: Sequence[tuple[nn.Module, ...]]) -> tuple[nn.Module, ...] | None:
    """Return the list with most parameters, the outermost of equal ones: that is where a model's depth is."""
    return max(
        lists, key=lambda found: sum(p.numel() for block in found for p in block.parameters()), default=None
    )


def final_norm_of(
    model: nn.Module, blocks: Sequence[nn.Module], all_blocks: Sequence[nn.Module], inputs: Mapping[str, Tensor]
) -> nn.Module | None:
    """Return the norm that takes in what the last of these blocks gives out, if the model has one."""
    inside = {id(module) for block in all_blocks for module in block.modules()}
    norms = [m for m in model.modules() if "norm" in type(m).__name__.lower() and id(m) not in inside]
    last: list[Tensor] = []
    found: list[nn.Module] = []

    def remember(_: nn.Module, args: Any, output: Any) -> None:
        last.append(first_of(output))

    def compare(module: nn.Module, args: Any, output: Any) -> None:
        # By value, since models reshape or slice between the block and the norm.
        if last and args and same(args[0], last[0]):
            found.append(module)

    with ExitStack() as hooks, torch.no_grad():
        hooks.callback(blocks[-1].register_forward_hook(remember).remove)
        for norm in norms:
            hooks.callback(norm.register_forward_hook(compare).remove)
        model(**inputs)
    return found[0] if found else None


def same(one: Tensor, other: Tensor) -> bool:
    """Say whether two tensors are equal, NaN for NaN: a layer that overflows is told of later, by name."""
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())
