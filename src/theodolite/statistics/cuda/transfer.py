"""Copies between the CPU and a device for which the CPU does not wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite import devices

ALIGNED = 64
"""Every part of a buffer starts at a multiple of this: Triton compiles a kernel again for other alignments."""


def send(array: NDArray[np.generic], device: torch.device) -> Tensor:
    """Return the array on the device, without waiting."""
    return devices.to_device(torch.from_numpy(np.ascontiguousarray(array)), device)


def send_together(parts: Sequence[Tensor], device: torch.device) -> tuple[Tensor, ...]:
    """Return int32 vectors on the device, in one copy: many small copies cost more than the kernels they feed."""
    if device.type != "cuda":
        return tuple(part.to(device) for part in parts)
    starts = np.cumsum([0, *(-(-len(part) // ALIGNED) * ALIGNED for part in parts)])
    buffer = torch.empty(int(starts[-1]), dtype=torch.int32, pin_memory=True)
    for part, start in zip(parts, starts, strict=False):
        buffer[start : start + len(part)] = part
    sent = buffer.to(device, non_blocking=True)
    return tuple(sent[start : start + len(part)] for part, start in zip(parts, starts, strict=False))


def fetch(tensor: Tensor) -> Callable[[], NDArray[np.generic]]:
    """Start a copy to the CPU; the returned function waits for it, but not for work queued after it.

    Call that function when other work has been queued: then neither the CPU nor the device waits.
    """
    if not tensor.is_cuda:
        copied: NDArray[np.generic] = tensor.cpu().numpy().copy()
        return lambda: copied
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    with torch.cuda.device(tensor.device):  # the event must be on the stream of the copy
        copy.copy_(tensor, non_blocking=True)
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()

    def wait() -> NDArray[np.generic]:
        done.synchronize()
        array: NDArray[np.generic] = copy.numpy()
        return array

    return wait
