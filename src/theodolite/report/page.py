"""The whole page: findings in words, charts that answer, every number and where it comes from, in one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from theodolite.errors import InputError
from theodolite.naming import several
from theodolite.report.catalogue import formulas_of, measures
from theodolite.report.comparison import comparison
from theodolite.report.definitions import definitions
from theodolite.report.findings import findings
from theodolite.report.findings.labels import labels
from theodolite.report.findings.together import together
from theodolite.report.findings.training import training
from theodolite.report.inlined import css, plotly, policy, script
from theodolite.report.layer_table import layer_table
from theodolite.report.opening import opening
from theodolite.report.parts import present, sections
from theodolite.report.payload import payload
from theodolite.report.payload.series import series_payload
from theodolite.report.pictures import Picture, pictures_section
from theodolite.report.provenance import provenance
from theodolite.report.series_opening import series_opening
from theodolite.report.series_tables import Steps
from theodolite.report.tables import Tables
from theodolite.report.text import escape
from theodolite.report.vectors import all_of_vectors, for_script

SIGN = (
    '<svg class="brand" viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="9" r="6"/>'
    '<path d="M12 1v16M4 9h16M12 17l-6 6M12 17l6 6M12 17v6"/></svg>'
)
NO_SCRIPT = (
    '<noscript><p class="warnings">The charts need JavaScript, which is off. The findings above and the numbers '
    "below are all here without it.</p></noscript>"
)


def render(
    surveys: Sequence[Tables | Mapping[str, Any]],
    series: Sequence[Steps | Mapping[str, Any]] = (),
    pictures: Sequence[Picture] = (),
) -> str:
    """Return the report on surveys, series and pictures of studies as HTML; it can always be encoded as UTF-8."""
    read = _named([Tables.of(one) for one in surveys])
    trained = [Steps.of(one) for one in series]
    if not read and not trained and not pictures:
        raise InputError("surveys: wanted at least one survey to report on, got none. Pass a list of Tables.")
    title = _title(read, trained, pictures)
    every = [*read, *(one.tables for one in trained)]
    formulas = formulas_of(every)
    more = {
        "measures": measures(every, formulas),
        "series": [series_payload(one) for one in trained],
        "words": for_script() if all_of_vectors(read) else [],
    }
    data = payload(read, more)
    scripts = [plotly(), script()] if every else [script()]  # pictures alone are drawn already
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(*scripts)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="generator" content="theodolite">'
        f"<title>{escape(title)} · Theodolite</title><style>{css()}</style></head><body>"
        f'<header class="page"><p class="kicker">{SIGN}Theodolite survey report</p>'
        f'<h1>{escape(title)}</h1><button type="button" id="theme" hidden></button></header>'
        f"<main>{_contents(read, trained, pictures)}{_openings(read)}{_trainings(trained, alone=not read)}"
        '<div class="toolbar" id="toolbar" role="group" aria-label="What the charts show" hidden></div>'
        f"{NO_SCRIPT if every else ''}{sections(read, [one.tables for one in trained])}"
        f"{pictures_section(pictures)}{_behind(read, trained, formulas)}</main>"
        '<footer class="page">Made by theodolite from finished tables. This page fetches nothing.</footer>'
        f'<script type="application/json" id="data">{data}</script>'
        f"{''.join(f'<script>{text}</script>' for text in scripts)}</body></html>\n"
    )


def _named(surveys: list[Tables]) -> list[Tables]:
    """Return the surveys under names that are all different."""
    return [replace(tables, name=name) for tables, name in zip(surveys, labels(surveys), strict=True)]


def _title(surveys: list[Tables], series: list[Steps], pictures: Sequence[Picture]) -> str:
    names = [*(one.name for one in surveys), *(one.name for one in series)]
    if len(names) == 1:
        return names[0]
    kinds = [several(len(surveys), "survey")] if surveys else []
    kinds += [several(len(series), "series", "series")] if series else []
    return " and ".join(kinds or [several(len(pictures), "study", "studies")])


def _contents(surveys: list[Tables], series: list[Steps], pictures: Sequence[Picture]) -> str:
    links = {"compare": "Together"} if len(surveys) > 1 else {}
    links |= {"findings": "Findings"} if surveys else {}
    links |= {"training": "What changed"} if series else {}
    links |= {part.key: part.title for part in present(surveys, [one.tables for one in series])}
    links |= {"studies": "Studies"} if pictures else {}
    links |= {"numbers": "Every number"} if surveys else {}
    links |= {"provenance": "Where it comes from", "definitions": "Definitions"} if surveys or series else {}
    items = "".join(f'<li><a href="#{key}">{title}</a></li>' for key, title in links.items())
    return f'<nav class="contents" aria-label="Contents"><ul>{items}</ul></nav>'


def _openings(surveys: list[Tables]) -> str:
    if not surveys:
        return ""
    if len(surveys) == 1:
        return f'<div id="findings">{opening(surveys[0], 0, 2)}</div>'
    articles = "".join(
        f'<article class="survey" aria-labelledby="s{i}"><h2 id="s{i}">{escape(tables.name)}</h2>'
        f"{opening(tables, i, 3)}</article>"
        for i, tables in enumerate(surveys)
    )
    together = f'<section class="part"><h2 id="compare">Together</h2>{comparison(surveys)}</section>'
    return f'{together}<div id="findings">{articles}</div>'


def _trainings(series: list[Steps], *, alone: bool) -> str:
    if not series:
        return ""
    if len(series) == 1 and alone:
        return f'<div id="training">{series_opening(series[0], 0, 2)}</div>'
    articles = "".join(
        f'<article class="survey" aria-labelledby="t{i}"><h2 id="t{i}">{escape(one.name)}</h2>'
        f"{series_opening(one, i, 3)}</article>"
        for i, one in enumerate(series)
    )
    return f'<div id="training">{articles}</div>'


def _origin(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts without the formula of every column of every table: the definitions tell those."""
    return {key: value for key, value in facts.items() if key != "formulas"}


def _behind(surveys: list[Tables], series: list[Steps], formulas: dict[str, str]) -> str:
    """Return what stands behind the charts: every number, its origin, its definition."""
    sources: list[Tables | Steps] = [*surveys, *series]
    if not sources:
        return ""

    def each(things: Sequence[Tables | Steps], make: Callable[[Any], str]) -> str:
        return "".join((f"<h3>{escape(one.name)}</h3>" if len(sources) > 1 else "") + make(one) for one in things)

    told = {one.formula for tables in surveys for one in findings(tables)}
    told |= {one.formula for one in together(surveys)}
    told |= {one.formula for steps in series for one in training(steps.tables)}
    numbers = (
        f'<section class="part table"><h2 id="numbers">Every number</h2>{each(surveys, layer_table)}</section>'
    )
    return (
        f"{numbers if surveys else ''}"
        '<section class="part"><h2 id="provenance">Where it comes from</h2>'
        f"{each(sources, lambda one: provenance(_origin(one.facts), 4 if len(sources) > 1 else 3))}</section>"
        f'<section class="part"><h2 id="definitions">Definitions</h2>{definitions(formulas, told)}</section>'
    )
