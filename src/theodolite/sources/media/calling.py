"""Calling a module of the user's: what may be given for one call, and what its arguments are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import Parameter, Signature, signature
from typing import Any, cast

from torch import Tensor, nn

from theodolite.errors import InputError

NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def listed(inputs: Any) -> Sequence[Any]:
    """Return the inputs, one a call: a lone dict or tensor is one; what cannot be indexed becomes a list.

    >>> listed({"x": 1}), listed(number for number in "ab"), listed(("a", "b"))
    ([{'x': 1}], ['a', 'b'], ('a', 'b'))
    """
    if isinstance(inputs, Tensor | Mapping):
        return [inputs]
    if isinstance(inputs, Sequence):
        return inputs
    if isinstance(inputs, Iterable):
        return list(inputs)
    if hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__"):  # a dataset: read as it is asked for
        return cast("Sequence[Any]", inputs)
    raise InputError(f"inputs: wanted a tensor, a dict, or several of these; got {type(inputs).__name__}.")


class Call:
    """How a model is called: what its forward calls the arguments that come without a name."""

    def __init__(self, model: nn.Module, argument: str | None = None) -> None:
        self.model = type(model).__name__
        parameters = _signature(model).parameters.values()
        self.names = [each.name for each in parameters if each.kind == Parameter.POSITIONAL_OR_KEYWORD]
        self.first = argument or (self.names[0] if self.names else "input")

    def keywords(self, value: Any, number: int) -> dict[str, Any]:
        """Return an input as keyword arguments: a dict as it is, a tensor as the first, a tuple in their order."""
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, Tensor):
            return {self.first: value}
        if not isinstance(value, tuple | list) or not any(isinstance(each, Tensor) for each in value):
            raise InputError(
                f"inputs: number {number} is a {type(value).__name__}; wanted a tensor, a dict of keyword "
                "arguments, or a tuple of tensors in the order of the model's arguments."
            )
        if len(value) > len(self.names):
            raise InputError(
                f"inputs: number {number} has {len(value)} arguments, but {self.model} is called with "
                f"{', '.join(self.names) or 'no argument that has a name'}; leave out what it does not take, or "
                "give a dict of keyword arguments."
            )
        return dict(zip(self.names, value, strict=False))


def _signature(model: nn.Module) -> Signature:
    """Return what a model's forward takes; one that only hands on, as in parallel training, is looked through."""
    try:
        told = signature(model.forward)
    except (TypeError, ValueError):  # compiled ones may tell nothing
        return Signature()
    named = any(each.kind in NAMED for each in told.parameters.values())
    inner = getattr(model, "module", None)
    return _signature(inner) if isinstance(inner, nn.Module) and not named else told


def names_of(modules: Any) -> list[str]:
    """Return the names of submodules as a list; a lone string is one."""
    several = list(modules) if isinstance(modules, Iterable) and not isinstance(modules, str) else [modules]
    for each in several:
        if not isinstance(each, str):
            raise InputError(
                f"modules: wanted names, such as those of `model.named_modules()`; got {type(each).__name__}."
            )
    return several


def check_call(model: nn.Module, inputs: dict[str, Any], error: TypeError) -> None:
    """Refuse inputs that are not what the model's forward is called with; its other errors are its own."""
    told = _signature(model)
    try:
        told.bind(**inputs)
    except TypeError:
        takes = ", ".join(each.name for each in told.parameters.values() if each.kind in NAMED)
        raise InputError(
            f"inputs: {type(model).__name__} was called with {', '.join(inputs)}; it takes "
            f"{takes or 'nothing by name'}. Give a dict of keyword arguments, or name a tensor's with `argument`."
        ) from error
