"""Any module of the user: its inputs, its call signature and the submodules to survey."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter, Signature, signature
from typing import Any, NamedTuple, cast

from torch import Tensor, nn

from theodolite.errors import InputError, nearest
from theodolite.models.hooks import HookPoint
from theodolite.models.layers import Layer
from theodolite.models.media_anatomy import (
    ITEMS_FIRST,
    ROWS,
    MediaAnatomy,
    arrange_rows,
    find_state,
    has_order,
    library_states,
)
from theodolite.sources.media.layouts import (
    Call,
    change_items,
    count_items,
    count_positions,
    find_layouts,
    shuffle_positions,
    trace,
)
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

    def __init__(self, first: ModuleInput, rows: int, item_dim: int = 0) -> None:
        self.first, self.rows, self.item_dim = first, rows, item_dim

    def probe(self) -> dict[str, Tensor]:
        """Return the first input of the user."""
        return self.first.inputs

    def prepare(self, documents: Sequence[tuple[int, ModuleInput]]) -> list[MediaBatch]:
        """Return the inputs as batches; every item is a document of its own."""
        batches = []
        for number, given in documents:
            count = count_items(given.inputs, self.item_dim)
            labels = given.labels or ("",) * count
            # Numbered by input and item, so that no two items of a survey are the same document.
            items = tuple(Item(number, place, f"{number}.{place}", labels[place]) for place in range(count))
            counts = {} if given.counts is None else {"": given.counts}
            batches.append(MediaBatch(dict(given.inputs), items, self._positions(given), counts))
        return batches

    def _positions(self, given: ModuleInput) -> int:
        """Return the number of rows of the first layer, estimated from the first input and the length of this."""
        items = count_items(given.inputs, self.item_dim)
        each = self.rows // count_items(self.first.inputs, self.item_dim)
        if each <= 1:
            return items
        if given.counts is not None:
            return sum(given.counts)
        length, first = (count_positions(one.inputs, self.item_dim) for one in (given, self.first))
        return items * (length if each == first else each)

    def complete(self, batch: MediaBatch) -> MediaBatch:
        """Return the batch: the user gave all inputs."""
        return batch


COMPARED = 8  # inputs in which rows and items are counted; the first one with its positions shuffled counts too
TRIED = 16
"""Inputs that are run until every module is reached: an expert may get none of the rows of an input."""


def find_modules(
    model: nn.Module,
    names: Sequence[str],
    inputs: Sequence[ModuleInput],
    *,
    flat: bool,
    item_dim: int = 0,
    layout: str | Mapping[str, str] | None = None,
) -> MediaAnatomy:
    """Return the anatomy of the named submodules, in the order in which the model reaches them.

    A module that is called several times for an input is a layer for each call.
    """
    known = dict(model.named_modules())
    for name in names:
        if name not in known:
            near = nearest(name, [other for other in known if other])
            raise InputError(f"modules: {type(model).__name__} has no submodule {name!r}.{near}")
    if not names:
        raise InputError(
            "modules requires at least one name; `[name for name, _ in model.named_modules()]` lists them."
        )
    chosen = {name: known[name] for name in names}
    device = find_device(model)
    calls: list[Call] = []
    layouts: list[str] = []
    tried = 0
    while tried < min(len(inputs), TRIED):
        missing = {name: module for name, module in chosen.items() if name not in {call.name for call in calls}}
        if not missing:
            break
        given = move_inputs(inputs[tried].inputs, device)
        tried += 1
        more = _trace(model, missing, given)
        calls += more
        layouts += find_layouts(model, missing, more, given, item_dim, layout)
    unreached = [name for name in names if name not in {call.name for call in calls}]
    if unreached:
        on = "the first input" if tried == 1 else f"the first {tried} inputs"
        raise InputError(f"modules: {unreached[0]!r} was not reached when the model ran on {on}.")
    if layout is None:
        pooled = {call.name for call, laid in zip(calls, layouts, strict=True) if laid == ITEMS_FIRST}
        pooled &= {call.name for call in calls if call.state.dim() == 2}
        routed = _find_routed(model, {name: chosen[name] for name in pooled}, inputs, item_dim)
        layouts = [ROWS if call.name in routed else laid for call, laid in zip(calls, layouts, strict=True)]
    times = Counter(call.name for call in calls)
    first = move_inputs(inputs[0].inputs, device)
    library = library_states(model, first).get("", ())
    layers = [
        Layer(
            index,
            call.name if times[call.name] == 1 else f"{call.name} (call {call.number + 1})",
            int(arrange_rows(call.state, flat=flat, layout=layouts[index]).rows.shape[1]),
            find_state(call.state, library),
        )
        for index, call in enumerate(calls)
    ]
    return MediaAnatomy(
        model,
        tuple(layers),
        {index: HookPoint(chosen[call.name], call=call.number) for index, call in enumerate(calls)},
        len(arrange_rows(calls[0].state, flat=flat, layout=layouts[0]).rows),
        has_order(model, first),
        dict(enumerate(layouts)),
        {index: times[call.name] for index, call in enumerate(calls)},
        complete=max(times.values()) > 1 or ROWS in layouts or tried > 1,
    )


def _find_routed(
    model: nn.Module, modules: Mapping[str, nn.Module], inputs: Sequence[ModuleInput], item_dim: int
) -> set[str]:
    """Return the modules that have one row per item only by chance for the first input, as an expert may."""
    routed: set[str] = set()
    for number in range(1, COMPARED) if modules else ():
        given = move_inputs(inputs[number if number < len(inputs) else 0].inputs, find_device(model))
        if number >= len(inputs):
            given = change_items(shuffle_positions(given, number), item_dim)
        items = count_items(given, item_dim)
        with suppress(Exception):  # the model may raise anything for positions in another order
            calls = trace(model, modules, given)
            routed |= modules.keys() - {call.name for call in calls if len(call.state) == items}
    return routed


def _trace(model: nn.Module, modules: dict[str, nn.Module], inputs: dict[str, Any]) -> list[Call]:
    try:
        return trace(model, modules, inputs)
    except TypeError as error:
        check_call(model, inputs, error)
        raise
