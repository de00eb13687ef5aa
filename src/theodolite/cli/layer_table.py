"""The layer table in the terminal, and as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

HEADS = {
    "layer": "layer",
    "layer_name": "name",
    "n": "n",
    "q": "Q",
    "m": "M",
    "v": "V",
    "v_within": "V_W",
    "v_between": "V_B",
    "mean_cosine": "cos",
    "anisotropy_svd": "svd",
    "effective_rank": "rank",
    "participation_ratio": "PR",
    "twonn": "TwoNN",
    "q_cv": "CV(Q)",
    "tradeoff_slope": "slope",
    "tradeoff_r2": "R2",
}
LEGEND = (
    "Q = M + V, V = V_W + V_B; cos: mean cosine of all pairs; svd: share of the first direction; rank, PR, TwoNN: "
    "dimensions; CV, slope, R2 over units with 10 to 100,000 occurrences. `theodolite measures` defines each."
)


def print_layers(layers: pd.DataFrame, population: str, title: str, columns: list[str] | None = None) -> None:
    """Print one population's rows to stdout; every number to four digits, undefined as a dash."""
    shown = columns or list(HEADS)
    table = Table(title=f"{title} · population: {population}", title_justify="left", box=None, pad_edge=False)
    for column in shown:
        table.add_column(
            HEADS.get(column, column), justify="left" if column == "layer_name" else "right", no_wrap=True
        )
    for row in layers[layers["population"] == population].to_dict("records"):
        table.add_row(*(number(row[column]) for column in shown))
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=max(160, 11 * len(shown)))
    console.print(table)


def number(value: Any) -> str:
    """Return a cell's text.

    >>> number(0.123456), number(12345), number(float("nan")), number(123456.7)
    ('0.1235', '12,345', '–', '123,457')
    """
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def layers_json(layers: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows with nulls for what is undefined, and the reasons as an object."""
    rows: list[dict[str, Any]] = json.loads(layers.to_json(orient="records", double_precision=15))
    for row in rows:
        row["undefined"] = json.loads(row["undefined"]) if row["undefined"] else {}
    return rows
