"""How much each block changes its input, over the positions of a probe set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle as Handle

from theodolite.models.hooks import first_input, first_tensor

Sums = dict[str, tuple[float, int]]
"""By name of a block: the sum of |w|/|x| over positions, and their number."""


class BlockUpdates:
    """Sums of |w|/|x| for the input x of each block of a text model and what it adds, w. Nothing else is kept.

    w is the sum of what attention and MLP write, and y - x for the output y where these are not found. Both are
    the same unless the block normalizes its output, which then differs from its input also where w is 0.
    """

    def __init__(self, source: Any) -> None:
        anatomy = getattr(source, "anatomy", None)
        self._blocks = [
            (f"{stack.name} {stack.word} {number}".strip(), stack.name, block)
            for stack in getattr(anatomy, "stacks", ())
            for number, block in enumerate(stack.blocks, start=1)
        ]
        self._writes: Mapping[int, Sequence[nn.Module]] = getattr(anatomy, "residual_writes", {})
        self._sums: dict[str, list[Tensor]] = {}

    @contextmanager
    def add(self, prepared: Any) -> Iterator[None]:
        """Add the positions of one batch, which is run in this context."""

        def measure(name: str, stack: str, block: nn.Module) -> list[Handle]:
            decoder, parts = getattr(prepared, "decoder", None), self._writes.get(id(block), ())
            side = decoder if stack == "decoder" and decoder is not None else prepared
            written: list[Tensor] = []

            def keep(module: nn.Module, args: Any, output: Any) -> None:
                written.append(first_tensor(output).clone())  # the block may add to it in place

            def read(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
                x, y = first_input(args, kwargs), first_tensor(output)
                if isinstance(x, Tensor) and isinstance(y, Tensor) and x.shape == y.shape and x.dim() == 3:
                    complete = parts and [w.shape for w in written] == [x.shape] * len(parts)
                    added = torch.stack(written).float().sum(dim=0) if complete else y.float() - x.float()
                    rows = side.rows.to(x.device)
                    before, change = (t.flatten(0, 1).index_select(0, rows).float() for t in (x, added))
                    self._sums.setdefault(name, []).append(_sum_finite(change.norm(dim=1) / before.norm(dim=1)))
                written.clear()

            handles = [part.register_forward_hook(keep) for part in parts]
            return [*handles, block.register_forward_hook(read, with_kwargs=True)]

        with ExitStack() as hooks:
            for name, stack, block in self._blocks if hasattr(prepared, "rows") else ():
                for handle in measure(name, stack, block):
                    hooks.callback(handle.remove)
            yield

    def sums(self) -> Sums:
        """Return the sums of all batches."""
        totals = {name: torch.stack(parts).sum(dim=0).tolist() for name, parts in self._sums.items()}
        return {name: (total, int(count)) for name, (total, count) in totals.items()}


def _sum_finite(ratio: Tensor) -> Tensor:
    """Return the sum and the number of the finite values; a zero vector has no ratio."""
    finite = ratio.isfinite()
    return torch.stack([ratio.where(finite, 0.0).sum(dtype=torch.float64), finite.sum().double()])


def average_updates(parts: Sequence[Sums]) -> dict[str, float]:
    """Return the mean of |w|/|x| by block, over the sums of all processes.

    >>> average_updates([{"block 1": (1.0, 2)}, {"block 1": (2.0, 1)}, {}])
    {'block 1': 1.0}
    """
    names = dict.fromkeys(name for sums in parts for name in sums)
    added = {name: [sum(sums.get(name, (0.0, 0))[place] for sums in parts) for place in (0, 1)] for name in names}
    return {name: total / count for name, (total, count) in added.items() if count}
