"""Models over several devices: where inputs go, and weights that accelerate loads when they are needed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from theodolite.errors import InputError, TheodoliteError, nearest


def require_accelerate() -> None:
    """Raise unless the library is installed that spreads a model over devices."""
    if importlib.util.find_spec("accelerate") is None:
        raise TheodoliteError("--device-map requires the accelerate library: pip install 'theodolite[accelerate]'")


def check_entries(device_map: Mapping[str, Any], model: nn.Module) -> None:
    """Reject a map with an entry for something that the model does not have, or without a device for some weight.

    The model may be on the device meta. As in accelerate, an entry covers the module or weight of that name and
    all below it, and "" covers the whole model.
    """
    tensors = list(model.state_dict())
    modules = [name for name, _ in model.named_modules()]
    listed = ", ".join(name for name, _ in model.named_children())
    kind = type(model).__name__
    for entry in device_map:
        if entry not in modules and entry not in tensors:
            raise InputError(
                f"--device-map has an entry {entry!r}, and {kind} has no such module.{nearest(entry, modules)} "
                f"At its top are {listed}; '' means the whole model."
            )
    if "" in device_map:
        return
    for name in tensors:
        if not any(f"{name}.".startswith(f"{entry}.") for entry in device_map):
            raise InputError(
                f"--device-map has no entry for the module {_outermost_without_entry(name, device_map)!r} of "
                f"{kind}. Add one, or an entry '' for all modules that have none."
            )


def _outermost_without_entry(tensor: str, device_map: Mapping[str, Any]) -> str:
    """Return the outermost module around a tensor in which nothing has an entry."""
    parts = tensor.split(".")
    names = (".".join(parts[:end]) for end in range(1, len(parts)))
    return next((name for name in names if not any(entry.startswith(f"{name}.") for entry in device_map)), tensor)


def input_device(model: Any) -> torch.device:
    """Return the device on which the model reads its input: that of its token embeddings or first weight."""
    try:
        embeddings = model.get_input_embeddings()
    except (AttributeError, NotImplementedError):  # no table, such as CANINE
        embeddings = None
    for hook in (hook for module in (embeddings, model) if module is not None for hook in _hooks(module)):
        device = getattr(hook, "execution_device", None)
        if device is not None:
            return torch.device(device)
    return next((each.device for each in model.parameters() if not each.is_meta), torch.device("cpu"))


def check_weights_present(model: nn.Module) -> None:
    """Reject a model with weights on the device meta that no hook of accelerate loads when they are needed."""
    missing = _first_missing(model, "", loaded=False)
    if missing is not None:
        raise InputError(
            f"{type(model).__name__} has no values for its weight {missing}: it is on the device meta, which "
            "means that it was never loaded, and no hook of accelerate loads it when it is needed. Load the model "
            "with from_pretrained, or with a --device-map whose blocks are on a GPU, the CPU or disk."
        )


def _first_missing(module: nn.Module, prefix: str, *, loaded: bool) -> str | None:
    loaded = loaded or any(getattr(hook, "offload", False) for hook in _hooks(module))
    if not loaded:
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.is_meta:
                return f"{prefix}{name}"
    found = (_first_missing(child, f"{prefix}{name}.", loaded=loaded) for name, child in module.named_children())
    return next((name for name in found if name is not None), None)


def has_offloaded(network: nn.Module) -> bool:
    """Return whether accelerate loads some weights of the model only while they are needed."""
    return any(getattr(hook, "offload", False) for module in network.modules() for hook in _hooks(module))


def load_offloaded(module: nn.Module) -> AbstractContextManager[object]:
    """Have the own weights of an offloaded module in the memory of the CPU in this context."""
    if not any(getattr(hook, "offload", False) for hook in _hooks(module)):
        return nullcontext()
    from accelerate.utils import align_module_device

    return align_module_device(module, execution_device=torch.device("cpu"))  # type: ignore[no-any-return]


def _hooks(module: Any) -> Iterator[Any]:
    """Yield the hooks that accelerate attached to a module."""
    hook = getattr(module, "_hf_hook", None)
    yield from () if hook is None else getattr(hook, "hooks", (hook,))
