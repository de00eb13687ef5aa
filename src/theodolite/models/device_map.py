"""Models over several devices: where inputs go, and weights that accelerate loads when they are needed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from theodolite.errors import InputError, TheodoliteError


def require_accelerate() -> None:
    """Raise unless the library is installed that spreads a model over devices."""
    if importlib.util.find_spec("accelerate") is None:
        raise TheodoliteError("--device-map requires the accelerate library: pip install 'theodolite[accelerate]'")


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
            f"{type(model).__name__} has no numbers for its weight {missing}, which is on the device meta, and no "
            "hook of accelerate that loads them. Load the model with from_pretrained, or with a --device-map "
            "whose blocks are on a GPU, the CPU or disk."
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
