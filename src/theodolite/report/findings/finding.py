"""One thing worth saying: a figure to see at a glance, what it is, and the sentences behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from theodolite.report.numbers import show
from theodolite.report.rows import Row, defined, layer_name, layer_rows, number, populations
from theodolite.report.shares import LIMITS
from theodolite.report.tables import Tables

# Two numbers differ where they are this many standard errors apart.
ERRORS = 2.0
# Without an error bar, numbers that differ by less than this share are called alike.
ALIKE = 0.05


@dataclass(frozen=True)
class Finding:
    """A finding in plain text; the page escapes it.

    `column` is the column of layers.parquet that it draws on most, `chart` the part of the page that shows it
    (profiles, decomposition, token-map, spectra, norms, side-by-side or steps), `formula` the id of the measure's
    definition and `place` where the figure is read, such as "at block 5"; each may be empty.
    """

    key: str
    figure: str
    headline: str
    text: str
    column: str = ""
    chart: str = ""
    formula: str = ""
    place: str = ""


def highest(rows: list[Row], column: str) -> Row | None:
    """Return the row where a column is greatest, the first of equals; None where it is nowhere defined."""
    return max(defined(rows, column), key=lambda row: number(row, column), default=None)


def lowest(rows: list[Row], column: str) -> Row | None:
    """Return the row where a column is least, the first of equals; None where it is nowhere defined."""
    return min(defined(rows, column), key=lambda row: number(row, column), default=None)


def reference(tables: Tables, column: str) -> str:
    """Return the first population in which a column is defined anywhere; empty for none."""
    return next((name for name in populations(tables) if defined(layer_rows(tables, name), column)), "")


def at(row: Row) -> str:
    """Say where a row is.

    >>> at({"layer": 3, "layer_name": "block 3"}), at({"layer": 0, "layer_name": "encoder embeddings"})
    ('at block 3', 'at the encoder embeddings')
    """
    name = layer_name(row)
    if name == "vectors":  # measured as they were given: there is one layer, and it is all there is
        return "over all vectors"
    return f"at the {name}" if name.endswith(("embeddings", "final norm")) else f"at {name}"


def with_error(row: Row, column: str) -> str:
    """Write a number with its standard error, where it has one.

    >>> with_error({"mean_cosine": 0.5123, "mean_cosine_se": 0.00421}, "mean_cosine")
    '0.5123 ± 0.0042'
    """
    return give_or_take(number(row, column), number(row, f"{column}_se"), column)


def give_or_take(value: float, error: float, column: str = "") -> str:
    """Write a number with its standard error; as a range where the error would lead beyond what the column can be.

    >>> give_or_take(0.8863, 0.1, "tradeoff_r2"), give_or_take(0.8863, 0.3, "tradeoff_r2")
    ('0.8863 ± 0.1', '0.8863 (0.59 to 1)')
    """
    if not (math.isfinite(error) and error > 0):
        return show(value)
    low, high = LIMITS.get(column, (-math.inf, math.inf))
    if low <= value - error and value + error <= high:
        return f"{show(value)} ± {show(error, 2)}"
    return f"{show(value)} ({show(max(value - error, low), 2)} to {show(min(value + error, high), 2)})"


def apart(a: float, b: float, a_error: float, b_error: float, *, times: float = ERRORS) -> bool:
    """Say whether two numbers differ by more than their errors allow, or by more than 5% where none is known.

    >>> apart(0.5, 0.6, 0.01, 0.01), apart(0.5, 0.51, 0.01, 0.01), apart(0.5, 0.51, float("nan"), float("nan"))
    (True, False, False)
    """
    errors = [error for error in (a_error, b_error) if math.isfinite(error) and error > 0]
    return abs(a - b) > (times * math.hypot(*errors) if errors else ALIKE * max(abs(a), abs(b)))
