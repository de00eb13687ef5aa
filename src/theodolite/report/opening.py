"""The first screen of the page: the verdict on each survey and series, reference ranges, and a chart."""

from __future__ import annotations

from theodolite.escaping import escape_html
from theodolite.report.references import KINDS, read_table
from theodolite.report.sections import WIDE, render_section, select_opening
from theodolite.report.summary import count_contents, describe_series, describe_survey, render_tiles
from theodolite.report.tables import Steps, Tables
from theodolite.report.vectors import is_vector_survey, reword_for_vectors
from theodolite.report.verdict import Reading, collect_readings, describe_series_verdict, describe_verdict
from theodolite.text import join_words

REFERENCES = "reference-models"
"""The anchor of the paragraph on the reference models."""


def render_opening(surveys: list[Tables], series: list[Steps]) -> str:
    """Return the verdicts and the empty section of the first chart; empty for a page of pictures."""
    several = len(surveys) + len(series) > 1
    verdicts = [_render_survey(tables, place, several) for place, tables in enumerate(surveys)]
    verdicts += [_render_series(one, several) for one in series]
    if not verdicts:
        return ""
    first = select_opening(surveys, [one.tables for one in series])
    chart = render_section(first, surveys) if first else ""
    wide = " wide" if first is None or first.key in WIDE else ""
    return f'<div class="opening{wide}" id="verdict"><div class="verdicts">{"".join(verdicts)}</div>{chart}</div>'


def _render_survey(tables: Tables, place: int, several: bool) -> str:
    name = f"<h2>{escape_html(tables.name)}</h2>" if several else ""
    readings = "".join(_render_reading(one, is_vector_survey(tables)) for one in collect_readings(tables))
    listed = f'<ul class="readings">{readings}</ul>' if readings else ""
    link = f' <a href="#findings" data-survey="{place}">Findings</a>' if several else ""
    return (
        f'<section class="verdict" aria-label="{escape_html(tables.name)}">{name}'
        f'<p class="judgement">{escape_html(describe_verdict(tables))}</p>'
        f'{listed}<p class="lead">{escape_html(describe_survey(tables))}{link}</p>'
        f"{'' if several else render_tiles(count_contents(tables))}</section>"
    )


def _render_series(series: Steps, several: bool) -> str:
    name = f"<h2>{escape_html(series.name)}</h2>" if several else ""
    counts = {"steps": len(series.steps)} | count_contents(series.tables)
    return (
        f'<section class="verdict" aria-label="{escape_html(series.name)}">{name}'
        f'<p class="judgement">{escape_html(describe_series_verdict(series.tables))}</p>'
        f'<p class="lead">{escape_html(describe_series(series))}</p>'
        f"{'' if several else render_tiles(counts)}</section>"
    )


def _render_reading(one: Reading, of_vectors: bool) -> str:
    """Return a number with its word, a scale, and the range of the reference models."""
    place = "" if of_vectors else f" {one.place}"
    label = reword_for_vectors(one.measure.label) if of_vectors else one.measure.label
    shown = "reference model" if one.word == "reference" else one.word
    word = f'<span class="word {one.word}">{shown}</span>' if one.word else ""
    reference = escape_html(one.describe_reference()).replace(
        "measured here", f'<a href="#{REFERENCES}">measured here</a>', 1
    )
    measured = f'<span class="range">{reference}</span>' if reference else ""
    return (
        f'<li><span class="what">{escape_html(label)} <b>{one.measure.format(one.value)}</b>'
        f'<span class="where">{escape_html(place)}</span></span>{_draw_scale(one)}{word}{measured}</li>'
    )


def _draw_scale(one: Reading) -> str:
    """Return a scale with a band for the reference models, a line for the layers of the survey, and its value."""
    if one.reference is None:
        return ""
    values = [one.span.low, one.span.high, one.reference.low, one.reference.high]
    low = min(0.0, *values)
    high = 1.1 * max(values) if one.measure.key == "twonn" else 1.0

    def x(value: float) -> float:
        return 2 + 196 * (min(value, high) - low) / (high - low)

    def bar(kind: str, start: float, end: float, height: int) -> str:
        size = f'width="{max(x(end) - x(start), 2):.1f}" height="{height}"'
        return f'<rect class="{kind}" x="{x(start):.1f}" y="{7 - height / 2:g}" {size}/>'

    return (
        '<svg class="scale" viewBox="0 0 200 14" preserveAspectRatio="none" aria-hidden="true">'
        f"{bar('ground', low, high, 4)}{bar('band', one.reference.low, one.reference.high, 12)}"
        f"{bar('own', one.span.low, one.span.high, 4)}{bar('value', one.value, one.value, 12)}</svg>"
    )


def render_references() -> str:
    """Return what the reference ranges rest on: models, date, versions and command."""
    rows = read_table()
    if not rows:
        return ""
    models = {
        plural: dict.fromkeys(f"{row['model']} on {row['corpus']}" for row in rows if row["kind"] == kind)
        for kind, plural in KINDS.items()
    }
    listed = "; ".join(f"{plural}: {join_words(list(names))}" for plural, names in models.items() if names)
    date, ours = (max(row[key] for row in rows) for key in ("date", "theodolite"))
    return (
        f'<p class="quiet" id="{REFERENCES}">Reference ranges go from the lowest to the highest layer of the '
        f"models that were measured with Theodolite {ours} on {date}: {escape_html(listed)}. They are few, so the "
        "ranges say what these models do, not what is normal; docs/reference-models.md has numbers and command. "
        "High and low mean outside the range. On a scale the band is the range, the line spans the layers of this "
        "survey, and the mark is the value.</p>"
    )
