"""Hooks: read the input or output of modules while the model runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

OnStates = Callable[[int, Tensor], None]


@dataclass(frozen=True)
class HookPoint:
    """A module whose output, or else input, is the states of a layer."""

    module: nn.Module
    reads_input: bool = False
    call: int | None = None  # which call of the module in a forward pass, from 0; None: every call


@contextmanager
def hook_layers(
    model: nn.Module,
    points: Mapping[int, HookPoint],
    on_states: OnStates,
    layers: Iterable[int],
    *,
    complete: bool = False,
    last: int | None = None,
) -> Iterator[Callable[..., dict[int, int]]]:
    """Give a forward function that passes the states of each of these layers to `on_states` while the model runs.

    States are not kept: those of one layer exist at a time. Hook points are numbered in the order in which the
    model reaches them; the part of the model after the last of these layers is not run, unless `complete` or
    `last` names a later one. The forward function returns how often the module of each hook point was called.
    """
    selected = set(layers)
    last = max(selected, default=0) if last is None else last

    def pass_on(index: int, state: Any) -> None:
        if index in selected:
            on_states(index, state)
        if index == last and not complete:
            raise _LastLayerReached

    with read_layers(points, pass_on, points) as calls, torch.no_grad():

        def forward(**inputs: Any) -> dict[int, int]:
            calls.clear()
            with suppress(_LastLayerReached):
                model(**inputs)
            return dict(calls)

        yield forward


@contextmanager
def read_layers(
    points: Mapping[int, HookPoint], on_states: OnStates, layers: Iterable[int]
) -> Iterator[dict[int, int]]:
    """Pass the states of each of these layers to `on_states` in this context, in which the model is run once.

    Gives how often the module of each hook point was called; clear it before another run.
    """
    calls: dict[int, int] = {}

    def pass_on(index: int, state: Any) -> None:
        calls[index] = calls.get(index, 0) + 1
        if points[index].call in (None, calls[index] - 1):
            on_states(index, first_tensor(state))

    def input_hook(index: int) -> Callable[..., None]:
        return lambda module, args, kwargs: pass_on(index, first_input(args, kwargs))

    def output_hook(index: int) -> Callable[..., None]:
        return lambda module, args, output: pass_on(index, output)

    with ExitStack() as hooks:
        for index in layers:
            point = points[index]
            if point.reads_input:
                hook = point.module.register_forward_pre_hook(input_hook(index), with_kwargs=True)
            else:
                hook = point.module.register_forward_hook(output_hook(index))
            hooks.callback(hook.remove)
        yield calls


def first_input(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the states from the arguments of a module: its first argument, whatever its name."""
    return args[0] if args else kwargs.get("hidden_states", next(iter(kwargs.values()), None))


def first_tensor(state: Any) -> Any:
    """Return the states from the output of a module, which may be a tuple, list or dict that begins with them."""
    if isinstance(state, Tensor):
        return state
    if isinstance(state, dict):  # transformers' outputs are ordered dictionaries
        return next(iter(state.values()))
    return state[0] if isinstance(state, tuple | list) else state


class _LastLayerReached(Exception):  # noqa: N818 - not an error: it ends a forward pass early
    pass
