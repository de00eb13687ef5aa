"""Models whose weights are sharded over processes: how they are run, and which weights this process holds.

A replicated model (one process, DistributedDataParallel, ZeRO-1 and ZeRO-2) can be run by any process alone. A
sharded one (`fully_shard`, ZeRO-3) gathers its weights in the forward pass of its outermost module: all processes
must run it at the same time, equally often, and to the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.errors import InputError


def is_sharded(model: nn.Module) -> bool:
    """Return whether the weights of a model are sharded over processes; reject ways that are not supported."""
    if not torch.distributed.is_available():
        return False
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
    from torch.distributed.tensor import DTensor

    if any(isinstance(module, FullyShardedDataParallel) for module in model.modules()):
        raise InputError(
            "model: it is sharded by FullyShardedDataParallel, which is not supported; use its successor, "
            "torch.distributed.fsdp.fully_shard (fsdp_version: 2 in accelerate)."
        )
    sharded = any(isinstance(module, FSDPModule) for module in model.modules())
    for parameter in model.parameters():
        if isinstance(parameter, DTensor):
            split = sum(not placement.is_replicate() for placement in parameter.placements)
            if split > int(sharded):
                raise InputError(
                    "model: its weights are split by tensor parallelism, so that several processes compute the "
                    "same positions; this is not supported. Survey the checkpoints with `theodolite dynamics`."
                )
    return sharded or any(hasattr(parameter, "ds_tensor") for parameter in model.parameters())


def local_shard(parameter: Tensor) -> Tensor:
    """Return the part of a parameter that this process holds."""
    shard: Any = getattr(parameter, "ds_tensor", None)  # DeepSpeed
    if shard is not None:
        return shard.detach()  # type: ignore[no-any-return]
    local: Any = getattr(parameter, "to_local", None)
    return (parameter if local is None else local()).detach()


def count_weights(model: nn.Module) -> int:
    """Return the number of weights of a model, over all processes."""
    return sum(int(getattr(parameter, "ds_numel", parameter.numel())) for parameter in model.parameters())


class RootedModel(nn.Module):
    """A sharded model without its head, which is run through its outermost module, and always to the end.

    An interrupted forward pass would leave FSDP in the middle of it. The head is run too; decoders are asked for
    the logits of one position only.
    """

    runs_completely = True

    def __init__(self, base: nn.Module, root: nn.Module) -> None:
        super().__init__()
        self.base = base
        object.__setattr__(self, "root", root)  # not a submodule: its parts are found once
        inner: Any = root
        while not hasattr(inner, "config") and hasattr(inner, "module"):
            inner = inner.module
        head = inner.get_base_model() if hasattr(inner, "get_base_model") else inner
        self.extra: Mapping[str, Any] = (
            {"logits_to_keep": 1} if "logits_to_keep" in signature(head.forward).parameters else {}
        )

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("base"), name)

    def forward(self, **inputs: Any) -> Any:
        """Run the outermost module; return what the base returned in it."""
        outputs: list[Any] = []
        hook = self.base.register_forward_hook(lambda module, args, output: outputs.append(output))
        try:
            found = self.root(**inputs, **self.extra)
        finally:
            hook.remove()
        return outputs[-1] if outputs else found


@contextmanager
def reshard_after(model: nn.Module) -> Iterator[None]:
    """Release the weights that the body gathered: FSDP keeps those of the outermost module until a backward pass.

    They would be used again after an optimizer step.
    """
    try:
        yield
    finally:
        if torch.distributed.is_available():
            from torch.distributed.fsdp import FSDPModule

            for module in model.modules():
                if isinstance(module, FSDPModule):
                    module.reshard()
