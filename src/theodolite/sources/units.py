"""Units: the groups of vectors (vocabulary ids, words, labels, ...), each with a code and a readable name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.hashing import text_hash


class Unit(NamedTuple):
    """One unit as tables show it."""

    key: str  # stable between runs and machines
    text: str  # for display
    id: int | None = None  # the vocabulary id, if the unit is one
    special: bool = False
    tokens: float = 1.0  # tokens per occurrence


OPEN = ("word", "position", "document", "label")
"""Kinds of units that are numbered as they occur."""


@dataclass
class Units:
    """A numbered list of units; the code of a unit is its index. Grows if the vocabulary is open."""

    kind: str
    known: list[Unit] = field(default_factory=list)
    _codes: dict[str, int] = field(default_factory=dict)
    _hashes: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64), compare=False)

    def __post_init__(self) -> None:
        self._codes = {unit.key: code for code, unit in enumerate(self.known)}

    def __len__(self) -> int:
        return len(self.known)

    @property
    def open(self) -> bool:
        """Whether new units may occur."""
        return self.kind in OPEN

    def code(self, key: str) -> int | None:
        """Return the code of the unit, or None if it is not known."""
        return self._codes.get(key)

    def hash_keys(self, codes: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return a hash of the key of each unit, which does not depend on the order in which units occur. (any,)

        >>> one, other = Units("word", [Unit("a", "a"), Unit("b", "b")]), Units("word", [Unit("b", "b")])
        >>> bool(one.hash_keys(np.array([1])) == other.hash_keys(np.array([0])))
        True
        """
        new = [text_hash(unit.key) for unit in self.known[len(self._hashes) :]]
        if new:
            self._hashes = np.append(self._hashes, np.array(new, dtype=np.uint64))
        return self._hashes[codes]

    def add(self, unit: Unit) -> int:
        """Return the code of the key of the unit; a new one if it is not known yet."""
        code = self._codes.get(unit.key)
        if code is None:
            code = self._codes[unit.key] = len(self.known)
            self.known.append(unit)
        return code

    def forget(self, size: int) -> None:
        """Keep only the first `size` units, so that the next new one gets that code."""
        for unit in self.known[size:]:
            del self._codes[unit.key]
        del self.known[size:]
        self._hashes = self._hashes[:size]

    def replace(self, code: int, unit: Unit) -> None:
        """Replace the unit of a code."""
        del self._codes[self.known[code].key]
        self.known[code] = unit
        self._codes[unit.key] = code
        self._hashes = self._hashes[:code]  # computed again when needed
