"""Any module of the user: its inputs, its call signature and the submodules to survey."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import Parameter, Signature, signature
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from theodolite.errors import InputError, nearest
from theodolite.models.hooks import HookPoint
from theodolite.models.media_anatomy import MediaAnatomy
from theodolite.sources.media.source import Item, MediaBatch, find_device, move_inputs

NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def list_inputs(inputs: Any) -> Sequence[Any]:
    """Return the inputs, one per call: a single dict or tensor is one; an iterator becomes a list.

    >>> list_inputs({"x": 1}), list_inputs(number for number in "ab"), list_inputs(("a", "b"))
    ([{'x': 1}], ['a', 'b'], ('a', 'b'))
    """
    if isinstance(inputs, Tensor | Mapping):
        return [inputs]
    if isinstance(inputs, Sequence):
        return inputs
    if isinstance(inputs, Iterable):
        return list(inputs)
    if hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__"):  # a dataset: read on request
        return cast("Sequence[Any]", inputs)
    raise InputError(f"inputs requires a tensor, a dict, or several of these (got {type(inputs).__name__}).")


class CallSignature:
    """The call signature of a model: the names of the arguments of its forward method."""

    def __init__(self, model: nn.Module, argument: str | None = None) -> None:
        self.model = type(model).__name__
        parameters = _signature(model).parameters.values()
        self.names = [each.name for each in parameters if each.kind == Parameter.POSITIONAL_OR_KEYWORD]
        self.first = argument or (self.names[0] if self.names else "input")

    def keywords(self, value: Any, number: int) -> dict[str, Any]:
        """Return an input as keyword arguments: a dict unchanged, a tensor as the first one, a tuple in order."""
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, Tensor):
            return {self.first: value}
        if not isinstance(value, tuple | list) or not any(isinstance(each, Tensor) for each in value):
            raise InputError(
                f"inputs: number {number} is a {type(value).__name__}; expected a tensor, a dict of keyword "
                "arguments, or a tuple of tensors in the order of the model's arguments."
            )
        if len(value) > len(self.names):
            raise InputError(
                f"inputs: number {number} has {len(value)} arguments, but {self.model} is called with "
                f"{', '.join(self.names) or 'no named argument'}; remove the others, or "
                "give a dict of keyword arguments."
            )
        return dict(zip(self.names, value, strict=False))


def _signature(model: nn.Module) -> Signature:
    """Return the signature of forward; of a wrapper, as in parallel training, that of the wrapped module."""
    try:
        found = signature(model.forward)
    except (TypeError, ValueError):  # compiled modules may have none
        return Signature()
    named = any(each.kind in NAMED for each in found.parameters.values())
    inner = getattr(model, "module", None)
    return _signature(inner) if isinstance(inner, nn.Module) and not named else found


def list_names(modules: Any) -> list[str]:
    """Return the names of submodules as a list; a single string is one name."""
    several = list(modules) if isinstance(modules, Iterable) and not isinstance(modules, str) else [modules]
    for each in several:
        if not isinstance(each, str):
            raise InputError(
                f"modules requires names, such as those of `model.named_modules()` (got {type(each).__name__})."
            )
    return several


def check_call(model: nn.Module, inputs: dict[str, Any], error: TypeError) -> None:
    """Reject inputs that do not match the signature of forward; other errors come from the model itself."""
    expected = _signature(model)
    try:
        expected.bind(**inputs)
    except TypeError:
        takes = ", ".join(each.name for each in expected.parameters.values() if each.kind in NAMED)
        raise InputError(
            f"inputs: {type(model).__name__} was called with {', '.join(inputs)}; it takes "
            f"{takes or 'no named argument'}. Give a dict of keyword arguments, or name a tensor with `argument`."
        ) from error


class ModuleInput(NamedTuple):
    """One input of the user: keyword arguments, and the number of positions of each item that count."""

    inputs: dict[str, Tensor]
    counts: tuple[int, ...] | None
    labels: tuple[str, ...] | None


class ModuleFeeder:
    """Feeds inputs unchanged, one batch each; `rows` counts rows of the first layer for the first input."""

    def __init__(self, first: ModuleInput, rows: int) -> None:
        self.first, self.rows = first, rows

    def probe(self) -> dict[str, Tensor]:
        """Return the first input of the user."""
        return self.first.inputs

    def prepare(self, documents: Sequence[tuple[int, ModuleInput]]) -> list[MediaBatch]:
        """Return the inputs as batches; every item is a document of its own."""
        batches = []
        for number, given in documents:
            count = count_items(given.inputs)
            labels = given.labels or ("",) * count
            # Numbered by input and item, so that no two items of a survey are the same document.
            items = tuple(Item(number, place, f"{number}.{place}", labels[place]) for place in range(count))
            counts = {} if given.counts is None else {"": given.counts}
            batches.append(MediaBatch(dict(given.inputs), items, self._positions(given), counts))
        return batches

    def _positions(self, given: ModuleInput) -> int:
        """Return the number of rows of the first layer, estimated from the first input and the length of this."""
        items, each = count_items(given.inputs), self.rows // count_items(self.first.inputs)
        if each <= 1:
            return items
        if given.counts is not None:
            return sum(given.counts)
        return items * (_length(given.inputs) if each == _length(self.first.inputs) else each)

    def complete(self, batch: MediaBatch) -> MediaBatch:
        """Return the batch: the user gave all inputs."""
        return batch


def count_items(inputs: dict[str, Tensor]) -> int:
    """Return the number of items of an input: the length of its first tensor."""
    first = _first(inputs, 1)
    if first is None:
        raise InputError("inputs: each requires a tensor, or a dict with at least one tensor of (items, ...).")
    return int(first.shape[0])


def _length(inputs: dict[str, Tensor]) -> int:
    """Return the number of positions of an item: the second size of the first tensor that has one; else 1."""
    first = _first(inputs, 2)
    return 1 if first is None else int(first.shape[1])


def _first(inputs: dict[str, Tensor], sizes: int) -> Tensor | None:
    return next((value for value in inputs.values() if isinstance(value, Tensor) and value.dim() >= sizes), None)


def find_modules(model: nn.Module, names: Sequence[str], first: ModuleInput, *, flat: bool) -> MediaAnatomy:
    """Return the anatomy of the named submodules, in the order in which the model reaches them."""
    known = dict(model.named_modules())
    for name in names:
        if name not in known:
            near = nearest(name, [other for other in known if other])
            raise InputError(f"modules: {type(model).__name__} has no submodule {name!r}.{near}")
    if not names:
        raise InputError(
            "modules requires at least one name; `[name for name, _ in model.named_modules()]` lists them."
        )
    inputs = move_inputs(first.inputs, find_device(model))
    order = _execution_order(model, {name: known[name] for name in names}, inputs)
    unreached = [name for name in names if name not in order]
    if unreached:
        raise InputError(f"modules: {unreached[0]!r} was not reached when the model ran on the first input.")
    points = {index: HookPoint(known[name]) for index, name in enumerate(order)}
    return MediaAnatomy.from_hook_points(model, inputs, [("", name) for name in order], points, flat=flat)


def _execution_order(model: nn.Module, modules: dict[str, nn.Module], inputs: dict[str, Any]) -> list[str]:
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
