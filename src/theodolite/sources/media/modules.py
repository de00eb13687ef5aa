"""Any module: inputs that the user has made, and the submodules to watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from theodolite.errors import InputError, nearest
from theodolite.sources.media.anatomy import MediaAnatomy
from theodolite.sources.media.calling import check_call
from theodolite.sources.media.source import Item, MediaBatch, device_of, moved
from theodolite.sources.taps import Tap


class Given(NamedTuple):
    """One input of the user's: the model's keyword arguments, and how many positions of each item count."""

    inputs: dict[str, Tensor]
    counts: tuple[int, ...] | None
    labels: tuple[str, ...] | None


class ModuleFeeder:
    """Inputs as they are, one batch each; `rows` is what the first layer gave for the first of them."""

    def __init__(self, first: Given, rows: int) -> None:
        self.first, self.rows = first, rows

    def probe(self) -> dict[str, Tensor]:
        """Return the first of the user's inputs."""
        return self.first.inputs

    def prepare(self, documents: Sequence[tuple[int, Given]]) -> list[MediaBatch]:
        """Return the inputs as batches; every item of one is a document of its own."""
        batches = []
        for number, given in documents:
            count = items_of(given.inputs)
            labels = given.labels or ("",) * count
            # Numbered by input and place, so that no two items of a survey are one document.
            items = tuple(Item(number, place, f"{number}.{place}", labels[place]) for place in range(count))
            counts = {} if given.counts is None else {"": given.counts}
            batches.append(MediaBatch(dict(given.inputs), items, self._positions(given), counts))
        return batches

    def _positions(self, given: Given) -> int:
        """Return how many rows the first layer will give: as for the first input, but as long as this one is."""
        items, each = items_of(given.inputs), self.rows // items_of(self.first.inputs)
        if each <= 1:
            return items
        if given.counts is not None:
            return sum(given.counts)
        return items * (_length(given.inputs) if each == _length(self.first.inputs) else each)

    def complete(self, batch: MediaBatch) -> MediaBatch:
        """Return the batch: the user gave all that the model needs."""
        return batch


def items_of(inputs: dict[str, Tensor]) -> int:
    """Return how many items an input holds: the length of its first tensor."""
    first = _first(inputs, 1)
    if first is None:
        raise InputError("inputs: wanted a tensor, or a dict with at least one tensor of (items, ...), in each.")
    return int(first.shape[0])


def _length(inputs: dict[str, Tensor]) -> int:
    """Return how many positions an item may have: the second size of its first tensor of several; else 1."""
    first = _first(inputs, 2)
    return 1 if first is None else int(first.shape[1])


def _first(inputs: dict[str, Tensor], sizes: int) -> Tensor | None:
    return next((value for value in inputs.values() if isinstance(value, Tensor) and value.dim() >= sizes), None)


def watched_modules(model: nn.Module, names: Sequence[str], first: Given, *, flat: bool) -> MediaAnatomy:
    """Look at the named submodules, in the order in which the model reaches them."""
    known = dict(model.named_modules())
    for name in names:
        if name not in known:
            near = nearest(name, [other for other in known if other])
            raise InputError(f"modules: {type(model).__name__} has no submodule {name!r}.{near}")
    if not names:
        raise InputError(
            "modules: wanted at least one name; `[name for name, _ in model.named_modules()]` lists them."
        )
    inputs = moved(first.inputs, device_of(model))
    order = _reached(model, {name: known[name] for name in names}, inputs)
    missed = [name for name in names if name not in order]
    if missed:
        raise InputError(f"modules: {missed[0]!r} was not reached when the model ran on the first input.")
    taps = {index: Tap(known[name]) for index, name in enumerate(order)}
    return MediaAnatomy.tapped(model, inputs, [("", name) for name in order], taps, flat=flat)


def _reached(model: nn.Module, modules: dict[str, nn.Module], inputs: dict[str, Any]) -> list[str]:
    order: list[str] = []

    def note(name: str) -> Any:
        return lambda *_: order.append(name) if name not in order else None

    hooks = [module.register_forward_hook(note(name)) for name, module in modules.items()]
    try:
        with torch.no_grad():
            model(**inputs)
    except TypeError as error:
        check_call(model, inputs, error)
        raise
    finally:
        for hook in hooks:
            hook.remove()
    return order
