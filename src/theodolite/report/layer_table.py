"""The complete layer table of a survey as HTML, collapsed by default."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate

from theodolite.escaping import escape_html
from theodolite.measures.columns import find_column
from theodolite.report.charts import legend_marker
from theodolite.report.tables import (
    SHARES,
    Row,
    Tables,
    layer_name,
    layer_rows,
    number,
    population_style,
    populations,
    undefined_reasons,
)
from theodolite.report.vectors import is_vector_survey, reword_for_vectors
from theodolite.text import UNDEFINED, format_aligned, format_count, pluralize

HEAD = ("layer", "layer_name", "population")
HIDDEN = {*HEAD, "undefined", *SHARES}
FRAME = 400  # bytes of the other elements, at most
UNKNOWN = "undefined; the survey gives no reason"


def render_layer_table(tables: Tables, most: int | None = None) -> str:
    """Return the table in a `<details>` element, sorted by layer and population.

    If the rows take more than `most` bytes, those of the first populations are kept, as many as fit.
    """
    columns = [str(name) for name in tables.layers.columns if str(name) not in HIDDEN]
    known = populations(tables)
    if not known:
        return '<p class="quiet">The survey has no layer table, so there are no numbers to show.</p>'
    rows = [
        (number(row, "layer"), style, _render_row(row, style, columns))
        for name in known
        for row in layer_rows(tables, name)
        for style in (population_style(name, known),)
    ]
    reword = reword_for_vectors if is_vector_survey(tables) else str
    head = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="All numbers of {escape_html(tables.name)}">'
        f'<table class="full"><thead><tr>{_render_heads(columns, reword)}</tr></thead><tbody>'
    )
    kept = rows
    if most is not None:
        sizes = accumulate((len(row.encode()) for *_, row in rows), initial=len(head.encode()) + FRAME)
        kept = [row for row, size in zip(rows, list(sizes)[1:], strict=True) if size <= most]
    body = "".join(row for *_, row in sorted(kept, key=lambda entry: entry[:2]))
    return (
        f"<details><summary>{_describe_size(len(rows), len(columns) + len(HEAD), len(kept))}</summary>"
        f"{head}{body}</tbody></table></div></details>"
    )


def format_table_cell(row: Row, column: str) -> str:
    """Return one number as a table cell; undefined is an en dash with the reason as its tooltip."""
    value = number(row, column)
    if math.isnan(value):
        given = row.get(column)
        if isinstance(given, str) and given:
            return f"<td>{escape_html(given)}</td>"
        why = undefined_reasons(row).get(column, UNKNOWN)
        return f'<td><span class="un" title="{escape_html(why)}">{UNDEFINED}</span></td>'
    whole = find_column(column).format == "integer" and math.isfinite(value)
    return f"<td>{format_count(value) if whole else format_aligned(value)}</td>"


def _describe_size(rows: int, columns: int, kept: int) -> str:
    if kept < rows:
        cut = f"{format_count(kept)} of {pluralize(rows, 'row')} and {pluralize(columns, 'column')}"
        return f"{cut}; layers.parquet has the others, for which the page has no room"
    every = f"All {format_count(rows)} rows" if rows > 1 else "One row"
    return f"{every} and {pluralize(columns, 'column')}"


def _render_heads(columns: list[str], reword: Callable[[str], str]) -> str:
    named = [f'<th scope="col" class="stay">{label}</th>' for label in ("layer", "population")]
    named += [f'<th scope="col"{_meaning(name, reword)}>{escape_html(name)}</th>' for name in columns]
    return "".join(named)


def _meaning(column: str, reword: Callable[[str], str]) -> str:
    meaning = find_column(column).meaning
    return f' title="{escape_html(reword(meaning))}"' if meaning else ""


def _render_row(row: Row, style: int, columns: list[str]) -> str:
    name = f"{number(row, 'layer'):g} {layer_name(row)}"
    first = ' class="top"' if style == 0 else ""
    return (
        f'<tr{first}><th scope="row" class="stay">{escape_html(name)}</th>'
        f'<td class="pop">{legend_marker(style)}{escape_html(row.get("population"))}</td>'
        f"{''.join(format_table_cell(row, column) for column in columns)}</tr>"
    )
