"""Residual writes: which modules of a block compute what is added to the residual stream."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.models.hooks import first_input, first_tensor

WRITES = {2: ("attn", "mlp"), 3: ("attn", "cross", "mlp")}
"""The names of what a block writes, in order, by their number."""
ROUNDING, ROUNDING_OF_HALF = 16, 2
"""Rounding errors by which two sums may differ: terms may be added in another order. In half precision, a few of
them are as large as what an untrained block writes."""


@dataclass
class ModuleCall:
    """One call of a submodule: its input and its output. (items, positions, dim)"""

    path: str
    given: Tensor
    made: Tensor


@dataclass(eq=False)
class WriteSearch(AbstractContextManager["WriteSearch"]):
    """Records a forward pass through a block, and finds the modules whose output is added to the stream.

    x + a + m is the output of a block that norms first; norm(norm(x + a) + m) that of one that norms last.
    """

    block: nn.Module
    calls: list[ModuleCall] = field(default_factory=list)
    ends: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # input and output of the block
    found: list[dict[str, str] | None] = field(default_factory=list)  # what `find` returned, which takes a while

    def __enter__(self) -> WriteSearch:
        self._hooks = ExitStack()
        for path, part in self.block.named_modules():
            hook = part.register_forward_hook(_record(self, path), with_kwargs=True)
            self._hooks.callback(hook.remove)
        return self

    def __exit__(self, *what: object) -> None:
        self._hooks.close()

    def find(self) -> dict[str, str] | None:
        """Return the path of the module of each write; None if the block does not add two or three."""
        if not self.found:
            self.found.append(self._find())
        return self.found[0]

    def _find(self) -> dict[str, str] | None:
        start, end = self.ends[0]
        same = [call for call in self.calls if call.made.shape == end.shape]
        paths = self._search(start, end, same, 0) or _find_parallel(start, end, same)
        names = WRITES.get(len(paths or ()))
        return dict(zip(names, paths, strict=True)) if names and paths else None

    def _search(self, current: Tensor, end: Tensor, same: Sequence[ModuleCall], begin: int) -> list[str] | None:
        """Return the writes between a state of the stream and the output of the block."""
        if _equal(current, end):
            return []
        for at in range(begin, len(same)):
            written = current + same[at].made
            if _equal(written, end, current, same[at].made):
                return [same[at].path]
            for later in range(at + 1, len(same)):
                given, made = same[later].given, same[later].made
                if not _equal(written, given, current, same[at].made):
                    continue
                for following in (given, made):  # norms first, or norms last
                    rest = self._search(following, end, same, later)
                    if rest is not None:
                        return [same[at].path, *rest]
        return None


def _record(search: WriteSearch, path: str) -> Any:
    def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        given, made = first_input(args, kwargs), first_tensor(output)
        if not (isinstance(given, Tensor) and isinstance(made, Tensor)):
            return
        if not path:
            search.ends.append((given.clone(), made.clone()))  # a block may add in place
        elif not search.ends:
            search.calls.append(ModuleCall(path, given.clone(), made.clone()))

    return hook


def _find_parallel(start: Tensor, end: Tensor, same: Sequence[ModuleCall]) -> list[str] | None:
    """Return two writes that are added at once, as in GPT-NeoX."""
    for one, other in combinations(same, 2):
        if _equal(start + one.made + other.made, end, start, one.made, other.made):
            return [one.path, other.path]
    return None


def _equal(one: Tensor, other: Tensor, *terms: Tensor) -> bool:
    """Return whether two states are equal up to the rounding of a sum of these terms."""
    if one.shape != other.shape:
        return False
    times = ROUNDING if torch.finfo(one.dtype).bits > 16 else ROUNDING_OF_HALF
    bound = times * torch.finfo(one.dtype).eps * sum(term.abs() for term in terms)
    return bool(((one - other).abs() <= bound).all()) if terms else bool((one == other).all())
