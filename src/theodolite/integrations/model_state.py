"""The model under training: unwrap it, measure it without changing its state, hash its weights."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from theodolite.devices import without_autocast
from theodolite.engines.threads import one_torch_thread
from theodolite.errors import InputError
from theodolite.integrations.sharding import RootedModel, is_sharded, local_shard
from theodolite.surveys.watch import evaluation_mode


def unwrap_model(model: Any) -> nn.Module:
    """Return the transformer without its head, as surveys load it, from the wrappers that training adds.

    DistributedDataParallel and torch.compile keep the model as `module` and `_orig_mod`, peft as its base model.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"model: expected a transformers model, got a value of type {type(model).__name__}.")
    inside: Any = model
    while (inner := _inner(inside)) is not None:
        inside = inner
    if hasattr(inside, "get_base_model"):
        inside = inside.get_base_model()
    config = getattr(inside, "config", None)
    if getattr(config, "model_type", None) is None:
        raise InputError(
            f"model: expected a transformers model, but {type(inside).__name__} has no transformers "
            "configuration; use ModuleProbe for other modules, and SentenceProbe for sentence vectors."
        )
    base = getattr(inside, "base_model", inside)
    assert isinstance(base, nn.Module)
    return base


def _inner(model: Any) -> Any:
    """Return the module in a wrapper: of parallel training, torch.compile or sentence-transformers; else None."""
    inner = getattr(model, "module", None) or getattr(model, "_orig_mod", None)
    if inner is None and hasattr(model, "_first_module"):
        inner = model._first_module()
    return inner if inner is not None else getattr(model, "auto_model", None)


def find_network(model: Any) -> tuple[nn.Module, nn.Module, bool]:
    """Return what is run, the module that holds all weights that it uses, and whether these are sharded."""
    base = unwrap_model(model)
    if not is_sharded(model):
        return base, base, False
    root = strip_wrappers(model)
    return RootedModel(base, root), root, True


def strip_wrappers(model: nn.Module) -> nn.Module:
    """Return the model without torch.compile and without the engine of DeepSpeed, which hide its signature."""
    inside: Any = model
    while True:
        if hasattr(inside, "_orig_mod"):
            inside = inside._orig_mod
        elif hasattr(inside, "module") and type(inside).__module__.startswith(("deepspeed", "torch.nn.parallel")):
            inside = inside.module
        else:
            assert isinstance(inside, nn.Module)
            return inside


HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)
CAPTURING = "_output_capturing_hooks_installed"
"""The attribute by which transformers marks that it has installed its own hooks to capture hidden states."""


@contextmanager
def preserve_state(model: nn.Module) -> Iterator[None]:
    """Run the body in evaluation mode, without gradients, cache, autocast and compiled code; restore everything.

    Restored are the mode, buffers and hooks of every module, `config.use_cache`, and the random states of Python,
    NumPy and PyTorch on every device. Weights and gradients are never written.
    """
    with ExitStack() as stack:
        stack.callback(_save_random_states())
        stack.callback(_save_hooks(model))
        stack.callback(_save_buffers(model))
        stack.callback(_disable_cache(model))
        stack.enter_context(evaluation_mode(model))
        stack.enter_context(torch.no_grad())
        # Compiled code does not call hooks that were added after it was compiled.
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(without_autocast())
        yield


@contextmanager
def default_torch(device: str = "cpu") -> Iterator[None]:
    """Run the body with the defaults of PyTorch: new tensors are float32 on the CPU, without autocast.

    With another `device`, on which the sums are, PyTorch uses one thread: what is left for the CPU is small, and
    waking its other threads takes longer.
    """
    dtype = torch.get_default_dtype()
    with ExitStack() as stack:
        if dtype != torch.float32:
            torch.set_default_dtype(torch.float32)
            stack.callback(torch.set_default_dtype, dtype)
        if torch.get_default_device().type != "cpu":  # a default device slows every call of PyTorch
            stack.enter_context(torch.device("cpu"))
        if device != "cpu":
            stack.enter_context(one_torch_thread())
        stack.enter_context(without_autocast())
        stack.enter_context(torch.no_grad())
        yield


def _save_random_states() -> Callable[[], None]:
    """Save the state of every random number generator; return a function that restores them."""
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


def _save_hooks(model: nn.Module) -> Callable[[], None]:
    """Save the hooks of every module, because transformers leaves some behind."""
    saved = [(getattr(m, name), dict(getattr(m, name))) for m in model.modules() for name in HOOKS]
    unmarked = [module for module in model.modules() if CAPTURING not in vars(module)]

    def restore() -> None:
        for hooks, before in saved:
            if dict(hooks) != before:
                hooks.clear()
                hooks.update(before)
        for module in unmarked:  # without the mark, transformers installs its hooks again when it needs them
            vars(module).pop(CAPTURING, None)

    return restore


def _save_buffers(model: nn.Module) -> Callable[[], None]:
    """Save the buffers of every module: some position embeddings extend their tables for longer texts."""
    saved: list[tuple[dict[str, Any], dict[str, Tensor | None], dict[str, Tensor]]] = []
    for module in model.modules():
        before = dict(module._buffers)
        saved.append((module._buffers, before, {k: v.clone() for k, v in before.items() if v is not None}))

    def restore() -> None:
        for buffers, before, copies in saved:
            buffers.clear()
            buffers.update(before)
            for name, copy in copies.items():
                # Only if it differs: autograd counts every write, even of the same numbers.
                if not _same(buffers[name], copy):
                    buffers[name].copy_(copy)

    return restore


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())


def _disable_cache(model: nn.Module) -> Callable[[], None]:
    """Turn off the cache of keys and values, which only generation needs; return a function that restores it."""
    config: Any = getattr(model, "config", None)
    used = getattr(config, "use_cache", None)
    if used is None:
        return lambda: None
    config.use_cache = False
    return lambda: setattr(config, "use_cache", used)


HASH_METHODS = ("sampled", "whole", "none")
ELEMENTS = 4096


def hash_weights(model: nn.Module, method: str = "sampled") -> str | None:
    """Return a sha256 over the parameters (names, shapes and values), which differs between training steps.

    `sampled` reads about 4,096 evenly spaced values of each parameter. This takes milliseconds for any size, and
    suffices because an optimizer changes every value. `whole` reads all values, about a gigabyte per second. Of a
    sharded model it reads the weights that this process holds.
    """
    if method == "none":
        return None
    digest = sha256(method.encode())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            flat = local_shard(parameter).reshape(-1)
            if method == "sampled":
                flat = flat[:: max(flat.numel() // ELEMENTS, 1)]
            digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype} ".encode())
            # A copy, because a storage that NumPy reads can no longer be resized, as FSDP does.
            digest.update(flat.cpu().clone().view(torch.uint8).numpy().data)
    return digest.hexdigest()
