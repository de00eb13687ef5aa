"""Untouched: what a measurement leaves exactly as it found it, so that training goes on as if nothing had been."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from theodolite.surveys.watch import evaluating

HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)
CAPTURING = "_output_capturing_hooks_installed"
"""Where transformers notes that it has put hooks of its own, which it does when first asked for hidden states."""


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """While open, the model is in evaluation mode, without gradients, cache and autocast; then all is as it was.

    Put back are every module's mode, buffers and hooks, `config.use_cache`, and the random states of Python, NumPy
    and PyTorch on every device. Weights and gradients are never written.
    """
    device = next(model.parameters()).device.type
    with ExitStack() as stack:
        stack.callback(_generators())
        stack.callback(_hooks(model))
        stack.callback(_buffers(model))
        stack.callback(_cache(model))
        stack.enter_context(evaluating(model))
        stack.enter_context(torch.no_grad())
        # Autocast would round what is measured, and keep its casts of the weights for training to use.
        for kind in dict.fromkeys(("cpu", device)):
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


@contextmanager
def plain_torch() -> Iterator[None]:
    """While open, new tensors are float32 on the CPU, whatever the script has set, and nothing is cast."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.device("cpu"), torch.autocast("cpu", enabled=False), torch.no_grad():
            yield
    finally:
        torch.set_default_dtype(dtype)


def _generators() -> Callable[[], None]:
    """Note every generator of random numbers; return what puts them back."""
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
    mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None

    def restore() -> None:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
        if mps is not None:
            torch.mps.set_rng_state(mps)

    return restore


def _hooks(model: nn.Module) -> Callable[[], None]:
    """Note every module's hooks: transformers leaves some behind."""
    noted = [(getattr(m, name), dict(getattr(m, name))) for m in model.modules() for name in HOOKS]
    unmarked = [module for module in model.modules() if CAPTURING not in vars(module)]

    def restore() -> None:
        for hooks, before in noted:
            if dict(hooks) != before:
                hooks.clear()
                hooks.update(before)
        for module in unmarked:  # hooks that are gone must be put there again when they are wanted
            vars(module).pop(CAPTURING, None)

    return restore


def _buffers(model: nn.Module) -> Callable[[], None]:
    """Note every module's buffers: some positions grow tables when they see a longer text."""
    noted: list[tuple[dict[str, Any], dict[str, Tensor | None], dict[str, Tensor]]] = []
    for module in model.modules():
        held = dict(module._buffers)
        noted.append((module._buffers, held, {k: v.clone() for k, v in held.items() if v is not None}))

    def restore() -> None:
        for buffers, held, copies in noted:
            buffers.clear()
            buffers.update(held)
            for name, copy in copies.items():
                # Only where it differs: a write counts as one for autograd, even of the same numbers.
                if not _same(buffers[name], copy):
                    buffers[name].copy_(copy)

    return restore


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())


def _cache(model: nn.Module) -> Callable[[], None]:
    """Turn the cache of keys and values off: nothing is generated here."""
    config: Any = getattr(model, "config", None)
    used = getattr(config, "use_cache", None)
    if used is None:
        return lambda: None
    config.use_cache = False
    return lambda: setattr(config, "use_cache", used)
