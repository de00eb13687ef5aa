"""Units: what the vectors are counted by, with a code for the sums and a name for people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Unit(NamedTuple):
    """One unit as the tables show it."""

    key: str  # stable between runs and machines
    text: str  # what a person reads
    id: int | None = None  # the vocabulary id, where the unit is one
    special: bool = False
    tokens: float = 1.0  # tokens that make one occurrence


def encodable(text: str) -> str:
    """Return the text as tables can hold it: a lone surrogate, as odd bytes of a file's name are, becomes \\udcXX.

    >>> encodable("odd \\udc80"), encodable("even")
    ('odd \\\\udc80', 'even')
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


OPEN = ("word", "position", "document", "label")
"""Kinds of units that are numbered as they are met."""


@dataclass
class Units:
    """A numbered list of units; the code of a unit is its place. Grows where the vocabulary is open."""

    kind: str
    known: list[Unit] = field(default_factory=list)
    _codes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._codes = {unit.key: code for code, unit in enumerate(self.known)}

    def __len__(self) -> int:
        return len(self.known)

    @property
    def open(self) -> bool:
        """Say whether new units may be met."""
        return self.kind in OPEN

    def code(self, key: str) -> int | None:
        """Return the unit's code, or None if it is not known."""
        return self._codes.get(key)

    def add(self, unit: Unit) -> int:
        """Return the code of the unit's key, a new one if it is not known yet."""
        code = self._codes.get(unit.key)
        if code is None:
            code = self._codes[unit.key] = len(self.known)
            self.known.append(unit)
        return code

    def forget(self, size: int) -> None:
        """Keep the first `size` units only, so that the next one met gets that code."""
        for unit in self.known[size:]:
            del self._codes[unit.key]
        del self.known[size:]

    def replace(self, code: int, unit: Unit) -> None:
        """Put another unit in the place of a code."""
        del self._codes[self.known[code].key]
        self.known[code] = unit
        self._codes[unit.key] = code
