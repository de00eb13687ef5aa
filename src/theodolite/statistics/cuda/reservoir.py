"""The sample of a layer on a device: the CPU, which knows all keys, chooses; the vectors stay on the device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from theodolite.statistics.cuda.layout import Ints, Layout
from theodolite.statistics.cuda.transfer import send

UNBOUNDED = 2**63 - 1


class GpuReservoir:
    """The rows of smallest key among all offered: the same as in `statistics.sample.Reservoir`."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.size, self.device = size, device
        self.key, self.unit, self.context = (np.zeros(0, dtype=np.int64) for _ in range(3))
        self.bound = UNBOUNDED if size else 0  # only rows with a smaller key can enter
        self._vectors: Tensor | None = None

    def __len__(self) -> int:
        return len(self.key)

    @property
    def nbytes(self) -> int:
        """The size of the vectors."""
        return 0 if self._vectors is None else self._vectors.nbytes

    def offer(self, layout: Layout, rows: Ints, vectors: Tensor, at: Ints) -> None:
        """Offer these rows of the layout; `at` are their rows in `vectors`. Does not wait for the device."""
        key = layout.key[rows]
        if not self.size:
            return
        kept = _smallest(np.concatenate([self.key, key]), self.size)
        incoming = kept[kept >= len(self)] - len(self)
        stays = np.zeros(len(self), dtype=np.bool_)
        stays[kept[kept < len(self)]] = True
        free = np.flatnonzero(~stays)[: len(incoming)]
        more = len(incoming) - len(free)
        slots = np.concatenate([free, np.arange(len(self), len(self) + more)])
        entering = rows[incoming]
        for name, values in (("key", layout.key), ("unit", layout.unit), ("context", layout.context)):
            grown = np.concatenate([getattr(self, name), np.zeros(more, dtype=np.int64)])
            grown[slots] = values[entering]
            setattr(self, name, grown)
        self.bound = int(self.key.max()) if len(self) >= self.size else UNBOUNDED
        both = send(np.stack([slots, at[incoming]]), self.device)
        buffer = self._buffer(vectors, len(self))
        buffer.index_copy_(0, both[0], vectors.index_select(0, both[1]).to(buffer.dtype))

    def read(self) -> dict[str, Tensor]:
        """Return key, unit, context and vector, sorted by key; vectors are on the device. Empty without rows."""
        if self._vectors is None:
            return {}
        order = np.argsort(self.key)
        held = {"key": self.key, "unit": self.unit, "context": self.context}
        fields = {name: torch.from_numpy(values[order]) for name, values in held.items()}
        return fields | {"vector": self._vectors.index_select(0, send(order, self.device))}

    def load(self, rows: dict[str, Tensor]) -> None:
        """Load the rows of a state."""
        self._vectors = None
        self.key, self.unit, self.context = (rows[name].numpy().copy() for name in ("key", "unit", "context"))
        self.bound = int(self.key.max()) if len(self) >= self.size else UNBOUNDED
        self._buffer(rows["vector"], len(self))[: len(self)] = rows["vector"].to(self.device)

    def _buffer(self, like: Tensor, rows: int) -> Tensor:
        """Return the vectors, with room for this number; most cells of a layer have few."""
        held = self._vectors
        if held is not None and rows <= len(held):
            return held
        dtype = like.dtype if like.dtype == torch.float64 else torch.float32
        capacity = min(self.size, max(2 * rows, 64))
        larger = torch.zeros(capacity, like.shape[1], dtype=dtype, device=self.device)
        if held is not None:
            larger[: len(held)] = held
        self._vectors = larger
        return larger


def _smallest(keys: Ints, count: int) -> Ints:
    """Return the indices of the smallest keys, in any order. Keys are hashes, and practically distinct."""
    return np.argpartition(keys, count - 1)[:count] if len(keys) > count else np.arange(len(keys))
