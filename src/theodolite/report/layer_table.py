"""Every number of the layer table, folded away until asked for."""

from __future__ import annotations

import math
from collections.abc import Callable

from theodolite.naming import several
from theodolite.report.columns import COUNTS, MEANINGS
from theodolite.report.numbers import UNDEFINED, count
from theodolite.report.numbers import cell as written
from theodolite.report.rows import Row, layer_name, layer_rows, number, populations, reasons, style_of
from theodolite.report.shares import SHARES
from theodolite.report.svg import key_marker
from theodolite.report.tables import Tables
from theodolite.report.text import escape
from theodolite.report.vectors import of_vectors, told_of_vectors

HEAD = ("layer", "layer_name", "population")
HIDDEN = {*HEAD, "undefined", *SHARES}
UNKNOWN = "not defined here; the survey gives no reason"


def layer_table(tables: Tables) -> str:
    """Return the whole table as HTML in a `<details>`, rows by layer and then population."""
    columns = [str(name) for name in tables.layers.columns if str(name) not in HIDDEN]
    known = populations(tables)
    if not known:
        return '<p class="quiet">The survey has no layer table, so there is no number to show.</p>'
    rows = [
        (number(row, "layer"), style_of(name, known), row) for name in known for row in layer_rows(tables, name)
    ]
    rows.sort(key=lambda entry: entry[:2])
    body = "".join(_row(row, style, columns) for _, style, row in rows)
    said = told_of_vectors if of_vectors(tables) else str
    return (
        f"<details><summary>{_size(len(rows), len(columns) + len(HEAD))}</summary>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="All numbers of {escape(tables.name)}">'
        f'<table class="full"><thead><tr>{_heads(columns, said)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></details>"
    )


def cell(row: Row, column: str) -> str:
    """Return one number as a table cell; undefined is an en dash that says why when pointed at."""
    value = number(row, column)
    if math.isnan(value):
        given = row.get(column)
        if isinstance(given, str) and given:
            return f"<td>{escape(given)}</td>"
        why = reasons(row).get(column, UNKNOWN)
        return f'<td><span class="un" title="{escape(why)}">{UNDEFINED}</span></td>'
    return f"<td>{count(value) if column in COUNTS and math.isfinite(value) else written(value)}</td>"


def _size(rows: int, columns: int) -> str:
    every = f"All {count(rows)} rows" if rows > 1 else "One row"
    return f"{every} and {several(columns, 'column')}"


def _heads(columns: list[str], said: Callable[[str], str]) -> str:
    named = [f'<th scope="col" class="stay">{label}</th>' for label in ("layer", "population")]
    named += [f'<th scope="col"{_meaning(name, said)}>{escape(name)}</th>' for name in columns]
    return "".join(named)


def _meaning(column: str, said: Callable[[str], str]) -> str:
    meaning = MEANINGS.get(column) or ("Quantile of the norm" if column.startswith("norm_") else "")
    return f' title="{escape(said(meaning))}"' if meaning else ""


def _row(row: Row, style: int, columns: list[str]) -> str:
    name = f"{number(row, 'layer'):g} {layer_name(row)}"
    first = ' class="top"' if style == 0 else ""
    return (
        f'<tr{first}><th scope="row" class="stay">{escape(name)}</th>'
        f'<td class="pop">{key_marker(style)}{escape(row.get("population"))}</td>'
        f"{''.join(cell(row, column) for column in columns)}</tr>"
    )
