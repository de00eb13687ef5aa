"""What a reader sees first of a survey: what it was, in words and figures, and what it says."""

from __future__ import annotations

from theodolite.measures.formula import formulas
from theodolite.report.catalogue import anchor
from theodolite.report.findings import Finding, findings, warnings
from theodolite.report.findings.warnings import too_few
from theodolite.report.parts import present
from theodolite.report.profiles import line_chart
from theodolite.report.rows import populations, style_of
from theodolite.report.summary import figures, sentences, tiles
from theodolite.report.svg import draw, key_marker
from theodolite.report.tables import Tables
from theodolite.report.text import escape


def opening(tables: Tables, place: int, level: int) -> str:
    """Return lead, tiles, findings and cautions; `place` is the survey's number on the page."""
    cards = "".join(_card(tables, one, place) for one in findings(tables))
    cautions = "".join(f"<li>{escape(text)}</li>" for text in warnings(tables))
    noted = f'<ul class="warnings" aria-label="Cautions">{cautions}</ul>' if cautions else ""
    few = f'<p class="warnings few">{escape(said)}</p>' if (said := too_few(tables)) else ""
    none = "<li>No number is defined that a finding could be made from.</li>"
    return (
        f'<p class="lead">{escape(sentences(tables))}</p>{tiles(figures(tables))}'
        f'<section class="part findings"><h{level}>Findings</h{level}>{few}{_legend(tables)}'
        f'<ul class="cards">{cards or none}</ul>{noted}</section>'
    )


def _part(tables: Tables, one: Finding) -> str:
    """Return the part of the page that shows a finding best, else the profiles; empty where there are none."""
    there = {part.key for part in present([tables])}
    return next((key for key in (one.chart, "profiles") if key in there), "")


def _legend(tables: Tables) -> str:
    """Return which sign stands for which population, where there are several."""
    known = populations(tables)
    signs = "".join(f"<li>{key_marker(style_of(name, known))}{escape(name)}</li>" for name in known)
    return f'<ul class="signs" aria-label="Populations">{signs}</ul>' if len(known) > 1 else ""


def _card(tables: Tables, one: Finding, place: int) -> str:
    """Return a finding with its figure, a link to the chart that can be asked more, and one to the definition."""
    drawn = links = ""
    if one.column and one.column in tables.layers.columns:
        chart = line_chart(tables, one.column, one.headline)
        # One layer is one dot, and the figure above has said it.
        drawn = draw(chart, f"s{place}-{one.key}") if len(chart.points()) > len(chart.series) else ""
        part = _part(tables, one)
        links = (
            f'<a href="#{part}" data-measure="{escape(one.column)}" data-survey="{place}" '
            f'data-layer="{escape(one.place.removeprefix("at ").removeprefix("the "))}">Explore</a>'
            if part
            else ""
        )
    if one.formula in formulas():
        links += f' <a href="{anchor(one.formula)}">Definition</a>'
    return (
        f'<li class="card"><strong class="figure">{escape(one.figure)}</strong>'
        f"<b>{escape(one.headline)}</b><p>{escape(one.text)}</p>{drawn}"
        f'<p class="links">{links}</p></li>'
    )
