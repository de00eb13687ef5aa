"""Numbers of a few digits, for tables in the terminal."""

from __future__ import annotations


def short(value: float) -> str:
    """Return a number of a few digits, and a dash for what is undefined.

    >>> short(0.12345), short(1234.5), short(float("nan"))
    ('0.123', '1,234.5', '–')
    """
    return "–" if value != value else f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"
