"""The layer table in the terminal, and as JSON."""

from __future__ import annotations

import json
import math
from typing import Any, Literal

import pandas as pd
from rich.console import Console
from rich.table import Table

from theodolite.errors import InputError, nearest

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
CONTEXTUAL = {"self_similarity": "self-sim", "intra_similarity": "intra-sim", "mev": "MEV"}  # where there are any
ALWAYS = ("layer", "layer_name")  # a number without its layer says nothing
LEGEND = (
    "Q = M + V, V = V_W + V_B; cos: mean cosine of all pairs; svd: share of the first direction; rank, PR, TwoNN: "
    "dimensions; CV, slope, R2 over units with 10 to 100,000 occurrences, special ones too. `theodolite measures` "
    "defines each."
)


def print_layers(layers: pd.DataFrame, population: str, title: str, columns: list[str] | None = None) -> None:
    """Print one population's rows to stdout; numbers to four digits, undefined as a dash.

    Where the terminal is too narrow the columns are printed in several blocks: a digit is never cut.
    """
    rows = layers[layers["population"] == population]
    records = rows.to_dict("records")
    told = [column for column in CONTEXTUAL if column in rows.columns and rows[column].notna().any()]
    chosen = [column for column in columns or [*HEADS, *told] if column not in ALWAYS]
    cells = {column: [number(record[column]) for record in records] for column in (*ALWAYS, *chosen)}
    console = Console(highlight=False, markup=False)
    width = console.width if console.is_terminal else 1000
    print(f"{title} · population: {population}")
    for block in _blocks(chosen, cells, width):
        table = Table(box=None, pad_edge=False)
        for column in block:
            side: Literal["left", "right"] = "left" if column == "layer_name" else "right"
            table.add_column(_head(column), justify=side, no_wrap=True)
        for row in zip(*(cells[column] for column in block), strict=True):
            table.add_row(*row)
        Console(highlight=False, markup=False, width=width).print(table, crop=False)


def columns_named(names: str, known: list[str]) -> list[str]:
    """Return the columns that a list with commas names, by their own names or by the headings of the table.

    >>> columns_named("cos, TwoNN,q", ["q", "mean_cosine", "twonn"])
    ['mean_cosine', 'twonn', 'q']
    """
    headed = {head.lower(): column for column, head in (HEADS | CONTEXTUAL).items()}
    chosen: dict[str, None] = {}
    for name in filter(None, map(str.strip, names.split(","))):
        column = name if name in known else headed.get(name.lower(), name.lower())
        if column not in known:
            count = f" There are {len(known)}; docs/survey-folder.md and --json have them."
            near = nearest(name.lower(), list(dict.fromkeys([*known, *headed]))) or count
            raise InputError(f"--columns: there is no column {name!r}.{near}")
        chosen[column] = None
    return list(chosen)


def _blocks(chosen: list[str], cells: dict[str, list[str]], width: int) -> list[list[str]]:
    """Cut the columns into blocks that fit the width, each led by the layer's number and name."""
    size = {column: max(map(len, [_head(column), *texts]), default=0) + 2 for column, texts in cells.items()}
    lead = sum(size[column] for column in ALWAYS)
    blocks: list[list[str]] = [[*ALWAYS]]
    used = lead
    for column in chosen:
        if used + size[column] > width and len(blocks[-1]) > len(ALWAYS):
            blocks.append([*ALWAYS])
            used = lead
        blocks[-1].append(column)
        used += size[column]
    return blocks


def _head(column: str) -> str:
    return HEADS.get(column) or CONTEXTUAL.get(column, column)


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
    """Return the rows with every digit, nulls for what is undefined, and the reasons as an object."""
    rows = []
    for record in layers.to_dict("records"):
        row = {str(column): _plain(value) for column, value in record.items()}
        row["undefined"] = json.loads(row["undefined"]) if row["undefined"] else {}
        rows.append(row)
    return rows


def _plain(value: Any) -> Any:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    return value.item() if hasattr(value, "item") else value
