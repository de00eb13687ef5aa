"""The report as one self-contained HTML page, and writing it to disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from theodolite.errors import InputError
from theodolite.escaping import escape_html
from theodolite.report.cards import render_comparison, render_findings, render_series_findings
from theodolite.report.catalogue import find_formulas, list_measures, render_definitions
from theodolite.report.findings import collect_findings
from theodolite.report.findings.comparison import compare_surveys
from theodolite.report.findings.training import find_training_changes
from theodolite.report.inline_assets import read_css, read_plotly, read_script, security_policy
from theodolite.report.layer_table import render_layer_table
from theodolite.report.opening import render_opening, render_references
from theodolite.report.payload import build_payload
from theodolite.report.payload.series import build_series_payload
from theodolite.report.pictures import Picture, render_pictures
from theodolite.report.provenance import render_provenance
from theodolite.report.sections import render_sections, select_sections
from theodolite.report.tables import Steps, Tables, label_surveys
from theodolite.report.vectors import are_vector_surveys, rewording_rules
from theodolite.storage.atomic import write_atomically
from theodolite.studies.choice import default_population
from theodolite.text import pluralize

LIMIT = 10_000_000
"""Bytes of a page; it is smaller. What the fixed parts leave is for tables and data, which are cut to fit."""
TABLES = 0.5
"""The most of what the fixed parts leave for the tables of all numbers."""
SIGN = (
    '<svg class="brand" viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="9" r="6"/>'
    '<path d="M12 1v16M4 9h16M12 17l-6 6M12 17l6 6M12 17v6"/></svg>'
)
NO_SCRIPT = (
    '<noscript><p class="warnings">The interactive charts require JavaScript, which is disabled. The findings and '
    "the table of all numbers work without it.</p></noscript>"
)


def render(
    surveys: Sequence[Tables | Mapping[str, Any]],
    series: Sequence[Steps | Mapping[str, Any]] = (),
    pictures: Sequence[Picture] = (),
) -> str:
    """Return the report on surveys, series and pictures of studies as HTML; it can always be encoded as UTF-8."""
    read = _label_all([Tables.of(one) for one in surveys])
    trained = [Steps.of(one) for one in series]
    if not read and not trained and not pictures:
        raise InputError("surveys: expected at least one survey to report on, got none. Pass a list of Tables.")
    title = _title(read, trained, pictures)
    every = [*read, *(one.tables for one in trained)]
    formulas = find_formulas(every)
    more = {
        "measures": list_measures(every, formulas),
        "series": [build_series_payload(one) for one in trained],
        "population": default_population(tables.facts for tables in read),
        "rewordings": rewording_rules() if are_vector_surveys(read) else [],
    }
    scripts = (
        [read_plotly(), read_script()] if every else [read_script()]
    )  # a page of pictures has no interactive charts
    start = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{security_policy(*scripts)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="generator" content="theodolite">'
        f"<title>{escape_html(title)} · Theodolite</title><style>{read_css()}</style></head><body>"
        f'<header class="page"><p class="kicker">{SIGN}Theodolite survey report</p>'
        f'<h1>{escape_html(title)}</h1><button type="button" id="theme" hidden></button></header>'
        f"<main>{_render_contents(read, trained, pictures)}{render_opening(read, trained)}"
        f"{_render_comparison(read)}{_render_findings(read)}{_render_trainings(trained, only=not read)}"
        f"{NO_SCRIPT if every else ''}{render_sections(read, [one.tables for one in trained])}"
        f"{render_pictures(pictures)}"
    )
    middle = (
        f"{_render_reference(read, trained, formulas)}</main>"
        '<footer class="page">Made with Theodolite. This page loads nothing from the network.</footer>'
        '<script type="application/json" id="data">'
    )
    end = f"</script>{''.join(f'<script>{text}</script>' for text in scripts)}</body></html>\n"
    left = LIMIT - 1 - sum(len(_encode(part)) for part in (start, middle, end))
    numbers = _render_numbers(read, int(TABLES * left), titled=len(every) > 1)
    data = build_payload(read, more, left - len(_encode(numbers)))
    if len(_encode(numbers)) + len(data) > left:  # numbers by layer of many surveys, which the data always has
        numbers = _render_numbers(read, left - len(data), titled=len(every) > 1)
    return f"{start}{numbers}{middle}{data}{end}"


def _label_all(surveys: list[Tables]) -> list[Tables]:
    """Return the surveys with names that all differ."""
    return [replace(tables, name=name) for tables, name in zip(surveys, label_surveys(surveys), strict=True)]


def _title(surveys: list[Tables], series: list[Steps], pictures: Sequence[Picture]) -> str:
    names = [*(one.name for one in surveys), *(one.name for one in series)]
    if len(names) == 1:
        return names[0]
    kinds = [pluralize(len(surveys), "survey")] if surveys else []
    kinds += [pluralize(len(series), "series", "series")] if series else []
    return " and ".join(kinds or [pluralize(len(pictures), "study", "studies")])


def _render_contents(surveys: list[Tables], series: list[Steps], pictures: Sequence[Picture]) -> str:
    links = {"verdict": "Verdict"} if surveys or series else {}
    links |= {"compare": "Comparison"} if len(surveys) > 1 else {}
    links |= {"findings": "Findings"} if surveys else {}
    links |= {"training": "What changed"} if series else {}
    links |= {part.key: part.title for part in select_sections(surveys, [one.tables for one in series])}
    links |= {"studies": "Studies"} if pictures else {}
    links |= {"numbers": "All numbers"} if surveys else {}
    links |= {"provenance": "Provenance", "definitions": "Definitions"} if surveys or series else {}
    items = "".join(f'<li><a href="#{key}">{title}</a></li>' for key, title in links.items())
    return f'<nav class="contents" aria-label="Contents"><ul>{items}</ul></nav>'


TOOLBAR = '<div class="toolbar" id="toolbar" role="group" aria-label="Chart settings" hidden></div>'


def _render_comparison(surveys: list[Tables]) -> str:
    if len(surveys) < 2:
        return ""
    return f'<section class="part"><h2 id="compare">Comparison</h2>{render_comparison(surveys)}</section>'


def _render_findings(surveys: list[Tables]) -> str:
    """Return the findings and the toolbar, which chooses the survey whose findings are shown."""
    if not surveys:
        return TOOLBAR
    if len(surveys) == 1:
        return f'<div id="findings">{render_findings(surveys[0], 0, 2)}</div>{TOOLBAR}'
    articles = "".join(
        f'<article class="survey" data-shows="{i}" aria-labelledby="s{i}">'
        f'<h2 id="s{i}">{escape_html(tables.name)}</h2>{render_findings(tables, i, 3)}</article>'
        for i, tables in enumerate(surveys)
    )
    return f'{TOOLBAR}<div id="findings">{articles}</div>'


def _render_trainings(series: list[Steps], *, only: bool) -> str:
    if not series:
        return ""
    if len(series) == 1 and only:
        return f'<div id="training">{render_series_findings(series[0], 0, 2)}</div>'
    articles = "".join(
        f'<article class="survey" aria-labelledby="t{i}"><h2 id="t{i}">{escape_html(one.name)}</h2>'
        f"{render_series_findings(one, i, 3)}</article>"
        for i, one in enumerate(series)
    )
    return f'<div id="training">{articles}</div>'


def _without_formulas(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts without the formula of each column, which the definitions have."""
    return {key: value for key, value in facts.items() if key != "formulas"}


def _fold(provenance: str) -> str:
    title = "Model, corpus, settings, versions and times"
    return f'<details class="provenance"><summary>{title}</summary>{provenance}</details>'


def _render_numbers(surveys: list[Tables], most: int, *, titled: bool) -> str:
    """Return the tables of all numbers in at most `most` bytes; the surveys share them as they need them."""
    made: dict[int, str] = {}
    for place in sorted(range(len(surveys)), key=lambda at: surveys[at].layers.size):
        tables = surveys[place]
        title = f"<h3>{escape_html(tables.name)}</h3>" if titled else ""
        share = most // (len(surveys) - len(made)) - len(_encode(title))
        made[place] = title + render_layer_table(tables, share)
        most -= len(_encode(made[place]))
    layers = "".join(made[place] for place in range(len(surveys)))
    return f'<section class="part table"><h2 id="numbers">All numbers</h2>{layers}</section>' if surveys else ""


def _render_reference(surveys: list[Tables], series: list[Steps], formulas: dict[str, str]) -> str:
    """Return the reference part of the page after the numbers: their provenance, and the definitions."""
    sources: list[Tables | Steps] = [*surveys, *series]
    if not sources:
        return ""
    used = {one.formula for tables in surveys for one in collect_findings(tables)}
    used |= {one.formula for one in compare_surveys(surveys)}
    used |= {one.formula for steps in series for one in find_training_changes(steps.tables)}
    level = 4 if len(sources) > 1 else 3
    provenance = "".join(
        (f"<h3>{escape_html(one.name)}</h3>" if len(sources) > 1 else "")
        + _fold(render_provenance(_without_formulas(one.facts), level))
        for one in sources
    )
    return (
        f'<section class="part"><h2 id="provenance">Provenance</h2>{provenance}</section>'
        '<section class="part"><h2 id="definitions">Definitions</h2>'
        f"{render_references() if surveys else ''}{render_definitions(formulas, used)}</section>"
    )


def _encode(text: str) -> bytes:
    # Names and tokens are made encodable where they are escaped; "replace" is a last resort.
    return text.encode("utf-8", "replace")


def write(
    surveys: Sequence[Tables | Mapping[str, Any]],
    path: Path,
    series: Sequence[Steps | Mapping[str, Any]] = (),
    pictures: Sequence[Picture] = (),
) -> None:
    """Write the report on surveys, series and pictures of studies; a failed write leaves the file as it was."""
    page = _encode(render(surveys, series, pictures))

    def write_page(file: Path) -> None:
        file.write_bytes(page)

    write_atomically(Path(path), write_page)
