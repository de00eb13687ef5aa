"""Extreme pairs of a stream: the k that come first by some key, ties by row numbers, whatever the blocks were."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LARGEST, SMALLEST, NEAREST = "largest", "smallest", "nearest 0"
GRAIN = 1e-13  # of the values' scale: products in float64 that differ by less are ties, told apart by row numbers
SPARE = 32  # pairs kept beyond k, so that exact values of those kept decide at the end


@dataclass
class Extremes:
    """The pairs that come first; `scale` is the size that values may have."""

    which: str
    most: int
    scale: float
    floor: float | None = None  # where given, only pairs with |value| above it
    key: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    pairs: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))

    def add(self, values: Tensor, mask: Tensor | None, left: Tensor, right: Tensor) -> None:
        """Look at a block: values (rows, columns), which of them count, the numbers of rows and columns."""
        keys = self._keys(values)
        worst = self.key[-1] if len(self.key) >= self.most + SPARE else np.inf
        reach = float((worst + 1) * self._grain)
        if float(keys.amin()) > reach:
            return
        near = keys <= reach
        if self.floor is not None:
            near &= values.abs() > self.floor
        if mask is not None:
            near &= mask
        at = near.nonzero()
        if not len(at):
            return
        found = np.round(keys[at[:, 0], at[:, 1]].numpy() / self._grain)
        pairs = np.stack([left[at[:, 0]].numpy(), right[at[:, 1]].numpy()], axis=1)
        self._keep(np.concatenate([self.key, found]), np.concatenate([self.pairs, pairs]))

    @property
    def _grain(self) -> float:
        return GRAIN * (self.scale or 1.0)

    def _keys(self, values: Tensor) -> Tensor:
        if self.floor is not None:
            return -values.abs()
        if self.which == NEAREST:
            return values.abs()
        return -values if self.which == LARGEST else values

    def _keep(self, key: NDArray[np.float64], pairs: NDArray[np.int64]) -> None:
        size = self.most + SPARE
        if len(key) > size:
            first = key <= np.partition(key, size - 1)[size - 1]
            key, pairs = key[first], pairs[first]
        order = np.lexsort((pairs[:, 1], pairs[:, 0], key))[:size]
        self.key, self.pairs = key[order], pairs[order]

    def best(self, exact: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the order, at most k, of the kept pairs by their exact values (pairs,)."""
        keys = self._keys(torch.from_numpy(exact)).numpy()
        # A nearest pair may be nearer to 0 than the grain: there exact values order, not the grain.
        key = keys if self.which == NEAREST else np.round(keys / self._grain)
        return np.lexsort((self.pairs[:, 1], self.pairs[:, 0], key))[: self.most]
