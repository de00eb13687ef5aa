"""The whole page: no script, no network, nothing but this file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from theodolite.errors import InputError
from theodolite.report.compare import compare, side_by_side
from theodolite.report.figures import legend, panels
from theodolite.report.style import CSS
from theodolite.report.survey_section import contents, survey_section
from theodolite.report.tables import Tables
from theodolite.report.text import escape

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

SIGN = (
    '<svg class="brand" viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="9" r="6"/>'
    '<path d="M12 1v16M4 9h16M12 17l-6 6M12 17l6 6M12 17v6"/></svg>'
)


def render(surveys: Sequence[Tables | Mapping[str, Any]]) -> str:
    """Return the report on one survey or several as HTML; it can always be encoded as UTF-8."""
    read = [Tables.of(one) for one in surveys]
    if not read:
        raise InputError("surveys: wanted at least one survey to report on, got none. Pass a list of Tables.")
    title = read[0].name if len(read) == 1 else f"{len(read)} surveys"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="generator" content="theodolite">'
        f"<title>{escape(title)} · Theodolite</title><style>{CSS}</style></head><body>"
        f'<header class="page"><p class="kicker">{SIGN}Theodolite survey report</p>'
        f"<h1>{escape(title)}</h1></header>"
        f"<main>{_one(read[0]) if len(read) == 1 else _many(read)}</main>"
        '<footer class="page">Made by theodolite from finished tables; this page holds no script and fetches '
        "nothing.</footer></body></html>\n"
    )


def _one(tables: Tables) -> str:
    links = f'<nav class="contents" aria-label="Contents"><ul>{contents("s1")}</ul></nav>'
    return links + survey_section(tables, "s1", 2)


def _many(surveys: list[Tables]) -> str:
    named = list(enumerate(surveys, start=1))
    links = "".join(
        f'<li><a href="#s{i}">{escape(tables.name)}</a><ul>{contents(f"s{i}")}</ul></li>' for i, tables in named
    )
    strips = panels(compare(surveys), "all")
    key = legend([(i, tables.name) for i, tables in enumerate(surveys)])
    sections = "".join(
        f'<article class="survey" aria-labelledby="s{i}"><h2 id="s{i}">{escape(tables.name)}</h2>'
        f"{survey_section(tables, f's{i}', 3)}</article>"
        for i, tables in named
    )
    return (
        f'<nav class="contents many" aria-label="Contents"><ul>{links}</ul></nav>'
        f'<section class="part compare"><h2 id="compare">Side by side</h2>{key}{strips}'
        f"{side_by_side(surveys)}</section>{sections}"
    )
