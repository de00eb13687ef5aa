"""A mask of padding that knows how much there is: models ask, and on a GPU would wait for the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class PaddingMask(Tensor):
    """A mask of ones and zeros. What it sums up to is known on the processor; in all else it is a plain tensor.

    transformers looks, before every forward pass, whether anything is padding at all, to choose a faster kernel.
    Asked of a tensor on a GPU, that waits until the batch before is done, and the GPU then waits for the next.

    >>> ones = torch.tensor([[1, 1], [1, 0]])
    >>> mask = PaddingMask.of(ones, ones)
    >>> bool(mask.to(torch.bool).all()), int(mask.sum()), type(mask + 1).__name__
    (False, 3, 'Tensor')
    """

    ones: int

    @classmethod
    def of(cls, there: Tensor, here: Tensor) -> PaddingMask:
        """Return the mask that is there, knowing what the same one on the processor tells."""
        return _wrapped(there, int(here.count_nonzero()))

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Answer what is known; keep the knowledge where only the type or the place changes."""
        if isinstance(args[0], PaddingMask) and len(args) == 1 and not kwargs:
            if func is Tensor.all:
                return torch.tensor(args[0].ones == args[0].numel())
            if func is Tensor.sum:
                return torch.tensor(args[0].ones)
        with torch._C.DisableTorchFunctionSubclass():
            found = func(*args, **(kwargs or {}))
        if func in (Tensor.to, Tensor.bool, Tensor.long) and isinstance(args[0], PaddingMask):
            return _wrapped(found, args[0].ones)
        return found


def _wrapped(tensor: Tensor, ones: int) -> PaddingMask:
    mask = tensor.as_subclass(PaddingMask)
    mask.ones = ones
    return mask
