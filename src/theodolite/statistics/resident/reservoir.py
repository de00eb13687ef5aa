"""The sample of a layer whose vectors stay on the device: chosen on the processor, which knows every key."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from theodolite.statistics.away import brought
from theodolite.statistics.resident.layout import Layout
from theodolite.statistics.resident.pieces import Ints
from theodolite.statistics.resident.transfer import sent

UNBOUNDED = 2**63 - 1


class ResidentReservoir:
    """The rows of smallest key among all offered; see `statistics.sample.Reservoir`, whose choice this is."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.size, self.device = size, device
        self.key, self.unit, self.context = (np.zeros(0, dtype=np.int64) for _ in range(3))
        self.bound = UNBOUNDED if size else 0  # only rows of a smaller key can enter
        self._vectors: Tensor | None = None

    def __len__(self) -> int:
        return len(self.key)

    def offer(self, layout: Layout, rows: Ints, vectors: Tensor, at: Ints) -> None:
        """Take in these rows of the layout, whose vectors lie at these places; nothing is waited for."""
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
        come = rows[incoming]
        for name, values in (("key", layout.key), ("unit", layout.unit), ("context", layout.context)):
            grown = np.concatenate([getattr(self, name), np.zeros(more, dtype=np.int64)])
            grown[slots] = values[come]
            setattr(self, name, grown)
        self.bound = int(self.key.max()) if len(self) >= self.size else UNBOUNDED
        both = sent(np.stack([slots, at[incoming]]), self.device)
        room = self._room(vectors)
        room.index_copy_(0, both[0], vectors.index_select(0, both[1]).to(room.dtype))

    def state(self) -> dict[str, Tensor]:
        """Return key, unit, context and vector, sorted by key, on the processor; nothing where none came."""
        if self._vectors is None:
            return {}
        order = np.argsort(self.key)
        held = {"key": self.key, "unit": self.unit, "context": self.context}
        fields = {name: torch.from_numpy(values[order]) for name, values in held.items()}
        return fields | {"vector": brought(self._vectors.index_select(0, sent(order, self.device)))}

    def load(self, rows: dict[str, Tensor]) -> None:
        """Take the rows back."""
        self._vectors = None
        self.key, self.unit, self.context = (rows[name].numpy().copy() for name in ("key", "unit", "context"))
        self.bound = int(self.key.max()) if len(self) >= self.size else UNBOUNDED
        self._room(rows["vector"])[: len(self)] = rows["vector"].to(self.device)

    def _room(self, like: Tensor) -> Tensor:
        if self._vectors is None:
            dtype = like.dtype if like.dtype == torch.float64 else torch.float32
            self._vectors = torch.zeros(self.size, like.shape[1], dtype=dtype, device=self.device)
        return self._vectors


def _smallest(keys: Ints, count: int) -> Ints:
    """Return where the smallest keys are, in any order; keys are hashes, so no two are equal but by accident."""
    return np.argpartition(keys, count - 1)[:count] if len(keys) > count else np.arange(len(keys))
