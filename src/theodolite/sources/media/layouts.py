"""Layouts of the outputs of a module: which dimension holds the items, found by running the model on other items.

Shapes alone are not enough: an output of (8, 8, dim) may have its items first, or its positions first as LSTM and
nn.Transformer do by default. The model is therefore run a second time with another number of items, and the
dimension whose size follows is the dimension of the items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from theodolite.errors import InputError
from theodolite.models.hooks import first_input, first_tensor
from theodolite.models.media_anatomy import ITEMS_FIRST, LAYOUTS, ROWS, TIME_FIRST

Inputs = Mapping[str, Any]


class Call(NamedTuple):
    """One call of a named module in a forward pass, and its output."""

    name: str
    number: int  # of the calls of this module, from 0
    state: Tensor


def trace(model: nn.Module, modules: Mapping[str, nn.Module], inputs: Inputs) -> list[Call]:
    """Run the model; return the calls of the modules in their order."""
    calls: list[Call] = []

    def note(name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            state = first_tensor(output)
            if not isinstance(state, Tensor):
                raise InputError(
                    f"modules: {name!r} returns {type(state).__name__}, not a tensor; name another module."
                )
            calls.append(Call(name, sum(call.name == name for call in calls), state.detach().clone()))

        return hook

    hooks = [module.register_forward_hook(note(name)) for name, module in modules.items()]
    try:
        with torch.no_grad():
            model(**inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return calls


def count_items(inputs: Inputs, item_dim: int = 0) -> int:
    """Return the number of items of an input: the size of its first tensor in the dimension of the items."""
    first = _first(inputs, item_dim + 1)
    if first is None:
        raise InputError("inputs: each requires a tensor, or a dict with at least one tensor of (items, ...).")
    return int(first.shape[item_dim])


def count_positions(inputs: Inputs, item_dim: int = 0) -> int:
    """Return the number of positions of an item: the other size of the first tensor with two; else 1."""
    first = _first(inputs, 2)
    return 1 if first is None else int(first.shape[1 - item_dim])


def _first(inputs: Inputs, sizes: int) -> Tensor | None:
    return next((value for value in inputs.values() if isinstance(value, Tensor) and value.dim() >= sizes), None)


def change_items(inputs: Inputs, item_dim: int = 0) -> dict[str, Any]:
    """Return the input with half of its items, or with its only item twice.

    >>> [change_items({"x": torch.zeros(items, 3), "scale": 2})["x"].shape[0] for items in (5, 1)]
    [2, 2]
    """
    items = count_items(inputs, item_dim)
    chosen = torch.arange(items // 2) if items > 1 else torch.zeros(2, dtype=torch.int64)

    def change(value: Any) -> Any:
        has_items = isinstance(value, Tensor) and value.dim() > item_dim and value.shape[item_dim] == items
        return value.index_select(item_dim, chosen.to(value.device)) if has_items else value

    return {name: change(value) for name, value in inputs.items()}


def shuffle_positions(inputs: Inputs, seed: int) -> dict[str, Any]:
    """Return the input with its positions, of all items together, in another order.

    >>> shuffle_positions({"x": torch.arange(6).reshape(2, 3)}, 1)["x"].shape
    torch.Size([2, 3])
    """
    first = _first(inputs, 2)
    if first is None:
        return dict(inputs)
    sizes = first.shape[:2]
    order = torch.randperm(sizes.numel(), generator=torch.Generator().manual_seed(seed))

    def shuffle(value: Any) -> Any:
        if not isinstance(value, Tensor) or value.shape[:2] != sizes:
            return value
        return value.flatten(0, 1)[order.to(value.device)].view_as(value)

    return {name: shuffle(value) for name, value in inputs.items()}


def find_item_dim(model: nn.Module, inputs: Inputs) -> int:
    """Return 1 if the inputs have time first, as the recurrent and attention modules that read them, else 0."""
    readers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.RNNBase | nn.MultiheadAttention) and not module.batch_first
    }
    if not readers:
        return 0
    items = count_items(inputs)
    before = _read_shapes(model, readers, inputs)
    after: dict[str, tuple[int, ...]] = {}
    with suppress(Exception):  # the model may raise anything for another number of items
        after = _read_shapes(model, readers, change_items(inputs))
    for name, shape in before.items():
        changed = _changed(shape, after.get(name))
        if len(shape) == 3 and (changed == [0] or (changed is None and shape[0] == items != shape[1])):
            return 1
    return 0


def _read_shapes(model: nn.Module, readers: Mapping[str, nn.Module], inputs: Inputs) -> dict[str, tuple[int, ...]]:
    """Return the shape of the first input of each module, where that is a tensor."""
    shapes: dict[str, tuple[int, ...]] = {}

    def note(name: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any) -> None:
            if isinstance(given := first_input(args, kwargs), Tensor):
                shapes.setdefault(name, tuple(given.shape))

        return hook

    hooks = [m.register_forward_pre_hook(note(name), with_kwargs=True) for name, m in readers.items()]
    try:
        with torch.no_grad():
            model(**inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return shapes


def _changed(before: Sequence[int], after: Sequence[int] | None) -> list[int] | None:
    """Return the dimensions whose size differs; None if that is not known."""
    if after is None or len(after) != len(before):
        return None
    return [dim for dim, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]


def find_layouts(
    model: nn.Module,
    modules: Mapping[str, nn.Module],
    calls: Sequence[Call],
    inputs: Inputs,
    item_dim: int,
    given: str | Mapping[str, str] | None,
) -> list[str]:
    """Return the layout of the output of each call: as given by the user, or detected; raise if it is unclear."""
    asked = dict.fromkeys(modules, given) if isinstance(given, str) else dict(given or {})
    for name, layout in asked.items():
        if layout not in LAYOUTS or name not in modules:
            raise InputError(
                f"layout: {layout!r} for {name!r}: expected one of {', '.join(LAYOUTS)}, for one of the modules."
            )
    items = count_items(inputs, item_dim)
    after: dict[tuple[str, int], tuple[int, ...]] | None = None
    if any(call.name not in asked for call in calls):
        with suppress(Exception):  # the model may raise anything for another number of items; shapes may be enough
            again = trace(model, modules, change_items(inputs, item_dim))
            after = {call[:2]: tuple(call.state.shape) for call in again}
    return [
        asked.get(call.name)
        or _detect(call, modules[call.name], items, None if after is None else after.get(call[:2], ()))
        for call in calls
    ]


def _detect(call: Call, module: nn.Module, items: int, after: Sequence[int] | None) -> str:
    """Return the layout of an output. `after` is its shape for other items; empty if the module was not called."""
    shape = tuple(call.state.shape)
    changed = _changed(shape, after)
    equal = [dim for dim in range(min(len(shape) - 1, 2)) if shape[dim] == items]
    if len(shape) == 2:
        other = items // 2 if items > 1 else 2
        return ITEMS_FIRST if equal == [0] and (after is None or list(after[:1]) == [other]) else ROWS
    if changed is not None:
        equal = [dim for dim in equal if dim in changed]
    if len(equal) > 1 and (first := _batch_first(module)) is not None:
        equal = [0 if first else 1]
    if len(equal) == 1 and (len(shape) == 3 or equal == [0]):
        return (ITEMS_FIRST, TIME_FIRST)[equal[0]]
    raise InputError(
        f"layout: {call.name!r} returns the shape {shape} for {items} items, from which the dimension of the "
        f"items cannot be determined; give layout={{{call.name!r}: ...}}, one of {', '.join(LAYOUTS)}, or name "
        "another module."
    )


def _batch_first(module: nn.Module) -> bool | None:
    """Return what the recurrent and attention modules inside say; None if there are none, or they differ."""
    found = {m.batch_first for m in module.modules() if isinstance(m, nn.RNNBase | nn.MultiheadAttention)}
    return found.pop() if len(found) == 1 else None
