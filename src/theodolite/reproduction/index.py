"""The index of a reproduction: a page without scripts, and the same as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from theodolite.escaping import escape_html
from theodolite.report.page import SIGN
from theodolite.reproduction.drawing import DrawResult
from theodolite.reproduction.plan import Task
from theodolite.storage.atomic import write_atomically
from theodolite.storage.location import parse_location

CSS = """
:root{color-scheme:light dark;--paper:#fdfcf9;--card:#fff;--ink:#1d2226;--quiet:#5d666d;--hair:#e2dfd8;
--link:#00598c;--mark:#d55e00}
@media screen and (prefers-color-scheme:dark){:root{--paper:#14181b;--card:#1b2024;--ink:#e7e9ea;
--quiet:#9aa5ad;--hair:#30383e;--link:#7cc4f0;--mark:#f08c3c}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Noto Sans","DejaVu Sans",sans-serif;overflow-wrap:anywhere}
header,main,footer{max-width:1060px;margin:0 auto;padding:0 24px}
header{padding-top:36px}
footer{color:var(--quiet);font-size:13px;padding-top:40px;padding-bottom:40px}
.kicker{display:flex;align-items:center;gap:8px;margin:0;color:var(--quiet);font-size:14px}
.brand{width:22px;height:22px;fill:none;stroke:var(--mark);stroke-width:1.6;stroke-linecap:round}
h1{font-size:34px;line-height:1.2;margin:6px 0 10px;letter-spacing:-.015em}
h2{font-size:24px;line-height:1.25;margin:40px 0 12px}
h3{font-size:16px;font-weight:400;margin:0 0 8px}
p{margin:0 0 8px}
a{color:var(--link)}
nav ul{list-style:none;margin:0;padding:10px 0;display:flex;flex-wrap:wrap;gap:4px 16px;font-size:14px;
border:solid var(--hair);border-width:1px 0}
.dim{color:var(--quiet)}
figure{margin:0 0 20px;padding:14px 16px 10px;background:var(--card);border:1px solid var(--hair);
border-radius:10px;scroll-margin-top:12px}
figure img{display:block;max-width:100%;height:auto;margin:0 auto;padding:8px;background:#fff;border-radius:6px}
figcaption{font-size:14px;line-height:1.5;color:var(--quiet);margin-top:8px}
summary{cursor:pointer;color:var(--link)}
.note{font-size:14px;margin:8px 0 0;border-left:3px solid var(--mark);padding-left:10px}
.files{margin:4px 0 0}
dl{margin:0}
dl div{padding:8px 0;border-top:1px solid var(--hair)}
dd{margin:2px 0 0;color:var(--quiet);font-size:15px}
@media print{figure{break-inside:avoid}nav,details,.files{display:none}}
""".strip()


REPORT = "report.html"
INCH = 136  # pixels per inch, so that a figure 7 inches wide fills the page
# Pictures are files next to the page, which is opened from a folder as often as it is served.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' file:"


def render_page(paper: str, corpus: str, tasks: Sequence[Task], results: Sequence[DrawResult], out: Path) -> str:
    """Return the index page as HTML."""
    of_paper = [result for result in results if result.drawn and not result.edition.suffix]
    beyond = [result for result in results if result.drawn and result.edition.suffix]
    missing = [result for result in results if not result.drawn]
    body = (
        _contents(results)
        + _section("paper", "As in the paper", "".join(map(_figure, of_paper)))
        + _section("beyond", "Beyond the paper", "".join(map(_figure, beyond)))
        + _section("missing", "Not drawn", _missing(missing))
        + _section("surveys", "Surveys and laboratories used", _surveys(tasks, out))
    )
    models = ", ".join(dict.fromkeys(task.model for task in tasks))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="generator" content="theodolite">'
        f"<title>{escape_html(paper)} · Theodolite</title><style>{CSS}</style></head><body>"
        f'<header><p class="kicker">{SIGN}Theodolite reproduction</p><h1>{escape_html(paper)}</h1>'
        f"<p>{escape_html(models)} on {escape_html(corpus)}: {_counts(results)}.</p></header><main>{body}</main>"
        "<footer>Made by Theodolite from finished surveys. This page contains no scripts.</footer></body></html>\n"
    )


def _counts(results: Sequence[DrawResult]) -> str:
    drawn, failed = sum(result.drawn for result in results), sum(result.failed for result in results)
    same = sum(bool(result.same_as) for result in results)
    missing = len(results) - drawn - failed - same
    parts = [f"{drawn} exhibits drawn"] + [f"{same} with the numbers of another"] * bool(same)
    parts += [f"{missing} without the data they need"] * bool(missing) + [f"{failed} failed"] * bool(failed)
    return ", ".join(parts)


def _contents(results: Sequence[DrawResult]) -> str:
    links = "".join(
        f'<li><a href="#{escape_html(result.edition.stem)}"{_dim(result)}>{escape_html(_label(result))}</a></li>'
        for result in results
    )
    return f'<nav aria-label="Exhibits"><ul>{links}</ul></nav>'


def _dim(result: DrawResult) -> str:
    return "" if result.drawn else ' class="dim"'


def _label(result: DrawResult) -> str:
    edition = result.edition
    return f"{edition.exhibit.id}, {edition.suffix}" if edition.suffix else edition.exhibit.id


def _section(name: str, title: str, inside: str) -> str:
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2>{inside}</section>' if inside else ""


def _figure(result: DrawResult) -> str:
    title = escape_html(result.edition.exhibit.title)
    links = " · ".join(
        f'<a href="{quote(path)}">{escape_html(ending)}</a>' for ending, path in result.files.items()
    )
    note = f'<p class="note">{escape_html(result.note)}</p>' if result.note else ""
    return (
        f'<figure id="{escape_html(result.edition.stem)}"><h3><b>{escape_html(_label(result))}</b> {title}</h3>'
        f"{_picture(result)}{note}"
        f"<figcaption><details><summary>Caption as text</summary><p>{escape_html(result.caption)}</p></details>"
        f'<p class="files">{links}</p></figcaption></figure>'
    )


def _picture(result: DrawResult) -> str:
    """Return the picture if it was drawn in a format that browsers show."""
    path = quote(result.files.get("png") or result.files.get("svg", ""))
    title, width = escape_html(result.edition.exhibit.title), round(INCH * result.inches)
    image = f'<img src="{path}" alt="{title}" width="{width}"'
    return f'<a href="{path}">{image} loading="lazy"></a>' if path else ""


def _missing(missing: Sequence[DrawResult]) -> str:
    rows = "".join(
        f'<div id="{escape_html(result.edition.stem)}"><dt><b>{escape_html(_label(result))}</b> '
        f"{escape_html(result.edition.exhibit.title)}</dt><dd>{escape_html(result.note)}</dd></div>"
        for result in missing
    )
    return f"<dl>{rows}</dl>" if rows else ""


def _surveys(tasks: Sequence[Task], out: Path) -> str:
    rows = "".join(f"<li>{_survey(task, out)}</li>" for task in tasks if not task.laboratory)
    rows += "".join(
        f"<li>{escape_html(task.model)}: <code>{escape_html(_relative(task.folder, out))}</code></li>"
        for task in tasks
        if task.laboratory
    )
    return f"<ul>{rows}</ul>"


def _survey(task: Task, out: Path) -> str:
    name, units, path = escape_html(task.model), escape_html(task.units), report_path(task, out)
    if path.endswith(REPORT):
        return f'<a href="{quote(path)}">{name}</a> by {units}'
    return f"{name} by {units}: <code>{escape_html(path)}</code>"


def report_path(task: Task, out: Path) -> str:
    """Return the path from the index page to a survey's report (or folder), or to the facts of a laboratory."""
    if task.laboratory:
        return _relative(
            task.folder / ("series.json" if task.laboratory == "dynamics" else "laboratory.json"), out
        )
    report = task.folder / REPORT
    return _relative(report if report.is_file() else task.folder, out)


def _relative(path: Path, out: Path) -> str:
    location = parse_location(path)
    return Path(os.path.relpath(location, out)).as_posix() if isinstance(location, Path) else str(location)


INDEX = "index.json"


@dataclass(frozen=True)
class Reproduction:
    """The result of a reproduction: its index page, the surveys used, and the outcome of every exhibit."""

    paper: str
    corpus: str
    out: Path
    tasks: list[Task]
    results: list[DrawResult]

    @property
    def index(self) -> Path:
        """The path of the index page."""
        return self.out / "index.html"

    @property
    def failed(self) -> list[DrawResult]:
        """Exhibits whose drawing raised an unexpected error."""
        return [result for result in self.results if result.failed]

    def write(self) -> None:
        """Write index.html and index.json."""
        _write(self.index, render_page(self.paper, self.corpus, self.tasks, self.results, self.out))
        _write(self.out / INDEX, json.dumps(self.to_dict(), indent=2) + "\n")

    def to_dict(self) -> dict[str, Any]:
        """Return the content of index.json; paths are relative to the page's folder."""
        return {
            "paper": self.paper,
            "corpus": self.corpus,
            "surveys": [
                {"model": task.model, "units": task.units, "report": report_path(task, self.out)}
                for task in self.tasks
                if not task.laboratory
            ],
            "laboratories": [
                {"laboratory": task.laboratory, "model": task.model, "facts": report_path(task, self.out)}
                for task in self.tasks
                if task.laboratory
            ],
            "exhibits": [_describe(result) for result in self.results],
        }


def _describe(result: DrawResult) -> dict[str, Any]:
    found = result.edition.exhibit
    state = "drawn" if result.drawn else "failed" if result.failed else "not drawn"
    return {
        "name": found.name,
        "edition": result.edition.suffix,
        "title": found.title,
        "kind": found.kind,
        "state": state,
        "caption": result.caption,
        "note": result.note,
        "same_as": result.same_as,
        "files": result.files,
    }


def _write(path: Path, text: str) -> None:
    write_atomically(path, lambda temporary: _write_text(temporary, text))


def _write_text(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "replace"))
