"""Taps: modules whose input or output is a layer's states, read while the model runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Take = Callable[[int, Tensor], None]


@dataclass(frozen=True)
class Tap:
    """A module, and whether what enters it is wanted or what leaves it."""

    module: nn.Module
    entering: bool = False


@contextmanager
def watched(
    model: nn.Module, taps: Mapping[int, Tap], take: Take, wanted: Iterable[int]
) -> Iterator[Callable[..., None]]:
    """Give a forward function that hands every wanted layer's states to `take` as they pass its tap.

    States are not kept: one layer is alive at a time. Taps are numbered in the order in which the model reaches
    them; what comes after the last wanted one is not run.
    """
    wanted_set = set(wanted)
    last = max(wanted_set)

    def seen(index: int, state: Any) -> None:
        if index in wanted_set:
            take(index, first_of(state))
        if index == last:
            raise _Enough

    def entering(index: int) -> Callable[..., None]:
        return lambda module, args, kwargs: seen(index, entered(args, kwargs))

    def leaving(index: int) -> Callable[..., None]:
        return lambda module, args, output: seen(index, output)

    def forward(**inputs: Any) -> None:
        try:
            model(**inputs)
        except _Enough:
            return

    with ExitStack() as hooks, torch.no_grad():
        for index, tap in taps.items():
            if tap.entering:
                hook = tap.module.register_forward_pre_hook(entering(index), with_kwargs=True)
            else:
                hook = tap.module.register_forward_hook(leaving(index))
            hooks.callback(hook.remove)
        yield forward


def entered(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the states out of what a module is called with: its first argument, whatever its name."""
    return args[0] if args else kwargs.get("hidden_states", next(iter(kwargs.values()), None))


def first_of(state: Any) -> Any:
    """Return the states out of what a module gives, which may be a tuple, list or output that begins with them."""
    if isinstance(state, Tensor):
        return state
    if isinstance(state, dict):  # transformers' outputs are ordered dictionaries
        return next(iter(state.values()))
    return state[0] if isinstance(state, tuple | list) else state


class _Enough(Exception):  # noqa: N818 - no error: it ends a forward pass early
    pass
