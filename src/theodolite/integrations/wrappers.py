"""The model inside: what training wraps around a transformer, taken off without touching it."""

from __future__ import annotations

from typing import Any

from torch import nn

from theodolite.errors import InputError


def bare(model: Any) -> nn.Module:
    """Return the transformer without its head, as surveys load it, out of whatever training has around it.

    DistributedDataParallel and torch.compile keep the model as `module` and `_orig_mod`, peft as its base model.
    """
    if not isinstance(model, nn.Module):
        raise InputError(
            f"model: wanted a model of transformers, but a value of type {type(model).__name__} came."
        )
    inside: Any = model
    while (inner := getattr(inside, "module", None) or getattr(inside, "_orig_mod", None)) is not None:
        inside = inner
    if hasattr(inside, "get_base_model"):
        inside = inside.get_base_model()
    config = getattr(inside, "config", None)
    if getattr(config, "model_type", None) is None:
        raise InputError(
            f"model: wanted a model of transformers, but {type(inside).__name__} has no configuration of one; "
            "theodolite.watch surveys any module."
        )
    base = getattr(inside, "base_model", inside)
    assert isinstance(base, nn.Module)
    return base
