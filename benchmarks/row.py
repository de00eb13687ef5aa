"""A row of the table of ratios: what is compared, the ratio, what it should not exceed, both sides in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any


@dataclass(frozen=True)
class Row:
    """One comparison. A ratio below 1 means that ours takes less; None: not measured, and `why` says why not."""

    what: str
    ratio: float | None
    bound: float | None = None
    ours: str = ""
    theirs: str = ""
    why: str = ""

    def told(self) -> dict[str, Any]:
        """Return the row as it is written to JSON; a ratio that is not finite is null."""
        finite = self.ratio is not None and isfinite(self.ratio)
        return {**asdict(self), "ratio": self.ratio if finite else None}


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Return the rows as text: what, ratio, bound, ours, theirs."""
    cells = [("what", "ratio", "bound", "ours", "theirs")]
    for row in rows:
        value = "-" if row["ratio"] is None else short(row["ratio"])
        bound = "" if row["bound"] is None else f"{row['bound']:g}"
        theirs = row["why"] if row["ratio"] is None and row["why"] else row["theirs"]
        cells.append((row["what"], value, bound, row["ours"], theirs))
    widths = [max(len(line[column]) for line in cells) for column in range(5)]
    lines = []
    for what, *numbers, ours, theirs in cells:
        right = "  ".join(number.rjust(width) for number, width in zip(numbers, widths[1:3], strict=True))
        lines.append(f"{what.ljust(widths[0])}  {right}  {ours.ljust(widths[3])}  {theirs}".rstrip())
    return "\n".join(lines)


def short(number: float) -> str:
    """Return a number to three digits, in plain notation where that is short."""
    return f"{number:.3f}" if 0.01 <= abs(number) < 1000 else f"{number:.2g}"


def seconds(spent: float) -> str:
    """Return a time for people.

    >>> seconds(0.0123), seconds(4.0)
    ('12.3 ms', '4.00 s')
    """
    return f"{spent:.2f} s" if spent >= 1 else f"{1e3 * spent:.3g} ms"
