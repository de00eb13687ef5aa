"""A plain table of a few rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows with the same keys to stdout, numbers on the right."""
    table = Table(box=None, pad_edge=False)
    for name, value in rows[0].items():
        table.add_column(name, justify="right" if isinstance(value, int) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
    console = Console(highlight=False, markup=False)
    (console if console.is_terminal else Console(highlight=False, markup=False, width=160)).print(table)
