"""One finding: its headline figure, what the figure is, and the sentences that explain it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from theodolite.report.tables import (
    LIMITS,
    Row,
    Tables,
    layer_name,
    layer_rows,
    number,
    populations,
    select_defined,
)
from theodolite.text import format_number

# Two numbers differ where they are this many standard errors apart.
ERRORS = 2.0
# Without standard errors, numbers that differ by less than this share count as equal.
ALIKE = 0.05


@dataclass(frozen=True)
class Finding:
    """A finding in plain text; the page escapes it.

    `column` is the main column of layers.parquet that it uses, `chart` the section of the page that shows it
    (profiles, decomposition, token-map, spectra, norms, side-by-side or steps), `formula` the id of the measure's
    definition and `place` the layer of the figure, such as "at block 5". Each may be empty.
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
    """Return the first row with the highest value of a column; None if no row defines it."""
    return max(select_defined(rows, column), key=lambda row: number(row, column), default=None)


def lowest(rows: list[Row], column: str) -> Row | None:
    """Return the first row with the lowest value of a column; None if no row defines it."""
    return min(select_defined(rows, column), key=lambda row: number(row, column), default=None)


def first_population(tables: Tables, column: str) -> str:
    """Return the first population that defines a column at some layer; empty for none."""
    return next((name for name in populations(tables) if select_defined(layer_rows(tables, name), column)), "")


def locate(row: Row) -> str:
    """Return the layer of a row as part of a sentence.

    >>> locate({"layer": 3, "layer_name": "block 3"}), locate({"layer": 0, "layer_name": "encoder embeddings"})
    ('at block 3', 'at the encoder embeddings')
    """
    name = layer_name(row)
    if name == "vectors":  # measured as given: they have one layer only
        return "over all vectors"
    return f"at the {name}" if name.endswith(("embeddings", "final norm")) else f"at {name}"


def with_error(row: Row, column: str) -> str:
    """Return a number with its standard error, if it has one.

    >>> with_error({"mean_cosine": 0.5123, "mean_cosine_se": 0.00421}, "mean_cosine")
    '0.5123 ± 0.0042'
    """
    return format_with_error(number(row, column), number(row, f"{column}_se"), column)


def format_with_error(value: float, error: float, column: str = "") -> str:
    """Return a number with its standard error, or with a range if the error exceeds the limits of the column.

    >>> format_with_error(0.8863, 0.1, "tradeoff_r2"), format_with_error(0.8863, 0.3, "tradeoff_r2")
    ('0.8863 ± 0.1', '0.8863 (0.59 to 1)')
    """
    if not (math.isfinite(error) and error > 0):
        return format_number(value)
    low, high = LIMITS.get(column, (-math.inf, math.inf))
    if low <= value - error and value + error <= high:
        return f"{format_number(value)} ± {format_number(error, 2)}"
    ends = (format_number(max(value - error, low), 2), format_number(min(value + error, high), 2))
    return f"{format_number(value)} ({' to '.join(ends)})"


def differs(a: float, b: float, a_error: float, b_error: float, *, times: float = ERRORS) -> bool:
    """Return whether two numbers differ by more than their standard errors, or by more than 5% without errors.

    >>> differs(0.5, 0.6, 0.01, 0.01), differs(0.5, 0.51, 0.01, 0.01), differs(0.5, 0.51, math.nan, math.nan)
    (True, False, False)
    """
    errors = [error for error in (a_error, b_error) if math.isfinite(error) and error > 0]
    return abs(a - b) > (times * math.hypot(*errors) if errors else ALIKE * max(abs(a), abs(b)))
