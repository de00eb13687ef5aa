"""How much each block changes its input, over the positions of a probe set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from theodolite.models.hooks import first_input, first_tensor

Sums = dict[str, tuple[float, int]]
"""By name of a block: the sum of |y - x|/|x| over positions, and their number."""


class BlockUpdates:
    """Sums of |y - x|/|x| for the input x and output y of each block of a text model. Nothing else is kept."""

    def __init__(self, source: Any) -> None:
        stacks = getattr(getattr(source, "anatomy", None), "stacks", ())
        self._blocks = [
            (f"{stack.name} {stack.word} {number}".strip(), stack.name, block)
            for stack in stacks
            for number, block in enumerate(stack.blocks, start=1)
        ]
        self._sums: dict[str, list[Tensor]] = {}

    @contextmanager
    def add(self, prepared: Any) -> Iterator[None]:
        """Add the positions of one batch, which is run in this context."""

        def hook(name: str, stack: str) -> Any:
            decoder = getattr(prepared, "decoder", None)
            side = decoder if stack == "decoder" and decoder is not None else prepared

            def read(module: Any, args: Any, kwargs: Any, output: Any) -> None:
                x, y = first_input(args, kwargs), first_tensor(output)
                if isinstance(x, Tensor) and isinstance(y, Tensor) and x.shape == y.shape and x.dim() == 3:
                    rows = side.rows.to(x.device)
                    before, after = (t.flatten(0, 1).index_select(0, rows).float() for t in (x, y))
                    ratio = (after - before).norm(dim=1) / before.norm(dim=1)
                    self._sums.setdefault(name, []).append(_sum_finite(ratio))

            return read

        with ExitStack() as hooks:
            for name, stack, block in self._blocks if hasattr(prepared, "rows") else ():
                hooks.callback(block.register_forward_hook(hook(name, stack), with_kwargs=True).remove)
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
    """Return the mean of |y - x|/|x| by block, over the sums of all processes.

    >>> average_updates([{"block 1": (1.0, 2)}, {"block 1": (2.0, 1)}, {}])
    {'block 1': 1.0}
    """
    names = dict.fromkeys(name for sums in parts for name in sums)
    added = {name: [sum(sums.get(name, (0.0, 0))[place] for sums in parts) for place in (0, 1)] for name in names}
    return {name: total / count for name, (total, count) in added.items() if count}
