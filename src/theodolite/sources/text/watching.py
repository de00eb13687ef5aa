"""One forward pass watched closely: what every module of every block took in and gave out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.sources.taps import first_of
from theodolite.sources.text.anatomy import Anatomy, probe


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a module, as rows of the block's width. All (tokens, dim)."""

    module: nn.Module
    key: tuple[int, int]  # which module, and which of its calls
    given: tuple[Tensor, ...]  # the arguments that are rows
    gave: Tensor
    alone: bool  # it took one argument and nothing else

    def without_first(self) -> Call:
        """Return the same without the first row."""
        return replace(self, given=tuple(given[1:] for given in self.given), gave=self.gave[1:])


@dataclass
class Pass:
    """What was seen: what entered and left each block, the calls in each, and the calls outside of all."""

    entered: list[Tensor] = field(default_factory=list)
    left: list[Tensor] = field(default_factory=list)
    calls: list[list[Call]] = field(default_factory=list)
    outside: list[Call] = field(default_factory=list)


def watch(anatomy: Anatomy, entered: Sequence[Tensor] | None = None) -> Pass:
    """Run the probe and keep what the modules took and gave.

    With `entered`, every block is given that input instead, its first row exchanged for its last.
    """
    inputs = probe(anatomy.model)
    rows = int(inputs["input_ids"].shape[1])
    seen = Pass(calls=[[] for _ in anatomy.blocks])
    inside: set[int] = set()
    with ExitStack() as hooks, torch.no_grad():
        for number, block in enumerate(anatomy.blocks):
            exchanged = None if entered is None else _exchanged(entered[number])
            pre = _entering(seen.entered, rows, exchanged)
            hooks.callback(block.register_forward_pre_hook(pre, with_kwargs=True).remove)
            parts = [module for module in block.modules() if module is not block]
            inside |= {id(module) for module in (block, *parts)}
            for module in parts:
                noted = _noting(seen.calls[number], rows, anatomy.layers[number + 1].dim)
                hooks.callback(module.register_forward_hook(noted, with_kwargs=True).remove)
            hooks.callback(block.register_forward_hook(_leaving(seen.left, rows)).remove)
        for module in anatomy.model.modules():
            if id(module) not in inside and not isinstance(module, nn.ModuleList):
                noted = _noting(seen.outside, rows, anatomy.layers[0].dim)
                hooks.callback(module.register_forward_hook(noted, with_kwargs=True).remove)
        anatomy.model(**inputs)
    return seen


def _exchanged(state: Tensor) -> Tensor:
    return torch.cat([state[-1:], state[1:]])


def _entering(kept: list[Tensor], rows: int, exchanged: Tensor | None) -> Callable[..., Any]:
    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state = args[0] if args else kwargs["hidden_states"]
        if exchanged is not None:
            state = exchanged.to(state.device).reshape(state.shape)
        kept.append(state.detach().reshape(rows, -1).cpu().clone())
        return ((state, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": state})

    return hook


def _leaving(kept: list[Tensor], rows: int) -> Callable[..., None]:
    def hook(_: nn.Module, args: Any, output: Any) -> None:
        kept.append(first_of(output).detach().reshape(rows, -1).cpu().clone())

    return hook


def _noting(kept: list[Call], rows: int, dim: int) -> Callable[..., None]:
    def as_rows(value: Any) -> Tensor | None:
        fits = isinstance(value, Tensor) and value.is_floating_point() and value.shape[-1:] == (dim,)
        # A copy: Falcon adds the attention to the feed-forward's output in place.
        return value.detach().reshape(rows, dim).cpu().clone() if fits and value.numel() == rows * dim else None

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        gave = as_rows(first_of(output))
        if gave is None:
            return
        given = tuple(state for value in (*args, *kwargs.values()) if (state := as_rows(value)) is not None)
        times = sum(call.module is module for call in kept)
        kept.append(Call(module, (id(module), times), given, gave, len(given) == len(args) + len(kwargs) == 1))

    return hook
