"""Transfers between the processor and a device that let the processor go on at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite import pinned

ALIGNED = 64
"""Numbers to whose multiples every part of a parcel begins: a kernel is compiled anew for other alignments."""


def sent(array: NDArray[np.generic], device: torch.device) -> Tensor:
    """Return the array on the device; nothing is waited for."""
    return pinned.sent(torch.from_numpy(np.ascontiguousarray(array)), device)


def sent_together(parts: Sequence[Tensor], device: torch.device) -> tuple[Tensor, ...]:
    """Return int32 vectors on the device, in one transfer: many small ones cost more than what they feed."""
    if device.type != "cuda":
        return tuple(part.to(device) for part in parts)
    starts = np.cumsum([0, *(-(-len(part) // ALIGNED) * ALIGNED for part in parts)])
    parcel = torch.empty(int(starts[-1]), dtype=torch.int32, pin_memory=True)
    for part, start in zip(parts, starts, strict=False):
        parcel[start : start + len(part)] = part
    there = parcel.to(device, non_blocking=True)
    return tuple(there[start : start + len(part)] for part, start in zip(parts, starts, strict=False))


def fetched(tensor: Tensor) -> Callable[[], NDArray[np.generic]]:
    """Start a copy to the processor; the function that comes back waits for it, not for what was queued after.

    Ask for it when other work is queued behind: then neither side stands still.
    """
    if not tensor.is_cuda:
        here: NDArray[np.generic] = tensor.numpy().copy()
        return lambda: here
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    copy.copy_(tensor, non_blocking=True)
    done = torch.cuda.Event()  # type: ignore[no-untyped-call]
    done.record()

    def wait() -> NDArray[np.generic]:
        done.synchronize()
        there: NDArray[np.generic] = copy.numpy()
        return there

    return wait
