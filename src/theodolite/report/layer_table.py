"""The complete layer table of a survey as HTML, collapsed by default."""

from __future__ import annotations

import math
from collections.abc import Callable

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
UNKNOWN = "undefined; the survey gives no reason"


def render_layer_table(tables: Tables) -> str:
    """Return the complete table in a `<details>` element, sorted by layer and population."""
    columns = [str(name) for name in tables.layers.columns if str(name) not in HIDDEN]
    known = populations(tables)
    if not known:
        return '<p class="quiet">The survey has no layer table, so there are no numbers to show.</p>'
    rows = [
        (number(row, "layer"), population_style(name, known), row)
        for name in known
        for row in layer_rows(tables, name)
    ]
    rows.sort(key=lambda entry: entry[:2])
    body = "".join(_render_row(row, style, columns) for _, style, row in rows)
    reword = reword_for_vectors if is_vector_survey(tables) else str
    return (
        f"<details><summary>{_describe_size(len(rows), len(columns) + len(HEAD))}</summary>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="All numbers of {escape_html(tables.name)}">'
        f'<table class="full"><thead><tr>{_render_heads(columns, reword)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></details>"
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


def _describe_size(rows: int, columns: int) -> str:
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
