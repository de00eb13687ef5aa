"""Stacks: sequences of equal blocks, found by inspecting the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.models.hooks import HookPoint, first_tensor

FIRST = 16
"""Coordinates in which nearly all different states differ."""


@dataclass(frozen=True)
class Stack:
    """Consecutive blocks, and the norm that is applied to the output of the last one, if there is one.

    A block that layers share is listed once for every layer.
    """

    name: str  # "" if a model has one stack
    blocks: tuple[nn.Module, ...]
    final_norm: HookPoint | None = None
    embeddings: bool = True  # whether the input of the first block is a layer of its own
    word: str = "block"

    def hook_points(self) -> list[tuple[str, HookPoint]]:
        """Return the hook points in order, with the names of their layers."""
        calls = number_calls(self.blocks)
        found = [("embeddings", HookPoint(self.blocks[0], True, calls[0]))] if self.embeddings else []
        found += [
            (f"{self.word} {number}", HookPoint(block, call=call))
            for number, (block, call) in enumerate(zip(self.blocks, calls, strict=True), start=1)
        ]
        if self.final_norm is not None:
            found.append(("final norm", self.final_norm))
        return [(f"{self.name} {name}".strip(), point) for name, point in found]


def number_calls(blocks: Sequence[nn.Module]) -> list[int | None]:
    """Return for each layer which call of its block it is, from 0; None if no other layer has the same block.

    >>> one, other = nn.Identity(), nn.Identity()
    >>> number_calls([one, one, other])
    [0, 1, None]
    """
    seen = [[id(block) for block in blocks[:place]].count(id(one)) for place, one in enumerate(blocks)]
    times = Counter(map(id, blocks))
    return [call if times[id(block)] > 1 else None for call, block in zip(seen, blocks, strict=True)]


def find_module_lists(root: nn.Module, length: int | None = None) -> list[tuple[nn.Module, ...]]:
    """Return the lists of modules in a model, outer lists before inner ones: those of this length, or of one type.

    The blocks of a hybrid model, such as Jamba, are of several types: a list of them is known only by its length.
    """
    lists = [tuple(module) for module in root.modules() if isinstance(module, nn.ModuleList) and len(module)]
    if length is not None:
        return [found for found in lists if len(found) == length]
    return [found for found in lists if len({type(block) for block in found}) == 1]


def largest_list(lists: Sequence[tuple[nn.Module, ...]]) -> tuple[nn.Module, ...] | None:
    """Return the list with the most parameters, the outermost of equal ones: these are the blocks."""
    return max(
        lists, key=lambda found: sum(p.numel() for block in found for p in block.parameters()), default=None
    )


def find_final_norm(
    model: nn.Module, blocks: Sequence[nn.Module], all_blocks: Sequence[nn.Module], inputs: Mapping[str, Tensor]
) -> HookPoint | None:
    """Return the norm that is applied to the output of the last of these blocks, if the model has one.

    The same module may be called before the first block too, as in NanoChat.
    """
    inside = {id(module) for block in all_blocks for module in block.modules()}
    norms = [m for m in model.modules() if "norm" in type(m).__name__.lower() and id(m) not in inside]
    last: list[Tensor] = []
    found: list[tuple[nn.Module, int]] = []
    calls: Counter[nn.Module] = Counter()

    def remember(_: nn.Module, args: Any, output: Any) -> None:
        last.append(first_tensor(output))

    def compare(module: nn.Module, args: Any, output: Any) -> None:
        # By value, because models reshape or slice between the block and the norm.
        if last and args and equal_states(args[0], last[-1]):
            found.append((module, calls[module]))
        calls[module] += 1

    with ExitStack() as hooks, torch.no_grad():
        hooks.callback(blocks[-1].register_forward_hook(remember).remove)
        for norm in norms:
            hooks.callback(norm.register_forward_hook(compare).remove)
        model(**inputs)
    if not found:
        return None
    norm, call = found[0]
    return HookPoint(norm, call=call if calls[norm] > 1 else None)


def equal_states(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors are equal, NaN for NaN: a layer that overflows is reported later, by name."""
    if one.shape != other.shape:
        return False
    other = other.to(one.device)  # a model may be spread over devices
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def find_equal(state: Tensor, others: Sequence[Tensor]) -> int | None:
    """Return the index of the first of the tensors that equals the state, or None. (..., dim) each

    The first coordinates are compared before all others. On a GPU every comparison would wait for the device.

    >>> find_equal(torch.ones(3), [torch.zeros(3), torch.ones(2), torch.ones(3)])
    2
    """
    for index, other in enumerate(others):
        if equal_states(state[..., :FIRST], other[..., :FIRST]) and equal_states(state, other):
            return index
    return None
