"""The index page: every exhibit with its picture, caption and files, and why some were not drawn. No script."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from theodolite.report.page import SIGN
from theodolite.report.text import escape
from theodolite.reproduction.drawing import Shown
from theodolite.reproduction.plan import Task
from theodolite.reproduction.style import CSS
from theodolite.surveys.storage import placed

REPORT = "report.html"
INCH = 136  # pixels, so that a picture of 7 inches fills the page
# Pictures lie beside the page, which is as often opened from a folder as it is served.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' file:"


def render(paper: str, corpus: str, tasks: Sequence[Task], shown: Sequence[Shown], out: Path) -> str:
    """Return the page as HTML."""
    of_paper = [one for one in shown if one.drawn and not one.edition.told]
    beyond = [one for one in shown if one.drawn and one.edition.told]
    missing = [one for one in shown if not one.drawn]
    body = (
        _contents(shown)
        + _section("paper", "As in the paper", "".join(map(_figure, of_paper)))
        + _section("beyond", "Beyond the paper", "".join(map(_figure, beyond)))
        + _section("missing", "Not drawn", _missing(missing))
        + _section("surveys", "What they rest on", _surveys(tasks, out))
    )
    models = ", ".join(dict.fromkeys(task.model for task in tasks))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="generator" content="theodolite">'
        f"<title>{escape(paper)} · Theodolite</title><style>{CSS}</style></head><body>"
        f'<header><p class="kicker">{SIGN}Theodolite reproduction</p><h1>{escape(paper)}</h1>'
        f"<p>{escape(models)} on {escape(corpus)}: {_counts(shown)}.</p></header><main>{body}</main>"
        "<footer>Made by theodolite from finished surveys; this page holds no script.</footer></body></html>\n"
    )


def _counts(shown: Sequence[Shown]) -> str:
    drawn, failed = sum(one.drawn for one in shown), sum(one.failed for one in shown)
    rest = len(shown) - drawn - failed
    parts = [f"{drawn} exhibits drawn"]
    parts += [f"{rest} without what they need"] * bool(rest) + [f"{failed} failed"] * bool(failed)
    return ", ".join(parts)


def _contents(shown: Sequence[Shown]) -> str:
    links = "".join(
        f'<li><a href="#{escape(one.edition.stem)}"{_dim(one)}>{escape(_label(one))}</a></li>' for one in shown
    )
    return f'<nav aria-label="Exhibits"><ul>{links}</ul></nav>'


def _dim(one: Shown) -> str:
    return "" if one.drawn else ' class="dim"'


def _label(one: Shown) -> str:
    return f"{one.edition.exhibit.id}, {one.edition.told}" if one.edition.told else one.edition.exhibit.id


def _section(name: str, title: str, inside: str) -> str:
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2>{inside}</section>' if inside else ""


def _figure(one: Shown) -> str:
    title = escape(one.edition.exhibit.title)
    links = " · ".join(f'<a href="{quote(path)}">{escape(ending)}</a>' for ending, path in one.files.items())
    note = f'<p class="note">{escape(one.note)}</p>' if one.note else ""
    return (
        f'<figure id="{escape(one.edition.stem)}"><h3><b>{escape(_label(one))}</b> {title}</h3>'
        f"{_picture(one)}{note}"
        f"<figcaption><details><summary>Caption as text</summary><p>{escape(one.caption)}</p></details>"
        f'<p class="files">{links}</p></figcaption></figure>'
    )


def _picture(one: Shown) -> str:
    """Return the picture, if it was drawn in a format that a page shows."""
    path = quote(one.files.get("png") or one.files.get("svg", ""))
    image = f'<img src="{path}" alt="{escape(one.edition.exhibit.title)}" width="{round(INCH * one.inches)}"'
    return f'<a href="{path}">{image} loading="lazy"></a>' if path else ""


def _missing(missing: Sequence[Shown]) -> str:
    rows = "".join(
        f'<div id="{escape(one.edition.stem)}"><dt><b>{escape(_label(one))}</b> '
        f"{escape(one.edition.exhibit.title)}</dt><dd>{escape(one.note)}</dd></div>"
        for one in missing
    )
    return f"<dl>{rows}</dl>" if rows else ""


def _surveys(tasks: Sequence[Task], out: Path) -> str:
    rows = "".join(f"<li>{_survey(task, out)}</li>" for task in tasks if not task.laboratory)
    rows += "".join(
        f"<li>{escape(task.model)}: <code>{escape(_from(task.folder, out))}</code></li>"
        for task in tasks
        if task.laboratory
    )
    return f"<ul>{rows}</ul>"


def _survey(task: Task, out: Path) -> str:
    name, units, there = escape(task.model), escape(task.units), report_of(task, out)
    if there.endswith(REPORT):
        return f'<a href="{quote(there)}">{name}</a> by {units}'
    return f"{name} by {units}: <code>{escape(there)}</code>"


def report_of(task: Task, out: Path) -> str:
    """Return the way from the index page to a survey's report, or its folder; to what a laboratory found."""
    if task.laboratory:
        return _from(task.folder / ("series.json" if task.laboratory == "dynamics" else "laboratory.json"), out)
    report = task.folder / REPORT
    return _from(report if report.is_file() else task.folder, out)


def _from(path: Path, out: Path) -> str:
    place = placed(path)
    return Path(os.path.relpath(place, out)).as_posix() if isinstance(place, Path) else str(place)
