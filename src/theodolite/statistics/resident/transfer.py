"""Transfers between the processor and a device that let the processor go on at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def sent(array: NDArray[np.generic] | Tensor, device: torch.device) -> Tensor:
    """Return the array on the device. On a GPU through pinned memory: a plain copy would wait for its queue."""
    tensor = array if isinstance(array, Tensor) else torch.from_numpy(np.ascontiguousarray(array))
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def fetched(tensor: Tensor) -> Callable[[], NDArray[np.generic]]:
    """Start a copy to the processor; the function that comes back waits for it, not for what was queued after.

    Ask for it when other work is queued behind: then neither side stands still.
    """
    if not tensor.is_cuda:
        here: NDArray[np.generic] = tensor.numpy().copy()
        return lambda: here
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    pinned.copy_(tensor, non_blocking=True)
    done = torch.cuda.Event()  # type: ignore[no-untyped-call]
    done.record()

    def wait() -> NDArray[np.generic]:
        done.synchronize()
        there: NDArray[np.generic] = pinned.numpy()
        return there

    return wait
