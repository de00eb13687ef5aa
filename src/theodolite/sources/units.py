"""Units: the groups of vectors (vocabulary ids, words, labels, ...), each with a code and a readable name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


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

    def replace(self, code: int, unit: Unit) -> None:
        """Replace the unit of a code."""
        del self._codes[self.known[code].key]
        self.known[code] = unit
        self._codes[unit.key] = code
