"""What a reader sees first of a series: which steps of which model, and what changed over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from theodolite.measures.formula import formulas
from theodolite.naming import several
from theodolite.report.catalogue import anchor
from theodolite.report.chart import Chart, Series
from theodolite.report.findings import Finding
from theodolite.report.findings.training import over_steps, training
from theodolite.report.numbers import count
from theodolite.report.rows import populations, style_of
from theodolite.report.series_tables import Steps
from theodolite.report.summary import figures, tiles
from theodolite.report.svg import draw
from theodolite.report.tables import Tables
from theodolite.report.text import escape


def series_opening(series: Steps, place: int, level: int) -> str:
    """Return lead, tiles and findings; `place` is the series' number on the page."""
    tables = series.tables
    known = {"steps": len(series.steps)} | figures(tables)
    cards = "".join(_card(tables, one, place) for one in training(tables))
    none = "<li>Fewer than two steps tell a measure that a finding could be made from.</li>"
    return (
        f'<p class="lead">{escape(sentence(series))}</p>{tiles(known)}'
        f'<section class="part findings"><h{level}>What changed</h{level}>'
        f'<ul class="cards">{cards or none}</ul></section>'
    )


def sentence(series: Steps) -> str:
    """Say which model was read at which steps on what."""
    model = _named(series.facts.get("model")) or series.name
    corpus = _named(series.facts.get("corpus"))
    steps = series.steps
    ends = f", from {count(steps[0])} to {count(steps[-1])}" if len(steps) > 1 else ""
    read = f" on the same text ({corpus})" if corpus else " on the same text"
    return f"{model} was measured at {several(len(steps), 'step')} of its training{ends}, each time{read}."


def step_chart(series: Tables, column: str, title: str) -> Chart:
    """Return the mean over layers, of the first population, as a small chart; steps stand evenly spaced."""
    known = populations(series)
    curve, _ = over_steps(series, known[0], column)
    line = Series(
        known[0],
        style_of(known[0], known),
        x=tuple(float(i) for i in range(len(curve))),
        y=tuple(one.value for one in curve),
        places=tuple(f"step {count(one.step)}" for one in curve),
    )
    names = tuple(count(one.step) for one in curve)
    return Chart(column.replace("_", "-"), title, (line,), x_label="training step", x_names=names)


def _card(tables: Tables, one: Finding, place: int) -> str:
    chart = draw(step_chart(tables, one.column, one.headline), f"t{place}-{one.key}")
    links = f'<a href="#steps" data-measure="{escape(one.column)}" data-series="{place}">Explore</a>'
    if one.formula in formulas():
        links += f' <a href="{anchor(one.formula)}">Definition</a>'
    return (
        f'<li class="card"><strong class="figure">{escape(one.figure)}</strong><b>{escape(one.headline)}</b>'
        f'<p>{escape(one.text)}</p>{chart}<p class="links">{links}</p></li>'
    )


def _named(part: Any) -> str:
    return str(part.get("name") or "") if isinstance(part, Mapping) else ""
